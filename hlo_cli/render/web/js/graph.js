// The page of `hlo graph`.

import {byId, element} from "./dom.js";
import {readEncoded} from "./data.js";
import {drawScene} from "./graph_canvas.js";
import {changedRows, showDetails, spokenDetails} from "./graph_details.js";
import {pressKey} from "./graph_keys.js";
import {readLink, writeLink} from "./graph_link.js";
import {modelOf} from "./graph_model.js";
import {readPalette} from "./graph_palette.js";
import {listenToPointers} from "./graph_pointer.js";
import {createSearch} from "./graph_search.js";
import {createApp, goTo, openUpTo, rebuild, showStart} from "./graph_state.js";
import {createTools, createZoom, showLegend, showPath, showTools} from "./graph_tools.js";
import {createView, reveal} from "./graph_view.js";
import {presentHeats} from "./heat.js";
import {createMinimap} from "./minimap.js";
import {themeButton} from "./theme.js";

const LABEL = "Graph of instructions. Arrow keys follow edges, Enter opens or closes a cluster, "
  + "N shows the neighborhood, F fits, plus and minus zoom, slash searches, Escape goes back.";

async function startGraph() {
  const report = await readEncoded();
  const model = modelOf(report);
  model.dump = report.input?.path || "";
  const page = createPage();
  const app = createApp(model, page.canvas, createView(), readPalette(), refreshPage);
  app.page = page;
  page.map = createMinimap(app, page.minimap);
  const heats = ["kind", ...presentHeats(model), ...(model.change.some(Boolean) ? ["change"] : [])];
  app.state.firstHeat = app.state.heat = heats.includes("change") ? "change" : "kind";
  byId("main").prepend(createTools(app, heats, createSearch(app, page.canvas)));
  page.bar.append(createZoom(app));
  listen(app, heats);
  fitCanvas(app);
  showFirst(app, heats);
  document.documentElement.dataset.ready = Math.round(performance.now());
  return app;
}

function createPage() {
  const spokenAs = {role: "application", "aria-label": LABEL, "aria-describedby": "spoken"};
  const canvas = element("canvas", {id: "canvas", tabindex: 0, ...spokenAs});
  const minimap = element("canvas", {id: "minimap", "aria-hidden": "true"});
  const path = element("nav", {id: "path", "aria-label": "Path"});
  const legend = element("div", {id: "legend"});
  // title, legend, and map have places of their own, so that they never lie on nodes
  const bar = element("div", {id: "bar"}, path);
  const viewport = element("div", {id: "viewport"}, canvas);
  const aside = element("aside", {id: "details", "aria-label": "Details"});
  const spoken = element("p", {id: "spoken", class: "for-readers", role: "status"});
  const picture = element("div", {class: "picture"}, bar, viewport, legend);
  const side = element("div", {class: "side"}, aside, minimap);
  byId("main").append(element("div", {id: "stage"}, picture, side), spoken);
  return {canvas, minimap, path, legend, bar, viewport, aside, spoken};
}

// What the address names; else what the command chose.
function showFirst(app, heats) {
  const {graph} = app.model;
  if (heats.includes(graph.heat)) app.state.heat = app.state.firstHeat = graph.heat;
  const isNamed = readLink(app, location.hash, heats);
  if (!isNamed) rebuild(app, chosenByCommand(app.model));
  const {state} = app;
  const selected = state.selected ?? (isNamed || !graph.focus.length ? null : graph.focus[0]);
  const changed = !isNamed && selected === null && state.heat === "change" ? changedRows(app.model) : [];
  if (changed.length) openUpTo(app, changed[0]);
  showStart(app, selected ?? changed[0] ?? state.around);
  if (selected !== null) goTo(app, selected);
}

function chosenByCommand({computation, graph}) {
  const open = new Set(graph.opened || []);
  const changes = {computation: graph.entry, open, transfers: Boolean(graph.transfers)};
  if (!graph.is_limited) return changes;
  const isFlat = !graph.links && graph.shown.every(row => computation[row] === graph.entry);
  const isAround = graph.depth !== null;
  if (isFlat && isAround && graph.focus.length === 1) return {...changes, around: graph.focus[0], depth: graph.depth};
  if (isFlat && !isAround && graph.focus.length === 2) return {...changes, between: graph.focus};
  const links = graph.links && graph.links.map(([from, to, bytes, kind]) => ({from, to, bytes, kind}));
  return {...changes, shown: [new Set(graph.shown), links], kept: new Set(graph.shown)};
}

function listen(app, heats) {
  const {canvas, viewport} = app.page;
  listenToPointers(app, canvas);
  canvas.onkeydown = event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressKey(app, event.key)) event.preventDefault();
  };
  addEventListener("keydown", event => {
    if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    byId("search").select();
    byId("search").focus();
  });
  addEventListener("hashchange", () => {
    readLink(app, location.hash, heats);
    if (app.state.selected !== null) goTo(app, app.state.selected);
  });
  new ResizeObserver(() => {
    if (fitCanvas(app)) app.refresh({size: true});
  }).observe(viewport);
  const recolor = () => {
    app.palette = readPalette();
    app.refresh({colors: true});
  };
  document.querySelector(".tools").append(themeButton(recolor));
  matchMedia("(forced-colors: active)").addEventListener("change", recolor);
  matchMedia("print").addEventListener("change", () => {
    app.palette = readPalette();
    showLegend(app, app.page.legend);
    drawScene(app);
  });
}

// Gives the canvas the size of its box; returns whether that has changed.
function fitCanvas({canvas, view}) {
  const {width, height} = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const size = {width: Math.round(width * ratio), height: Math.round(height * ratio)};
  Object.assign(view, {width, height});
  if (canvas.width === size.width && canvas.height === size.height) return false;
  Object.assign(canvas, size);
  return true;
}

// Moves the selected node from under the details, which lie on the picture on small screens.
function uncover({page, scene, state, view}, isSelection) {
  const bottom = page.viewport.getBoundingClientRect().bottom;
  const {top, height, left} = page.aside.getBoundingClientRect();
  const isOver = height > 0 && left < page.viewport.getBoundingClientRect().right;
  view.covered = isOver ? Math.max(0, bottom - top) : 0;
  const node = scene.at.get(state.selected);
  if (isSelection && view.covered && node) reveal(view, node);
}

// Draws what depends on the changes, once a frame.
function refreshPage(app, changes) {
  const isFirst = !app.pending;
  app.pending = {...app.pending, ...changes};
  if (isFirst) requestAnimationFrame(() => drawPending(app));
}

function drawPending(app) {
  const {page, pending} = app;
  app.pending = null;
  const has = (...keys) => keys.some(key => key in pending);
  if (has("scene", "heat", "colors", "size")) page.map.drawNodes();
  if (has("scene", "heat", "colors")) showLegend(app, page.legend);
  if (has("scene", "heat", "selected")) {
    showDetails(app, page.aside);
    uncover(app, "selected" in pending);
    showTools(app);
    showPath(app, page.path);
    page.spoken.textContent = spokenDetails(app);
    writeLink(app);
  }
  drawScene(app);
  page.map.drawFrame();
}

startGraph();
