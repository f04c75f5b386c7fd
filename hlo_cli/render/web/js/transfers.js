// The section of transfers: async operations and synchronous collectives by kind, and each of the former.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {isExposed} from "./lanes.js";
import {inferredTone, lineOfRow} from "./words.js";

export function drawTransfersSection({body, key}, page) {
  const {operations} = page.report.tables;
  if (operations) body.append(createKinds(page.store, operations, key));
}

function createKinds(store, operations, section) {
  const waste = () => "waste";
  const alarm = () => "alarm";
  const columns = columnsOf(operations, [
    {name: "operation", label: "operation"},
    {name: "pairs", label: "async", optional: true},
    {name: "bytes", label: "size", optional: true, bar: true, lowBar: true},
    {name: "total_seconds", label: "duration", low: true},
    {name: "unoverlapped", label: "no overlap", optional: true, low: true},
    {name: "unoverlapped_bytes", label: "no overlap", optional: true, low: true, tone: waste},
    {name: "exposed_seconds", label: "exposed", optional: true, tone: waste},
    {name: "synchronous", label: "synchronous", optional: true, low: true},
    {name: "synchronous_bytes", label: "synchronous", optional: true, tone: alarm},
    {name: "execution_share", label: "of total", optional: true, low: true},
  ]);
  const costs = ["exposed_seconds", "bytes", "synchronous_bytes"];
  const sort = costs.find(name => operations.rows.some(row => row[name] > 0)) ?? "";
  return createTable(store, {
    name: "operations", section, noun: "kinds", rows: operations.rows, columns, sort, top: 20,
  });
}

// The rows with the source line of what is transferred, where an operation has none of its own.
export function withLines(pairs, store) {
  return pairs.map(row => {
    if (lineOfRow(row)) return row;
    const buffer = store.buffersOf(row.instruction).find(lineOfRow);
    return buffer ? {...row, origin: lineOfRow(buffer)} : row;
  });
}

// Async operations, those exposed longest first; a chosen one is selected and its start is pinned.
export function createPairs({report, store}, options) {
  const table = report.tables.pairs;
  const hasTime = table.columns.some(column => column.name === "exposed_seconds");
  const waste = row => (isExposed(row) ? "waste" : null);
  const repeats = options.rows.some(row => row.execution_count !== 1);
  const columns = columnsOf(table, [
    {name: "instruction", label: "operation", isLink: true},
    {name: "start", label: "start", low: true, rare: true},
    {name: "done", label: "done", low: true, rare: true},
    {name: "total_bytes", label: "size", bar: !hasTime, lowBar: true},
    repeats && {name: "execution_count", label: "executions", low: true, rare: true},
    {name: "total_seconds", label: "duration", low: true, rare: true},
    {name: "exposed_seconds", label: "exposed", tone: waste, bar: "waste", lowBar: true},
    {name: "kernels", label: "kernels", low: true, rare: true, hint: "kernels between start and done"},
    {name: "link", label: "link", low: true, rare: true},
    {name: "line", label: "source line", unit: "source", value: lineOfRow, tone: inferredTone, low: true},
  ].filter(Boolean));
  const own = row => ({instruction: row.instruction, source: lineOfRow(row), also: [row.done_instruction]});
  const sort = hasTime ? "exposed_seconds" : "total_bytes";
  return createTable(store, {noun: "async operations", columns, own, sort, ...options});
}
