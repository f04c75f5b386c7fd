// The section of source lines: what each costs. A chosen line filters all tables, and marks what it makes.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {fileLine} from "./words.js";

const IS_LINE = /:\d+$/;

export function drawLinesSection({body, key}, {report, store}) {
  const {lines} = report.tables;
  if (!lines) return;
  const has = name => lines.columns.some(column => column.name === name);
  const waste = () => "waste";
  const columns = columnsOf(lines, [
    {name: "source", label: "source line", most: 40, isLink: true},
    {name: "measured_seconds", label: "measured", bar: true, lowBar: true},
    {name: "seconds", label: "est. time", bar: !has("measured_seconds"), lowBar: true},
    {name: "unknown_times", label: "unknown time", optional: true, low: true, hint: "kernels that the time excludes"},
    {name: "bytes", label: "accessed", bar: !has("seconds") && !has("measured_seconds"), lowBar: true},
    {name: "flops", label: "flops", unit: "flops", optional: true, low: true},
    {name: "launches", label: "launches", low: true},
    {name: "peak_bytes", label: "at peak", optional: true},
    {name: "exposed_seconds", label: "exposed", optional: true, low: true, tone: waste},
    !has("exposed_seconds") && {name: "exposed_bytes", label: "exposed", optional: true, low: true, tone: waste},
    {name: "synchronous_bytes", label: "synchronous", optional: true, low: true, tone: () => "alarm"},
    {name: "padding_bytes", label: "padding", optional: true, low: true, tone: waste},
  ].filter(Boolean));
  const sort = ["measured_seconds", "seconds", "bytes"].find(has);
  const own = row => (IS_LINE.test(row.source) ? {source: row.source} : null);
  const choose = (row, isChosen) => {
    if (isChosen) store.set({selected: null, query: ""});
    else {
      store.show({source: row.source});
      store.set({query: fileLine(row.source)});
    }
  };
  body.append(
    createTable(store, {
      name: "lines", section: key, noun: "lines", rows: lines.rows, columns, sort, top: 12, own, choose,
    })
  );
}
