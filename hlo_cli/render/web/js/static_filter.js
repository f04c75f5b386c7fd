// The search: rows of all tables whose text has every word of the query, and the sums of those rows.

import {element} from "./dom.js";
import {textInUnit} from "./units.js";

export function filterTables(tables, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  let all = 0;
  for (const table of tables) {
    for (const row of table.tBodies[0].rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      row.hidden = !words.every(word => text.includes(word));
      found += row.hidden ? 0 : 1;
      all += 1;
    }
    sumUp(table, words.length > 0);
  }
  document.dispatchEvent(new CustomEvent("filtered", {detail: {query, found, all}}));
}

// The sums below a table: its own, which are of all rows, or those of the rows that a search leaves.
function sumUp(table, isFiltered) {
  const foot = table.tFoot;
  if (!foot) return;
  foot.querySelector(".matches")?.remove();
  for (const row of foot.rows) row.hidden = isFiltered;
  if (!isFiltered) return;
  const rows = [...table.tBodies[0].rows].filter(row => !row.hidden);
  const last = foot.rows[foot.rows.length - 1];
  const cells = [...table.tHead.rows[0].cells].map((head, at) => {
    const unit = head.querySelector("i")?.textContent ?? "";
    const isLabel = last.cells[at].textContent === "total";
    const text = isLabel ? "total of matches" : head.dataset.u ? sumOfMatches(rows, at, head.dataset.u, unit) : "";
    return element("td", {text});
  });
  foot.append(element("tr", {class: "matches"}, ...cells));
}

// The sum of a column in the unit of its head; without the cells that have no number.
function sumOfMatches(rows, at, kind, unit) {
  const numbers = rows.map(row => row.cells[at].dataset.n).filter(number => number !== undefined).map(Number);
  return textInUnit(kind, unit, numbers.reduce((sum, number) => sum + number, 0), numbers);
}
