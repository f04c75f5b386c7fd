// The section of collectives: what a device sends over each axis of the mesh, by kind.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";

export function drawCollectivesSection({body, key}, {report, store}) {
  const {collectives} = report.tables;
  if (!collectives) return;
  const hasTime = collectives.columns.some(column => column.name === "seconds");
  const columns = columnsOf(collectives, [
    {name: "kind", label: "collective"},
    {name: "axis", label: "axis"},
    {name: "devices", label: "devices", low: true, hint: "devices in a group"},
    {name: "sites", label: "instructions", low: true},
    {name: "async_sites", label: "async", optional: true, low: true},
    {name: "runs", label: "executions", low: true},
    {name: "payload_bytes", label: "payload", low: true},
    {name: "wire_bytes", label: "sent", bar: !hasTime, lowBar: true},
    {name: "seconds", label: "est. time", bar: true, lowBar: true},
    {name: "groups", label: "groups", low: true, isCode: true, most: 40},
  ]);
  const sort = hasTime ? "seconds" : "wire_bytes";
  const own = row => (row.kind ? {} : null);
  const choose = row => store.set({query: store.state.query === row.kind ? "" : row.kind});
  body.append(
    createTable(store, {
      name: "collectives", section: key, noun: "kinds", rows: collectives.rows, columns, sort, top: 12, own, choose,
    })
  );
}
