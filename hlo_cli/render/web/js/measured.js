// The section of measured time: where a mean step goes, and kernels with their times, and the prediction next to them.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";

export function drawMeasuredSection({body, key}, {report, store}) {
  const {measured, step_parts: parts} = report.tables;
  if (parts) {
    const columns = columnsOf(parts, [
      {name: "step_part", label: "where a mean step goes"},
      {name: "seconds", label: "time", bar: true, lowBar: true},
      {name: "share", label: "share", low: true},
      {name: "least_seconds", label: "min", low: true},
      {name: "greatest_seconds", label: "max", low: true},
      {name: "main_cause", label: "mostly", low: true, most: 50},
    ]);
    const own = () => null;
    body.append(
      createTable(store, {name: "step_parts", section: key, noun: "parts", rows: parts.rows, columns, own})
    );
  }
  if (!measured) return;
  const columns = columnsOf(measured, [
    {name: "instruction", label: "kernel", isCode: true, most: 40},
    {name: "measured_seconds", label: "measured", bar: true, lowBar: true},
    {name: "share", label: "share", low: true},
    {name: "calls", label: "calls", low: true},
    {name: "mean_seconds", label: "per call", low: true},
    {name: "predicted_total_seconds", label: "predicted", low: true},
    {name: "factor", label: "measured / predicted", low: true},
    {name: "category", label: "category", low: true},
    {name: "source", label: "source", low: true, isLink: true},
  ]);
  const own = row => ({instruction: row.instruction, source: row.source || null});
  body.append(
    createTable(store, {
      name: "measured", section: key, noun: "kernels", rows: measured.rows, columns, own,
      sort: "measured_seconds", top: 12,
    })
  );
}
