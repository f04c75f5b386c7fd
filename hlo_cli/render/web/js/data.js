// The data of a page, as render/web/interactive.py writes it: gzip in base64, texts once, columns in place of rows.

import {byId} from "./dom.js";
import {inflate, inflatedSize} from "./inflate.js";

const AT_ONCE = 1 << 19; // bytes of JSON that are read before the page is shown, in about 0.05 s

// The report, with `tables` of `{title, noun, columns, rows}`, rows as objects by column name; with `isAtOnce` if it is
// so small that nothing of the page need be shown before.
export async function readData(id = "data") {
  const bytes = bytesOf(id);
  const isAtOnce = inflatedSize(bytes) <= AT_ONCE;
  const report = isAtOnce ? JSON.parse(new TextDecoder().decode(inflate(bytes))) : await readEncoded(id);
  for (const table of Object.values(report.tables)) table.rows = rowsOf(table, report.strings);
  return {...report, isAtOnce};
}

// The report as it is written; `columnOf` reads a column of its tables. Quicker than rows for tables of 100,000.
export async function readEncoded(id = "data") {
  const stream = new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function bytesOf(id) {
  const text = atob(byId(id).textContent);
  const bytes = new Uint8Array(text.length); // Uint8Array.from(text, ...) takes 25 times as long
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

// The cells of a column of a table as `readEncoded` returns it; null without that column.
export function columnOf(table, name, strings) {
  const column = table.columns.find(each => each.name === name);
  if (!column) return null;
  return column.form === "plain" ? column.cells : column.cells.map(cell => cellOf(column.form, cell, strings));
}

function rowsOf(table, strings) {
  const rows = Array.from({length: table.rows}, () => ({}));
  for (const {name, form, cells} of table.columns) {
    for (let at = 0; at < cells.length; at++) rows[at][name] = cellOf(form, cells[at], strings);
  }
  return rows;
}

function cellOf(form, cell, strings) {
  if (cell === null || form === "plain") return cell;
  return form === "text" ? strings[cell] : cell.map(each => strings[each]);
}
