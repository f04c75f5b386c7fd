// The page of `hlo report`.

import {byId, element} from "./dom.js";
import {readData} from "./data.js";

async function start() {
  const report = await readData();
  for (const section of report.overview.sections) {
    byId("main").append(element("section", {id: section.key}, element("h2", {text: section.title}), element("p", {text: section.sentence})));
  }
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
