// The page of `hlo report`: its sections, each drawn by its own module.

import {byId, element} from "./dom.js";
import {readData} from "./data.js";
import {createAxis} from "./axis.js";
import {SECTION_DRAWERS} from "./sections.js";
import {createStore} from "./store.js";

async function start() {
  const report = await readData();
  const store = createStore(report);
  const page = {report, store, axis: createAxis(report, store)};
  for (const section of report.overview.sections) {
    const shown = addSection(section);
    (SECTION_DRAWERS[section.key] ?? drawTables)(shown, page);
  }
  document.documentElement.dataset.ready = Math.round(performance.now());
}

function addSection(section) {
  const lead = element("p", {text: section.sentence});
  const tools = element("span", {class: "tools"});
  const body = element("div", {class: "body"});
  const title = element("h2", {text: section.title});
  const shown = element("section", {id: section.key, "aria-label": section.title}, element("div", {class: "lead"}, title, lead, tools), body);
  byId("main").append(shown);
  return {...section, element: shown, lead, tools, body};
}

function drawTables(section, page) {
  for (const name of section.parts) if (page.report.tables[name]) section.body.append(element("p", {text: name}));
}

start();
