// The page of `hlo graph`.

import {byId, element} from "./dom.js";
import {readData} from "./data.js";

async function start() {
  const report = await readData();
  for (const section of []) {
    byId("main").append(element("section", {id: section.key}, element("h2", {text: section.title}), element("p", {text: section.sentence})));
  }
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
