// Cells of tables: numbers in the unit of their column, names as links to the selection, bars, shortened texts.

import {element} from "./dom.js";
import {isMissing, isNumericUnit, plainText} from "./units.js";
import {cellOfRow} from "./table_rows.js";
import {fileLine, shorten, shortenList, shortenScope, shortenShape} from "./words.js";

const CODE_UNITS = new Set(["name", "shape", "op_name", "source", "opcode"]);
const MOST = {name: 32, shape: 48, op_name: 44, source: 30};
const MOST_TEXT = 70;

// The class names of a column's cells and head.
export function classOf(column, ...more) {
  const ranks = [column.low && "low", column.rare && "rare", column.wide && "wide"];
  const own = [isNumericUnit(column.unit) && "number", ...ranks];
  return [...own, ...more].filter(Boolean).join(" ") || null;
}

// A cell of a row; `writing` is the format of the column, `words` the searched words, which are marked.
export function tableCell(column, row, {writing, words, link}) {
  const cell = cellOfRow(column, row);
  if (isNumericUnit(column.unit)) {
    const tone = cell ? column.tone && column.tone(row) : "none";
    return element("td", {class: classOf(column, isMissing(cell) ? "none" : tone), text: writing.textOf(cell)});
  }
  const whole = isMissing(cell) && cell !== "?" ? "" : plainText(cell);
  const shown = column.wide ? whole : shortened(column, whole);
  const tone = column.tone && column.tone(row);
  const code = (CODE_UNITS.has(column.unit) || column.isCode) && "code";
  const children = link ? [nameLink(link, marked(shown, words))] : marked(shown, words);
  return element("td", {class: classOf(column, code, tone), title: shown === whole ? null : whole}, ...children);
}

function shortened(column, text) {
  const most = column.most || MOST[column.unit] || MOST_TEXT;
  if (column.unit === "shape") return shortenShape(text, most);
  if (column.unit === "op_name") return shortenScope(text, most);
  if (column.isList) return shortenList(text, most);
  return shorten(column.unit === "source" ? fileLine(text) : text, most);
}

// Rows take the focus and Enter, so their links are not stops of their own; they can be copied and opened elsewhere.
function nameLink({address, choose}, children) {
  const follow = event => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    event.stopPropagation();
    choose();
  };
  return element("a", {href: address, class: "name", tabindex: -1, onclick: follow}, ...children);
}

// A text with the searched words marked.
function marked(text, words) {
  const lower = text.toLowerCase();
  const starts = words.map(word => lower.indexOf(word));
  const first = starts.reduce((best, at, index) => (at >= 0 && (best < 0 || at < starts[best]) ? index : best), -1);
  if (first < 0 || lower.length !== text.length) return [text];
  const [at, end] = [starts[first], starts[first] + words[first].length];
  return [text.slice(0, at), element("mark", {text: text.slice(at, end)}), ...marked(text.slice(end), words)];
}

// A bar whose length is the share of the largest cell.
export function barCell(column, row, largest) {
  const cell = cellOfRow(column, row);
  const share = typeof cell === "number" && largest > 0 ? Math.max(0, Math.min(1, cell / largest)) : 0;
  const tone = column.bar === true ? null : column.bar;
  const bar = share > 0 ? element("span", {class: tone, style: `width:${(100 * share).toFixed(1)}%`}) : null;
  return element("td", {class: `bar${column.low || column.lowBar ? " low" : ""}`}, bar);
}

// The sum of a column below its cells; a sum with unknown parts is a lower bound, and says so.
export function totalCell(column, total, writing) {
  if (!total) return element("td", {class: classOf(column)});
  const text = total.unknown ? `\u2265 ${writing.textOf(total.sum)}` : writing.textOf(total.sum);
  const title = total.unknown ? `${total.unknown.toLocaleString("en-US")} unknown, not in the sum` : null;
  return element("td", {class: classOf(column), title, text});
}
