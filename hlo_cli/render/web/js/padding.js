// The section of padding: shapes by padded bytes, and the dimension order that would need fewest.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {numberOf} from "./store.js";

export function drawPaddingSection({body, key}, {report, store}) {
  const {shapes} = report.tables;
  if (!shapes || !shapes.rows.some(row => numberOf(row.padding_bytes))) return;
  const waste = () => "waste";
  const columns = columnsOf(shapes, [
    {name: "shape", label: "shape", most: 40, isLink: true},
    {name: "space_name", label: "memory", low: true},
    {name: "count", label: "values", low: true},
    {name: "padding_bytes", label: "padding", bar: "waste", lowBar: true, tone: waste},
    {name: "padding", label: "padding", total: {part: "padding_bytes", whole: "padded_bytes"}},
    {name: "best_order", label: "best order", isCode: true, most: 30},
    {name: "saving_bytes", label: "saving", optional: true, tone: () => "saving"},
    {name: "example", label: "example", low: true},
    {name: "example_source", label: "source line", low: true},
  ]);
  const own = row => ({instruction: row.example, source: row.example_source || null});
  body.append(
    createTable(store, {
      name: "shapes", section: key, noun: "shapes", rows: shapes.rows, columns, sort: "padding_bytes", own,
    })
  );
}
