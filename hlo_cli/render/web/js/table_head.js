// The head and the foot of a table.

import {element} from "./dom.js";
import {barCell, classOf, totalCell} from "./table_cells.js";
import {fallsFirst, totalOf} from "./table_rows.js";

// The head of a column: a button that sorts by it.
export function headCell(column, unit, sort) {
  const label = element("span", {class: "label", text: column.label});
  const parts = unit ? [label, " ", element("span", {class: "unit", text: unit})] : [label];
  const button = element("button", {type: "button", onclick: sort}, ...parts);
  return element("th", {class: classOf(column), scope: "col", title: column.hint}, button);
}

// Over a column's bars; the head of its numbers names them.
export function barHead(column) {
  return element("td", {class: `bar${column.low || column.lowBar ? " low" : ""}`});
}

// The column and direction of `sort`, such as `-bytes`; null without such a column.
export function orderOf(sort, columns) {
  const name = sort.replace(/^-/, "");
  const column = columns.find(each => each.name === name);
  return column ? {name, falls: fallsFirst(column) !== sort.startsWith("-")} : null;
}

// The order after a click on the head of a column.
export function turnedOrder(order, column) {
  const isSame = order && order.name === column.name;
  return {name: column.name, falls: isSame ? !order.falls : fallsFirst(column)};
}

// Tells by which column the rows are sorted.
export function markSorted(heads, columns, order) {
  columns.forEach((column, at) => {
    const isSorted = order && order.name === column.name;
    if (isSorted) heads[at].setAttribute("aria-sort", order.falls ? "descending" : "ascending");
    else heads[at].removeAttribute("aria-sort");
  });
}

// The sums of rows, with the text of `label` in its column; `writings` are the formats of columns.
export function sumLine(columns, rows, writings, {text, label}) {
  const line = element("tr", {class: "sum"});
  for (const column of columns) {
    if (column === label) line.append(element("td", {class: classOf(column), text}));
    else line.append(totalCell(column, totalOf(column, rows), writings.get(column)));
    if (column.bar) line.append(barCell(column, {}, 0));
  }
  return line;
}
