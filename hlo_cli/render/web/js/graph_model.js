// The module of a graph page: columns of its instructions by name, and what follows from them.

import {columnOf} from "./data.js";

const TEXTS = ["name", "opcode", "kind", "shape", "label", "literal", "source", "op_name", "change"];
const LISTS = ["operands", "control", "calls"];
const FLAGS = ["is_root", "is_hidden", "is_transfer", "expandable"];
const NUMBERS = ["bytes", "logical_bytes", "bytes_accessed", "flops", "live_bytes", "seconds", "step", "trips"];

// Columns are arrays by row; a missing column is empty texts, lists, false, or null. Also `count`, `users`, `inside`
// (the rows of each computation) and `callers` (the row that calls each computation first, or -1).
export function modelOf(report) {
  const table = report.tables.nodes;
  const count = table.rows;
  const column = (name, missing) => columnOf(table, name, report.strings) || new Array(count).fill(missing);
  const {graph} = report;
  const model = {count, graph, computations: graph.computations, computation: column("computation", 0)};
  for (const name of TEXTS) model[name] = column(name, "");
  for (const name of LISTS) model[name] = column(name, null).map(list => list || []);
  for (const name of FLAGS) model[name] = column(name, false);
  for (const name of NUMBERS) model[name] = column(name, null).map(number => (number === "?" ? null : number));
  model.users = usersOf(model.operands);
  model.inside = model.computations.map(() => []);
  model.computation.forEach((computation, row) => model.inside[computation].push(row));
  model.callers = new Array(model.computations.length).fill(-1);
  model.calls.forEach((calls, row) => {
    for (const called of calls) if (model.callers[called] < 0) model.callers[called] = row;
  });
  return model;
}

function usersOf(operands) {
  const users = operands.map(() => []);
  operands.forEach((list, row) => {
    for (const operand of list) {
      const known = users[operand];
      if (known[known.length - 1] !== row) known.push(row);
    }
  });
  return users;
}

// The rows that call the computations around a row, outermost first.
export function callersOf(model, row) {
  const found = [];
  const seen = new Set();
  const callerOf = inner => model.callers[model.computation[inner]];
  for (let caller = callerOf(row); caller >= 0 && !seen.has(caller); caller = callerOf(caller)) {
    seen.add(caller);
    found.push(caller);
  }
  return found.reverse();
}

// The rows of a name, those of the entry first.
export function rowsNamed(model, name) {
  const rows = [];
  for (let row = 0; row < model.count; row++) if (model.name[row] === name) rows.push(row);
  return rows.sort((a, b) => isInEntry(model, b) - isInEntry(model, a));
}

export function isInEntry(model, row) {
  return Number(model.computation[row] === model.graph.entry);
}

// Instructions in what a row calls.
export function sizeInside(model, row) {
  let size = 0;
  for (const called of model.calls[row]) size += model.inside[called].length;
  return size;
}

// The file and line of a row; a page that is sent on shows no directory of the sender.
export function fileLineOf({source}, row) {
  return source[row] ? source[row].slice(source[row].lastIndexOf("/") + 1) : "";
}
