// Tables are sorted by their heads: buttons, whose order stands in aria-sort and in the fragment.

import {element} from "./dom.js";

// Numbers of a column share a unit, so their texts can be compared; what is missing comes last.
function parsedNumber(text) {
  const digits = text.replace(/[,%<>\u00d7\s]/g, "");
  return digits === "" ? NaN : Number(digits);
}

function isMissingText(text) {
  return text === "-" || text === "?" || text === "";
}

export function makeSortable(table) {
  for (const head of table.tHead.rows[0].cells) {
    const button = element("button", {type: "button", onclick: () => turnOrder(head)});
    button.append(...head.childNodes);
    head.append(button);
    if (!button.textContent) button.setAttribute("aria-label", head.dataset.c);
  }
}

function turnOrder(head) {
  const falls = head.ariaSort ? head.ariaSort === "ascending" : isNumeric(textsOf(head));
  sortBy(head, falls);
  const change = new CustomEvent("sorted", {bubbles: true, detail: `${head.dataset.c}:${head.ariaSort}`});
  head.closest("table").dispatchEvent(change);
}

function textsOf(head) {
  return [...head.closest("table").tBodies[0].rows].map(row => row.cells[head.cellIndex].textContent);
}

function isNumeric(texts) {
  return texts.every(text => isMissingText(text) || !isNaN(parsedNumber(text)));
}

export function sortBy(head, falls) {
  const body = head.closest("table").tBodies[0];
  const texts = textsOf(head);
  const numeric = isNumeric(texts);
  const collator = new Intl.Collator("en", {numeric: true});
  const rows = [...body.rows].map((row, at) => {
    return {row, text: texts[at], missing: isMissingText(texts[at]), number: numeric ? parsedNumber(texts[at]) : 0};
  });
  const compare = numeric ? (a, b) => a.number - b.number : (a, b) => collator.compare(a.text, b.text);
  const sign = falls ? -1 : 1;
  rows.sort((a, b) => a.missing - b.missing || (a.missing ? 0 : sign * compare(a, b)));
  for (const other of head.parentNode.cells) other.ariaSort = null;
  head.ariaSort = falls ? "descending" : "ascending";
  body.append(...rows.map(each => each.row));
}
