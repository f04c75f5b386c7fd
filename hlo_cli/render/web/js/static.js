// A static page: it is complete without this script, which sorts, filters, links charts with tables, and sets the
// theme.

import {createTools} from "./static_tools.js";
import {makeSortable} from "./static_sort.js";
import {linkCharts} from "./static_links.js";
import {showReadouts} from "./static_readout.js";
import {makeZoomable} from "./spans.js";
import {restoreState} from "./static_state.js";

function startPage() {
  const tables = [...document.querySelectorAll("table.sort")];
  tables.forEach(makeSortable);
  createTools(tables);
  linkCharts(tables);
  document.querySelectorAll("figure").forEach(makeZoomable);
  document.querySelectorAll("svg.hlo").forEach(showReadouts);
  restoreState(tables);
  document.documentElement.dataset.ready = Math.round(performance.now());
}

startPage();
