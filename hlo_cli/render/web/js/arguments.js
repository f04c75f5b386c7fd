// The section of arguments: parameters and results by shape and sharding.

import {element} from "./dom.js";
import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {isMissing} from "./units.js";

export function drawArgumentsSection({body, key}, {report, store}) {
  const {parameters, results} = report.tables;
  for (const [table, name, title] of [[parameters, "parameters", "Parameters"], [results, "results", "Results"]]) {
    if (!table || !table.rows.length) continue;
    const head = parameters && results ? element("h3", {text: title}) : null;
    body.append(element("div", {}, head, createArrays(store, table, name, key)));
  }
}

// A chosen row searches for the shape that a device holds, which is that of its buffers.
function createArrays(store, table, name, section) {
  const isSharded = table.rows.some(row => row.shard !== row.shape);
  const hasShape = table.rows.some(row => !isMissing(row.shape));
  const isPadded = table.rows.some(row => row.padding);
  const copies = row => (row.replication > 1 ? "waste" : null);
  const columns = columnsOf(table, [
    {name: "shape", label: "shape"},
    isSharded && {name: "shard", label: "per device", low: hasShape},
    {name: "count", label: "arrays", low: true},
    isSharded && {name: "spec", label: "sharding", isCode: true, most: 40},
    isSharded && {name: "replication", label: "copies", low: true, tone: copies, hint: "devices with the same shard"},
    isPadded && {name: "data_bytes", label: "data", low: true},
    {name: "shard_bytes", label: "size", bar: true, lowBar: true, hint: "on a device, with padding"},
    {name: "padding", label: "padding", low: true, optional: true, tone: () => "waste"},
    {name: "saving_bytes", label: "saving", low: true, optional: true, tone: () => "saving"},
    {name: "example", label: "example", low: true, most: 44},
  ].filter(Boolean));
  const shapeOf = row => [row.shard, row.shape].find(shape => shape && shape !== "?");
  const own = row => (shapeOf(row) ? {} : null);
  const choose = row => {
    const query = shapeOf(row);
    store.set({query: store.state.query === query ? "" : query});
  };
  const {noun, rows} = table;
  return createTable(store, {name, section, noun, rows, columns, sort: "shard_bytes", own, choose});
}
