// The page of `hlo report`: its sections, each drawn by its own module.

import {byId, element} from "./dom.js";
import {readData} from "./data.js";
import {createAxis} from "./axis.js";
import {createDetails} from "./details.js";
import {drawNavigation} from "./head.js";
import {openModule} from "./modules.js";
import {keepPermalink} from "./permalink.js";
import {SECTION_DRAWERS} from "./sections.js";
import {filterTables} from "./static_filter.js";
import {makeSortable} from "./static_sort.js";
import {createStore} from "./store.js";
import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";

async function start() {
  const report = await readData(openModule());
  const store = createStore(report);
  const page = {report, store, axis: createAxis(report, store)};
  const sections = report.overview.sections.map(openSection);
  drawNavigation(page, sections);
  for (const [at, section] of sections.entries()) {
    (SECTION_DRAWERS[section.key] ?? drawTables)(section, page);
    if (at === 0 && !report.isAtOnce) await whenShown();
  }
  document.body.append(createDetails(page));
  followSearch(store);
  keepPermalink(page);
  await whenShown();
  document.documentElement.dataset.ready = Math.round(performance.now());
}

// Tables that are in the page's HTML are sorted and filtered like the others.
function followSearch(store) {
  const tables = [...document.querySelectorAll("#main table.sort")];
  if (!tables.length) return;
  tables.forEach(makeSortable);
  store.subscribe(changed => changed.has("query") && filterTables(tables, store.state.query));
}

// Resolves when what is there has been laid out, drawn, and shown; in a hidden window, where nothing is shown, soon.
function whenShown() {
  return new Promise(resolve => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 250);
  });
}

// The section that is in the page's HTML, with room for controls and for what it shows.
function openSection(section) {
  const shown = byId(section.key);
  const lead = shown.querySelector(".lead");
  const tools = element("div", {class: "tools"});
  const body = element("div", {class: "body"});
  lead.append(tools);
  shown.append(body);
  return {...section, element: shown, lead: lead.querySelector("p"), tools, body};
}

function drawTables(section, {report, store}) {
  for (const name of section.parts) {
    const table = report.tables[name];
    if (!table) continue;
    const columns = columnsOf(table, table.columns);
    section.body.append(createTable(store, {name, section: section.key, noun: table.noun, columns, rows: table.rows}));
  }
}

function showFailure(error) {
  const text = `This page could not read its own data: ${error.message}`;
  byId("main").prepend(element("p", {class: "alarm", role: "alert", text}));
  throw error;
}

start().catch(showFailure);
