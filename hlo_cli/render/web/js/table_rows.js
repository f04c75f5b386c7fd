// The order of a table's rows, and the sums of its columns.

import {isMissing, isNumericUnit} from "./units.js";

const collator = new Intl.Collator("en", {numeric: true});

// The cell of a column: computed by its `value`, else the field of its name.
export function cellOfRow(column, row) {
  return column.value ? column.value(row) : row[column.name];
}

// The rows sorted by a column, from the largest or the first text if it `falls`; cells without a value come last.
export function sortedRows(rows, column, falls) {
  const keyed = rows.map((row, at) => ({row, at, cell: cellOfRow(column, row)}));
  const there = keyed.filter(each => !isMissing(each.cell));
  const missing = keyed.filter(each => isMissing(each.cell));
  const sign = falls ? -1 : 1;
  there.sort((a, b) => sign * compareCells(a.cell, b.cell) || a.at - b.at);
  return [...there, ...missing].map(each => each.row);
}

function compareCells(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (Array.isArray(a) && Array.isArray(b)) return collator.compare(a.join(), b.join());
  return collator.compare(String(a), String(b));
}

// Whether the first click on a head sorts from the largest: numbers do, texts rise.
export function fallsFirst(column) {
  return isNumericUnit(column.unit);
}

// The sum of a column over rows: `{sum, unknown}`, with the number of rows whose part is unknown; a share is computed
// from the sums of its parts. Null for a column without a sum.
export function totalOf(column, rows) {
  if (!column.total) return null;
  if (column.total === true) return sumOf(rows.map(row => cellOfRow(column, row)));
  const {part, whole} = column.total;
  const [above, below] = [part, whole].map(name => sumOf(rows.map(row => row[name])));
  return {sum: below.sum ? above.sum / below.sum : null, unknown: above.unknown + below.unknown};
}

function sumOf(cells) {
  let sum = 0;
  let unknown = 0;
  for (const cell of cells) {
    if (typeof cell === "number") sum += cell;
    else if (cell === "?") unknown += 1;
  }
  return {sum, unknown};
}

// The columns that have anything to show: those without a known cell leave, and `optional` ones if all are zero.
export function filledColumns(columns, rows) {
  return columns.filter(column =>
    rows.some(row => {
      const cell = cellOfRow(column, row);
      return !isMissing(cell) && !(column.optional && !cell);
    })
  );
}

// Columns as a section wants them, with the unit, title, and sum that the data has (a share has
// none); those that the data lacks leave.
export function columnsOf(table, wanted) {
  const described = new Map(table.columns.map(column => [column.name, column]));
  return wanted
    .filter(column => column.value || described.has(column.name))
    .map(column => {
      const own = described.get(column.name) || {};
      const label = own.title || column.name.replaceAll("_", " ");
      const isSummed = own.total && own.unit !== "percent" && !column.unsummed;
      return {unit: own.unit || "text", label, total: isSummed || null, ...column};
    });
}
