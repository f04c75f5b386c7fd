// The data of a page, as render/web/page_data.py writes it: gzip in base64, texts once, columns in place of rows.

import {byId} from "./dom.js";

// The report, with `tables` of `{title, noun, columns, rows}`, rows as objects by column name.
export async function readData() {
  const bytes = Uint8Array.from(atob(byId("data").textContent), character => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const report = JSON.parse(await new Response(stream).text());
  for (const table of Object.values(report.tables)) table.rows = rowsOf(table, report.strings);
  return report;
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
