// What the page shows, and the acts that change it. Every act ends in `app.refresh(changes)`.

import {isSeenThrough, neighborhood, nodesBetween} from "./folding.js";
import {callersOf} from "./graph_model.js";
import {centerAmong, centerOn, fitScene, isFitReadable, keepInPlace, reveal} from "./graph_view.js";
import {largestOf, HEATS} from "./heat.js";
import {createFolder, foldedOf, limitTo, sceneOf} from "./scene.js";

// `refresh` draws and writes what depends on the changed keys of the state.
export function createApp(model, canvas, view, palette, refresh) {
  const state = {
    computation: model.graph.entry, open: new Set(), kept: new Set(), transfers: false, heat: "kind",
    around: null, depth: model.graph.depth || 2, between: null, shown: null, selected: null,
  };
  const app = {model, canvas, view, palette, state, folder: createFolder(model), limit: null, scene: null, largest: 1};
  app.refresh = changes => refresh(app, changes);
  return app;
}

export function isLimited({state}) {
  return state.around !== null || state.between !== null || state.shown !== null;
}

// Changes the state and makes the scene anew; the corner of the node of `anchor` keeps its place on the screen.
export function rebuild(app, changes, anchor = null) {
  const {state, view} = app;
  Object.assign(state, changes);
  const before = anchor === null || !app.scene ? null : app.scene.at.get(anchor);
  app.limit = limitOf(app);
  app.scene = sceneOf(app.folder, state, app.limit);
  measureHeat(app);
  const after = anchor === null ? null : app.scene.at.get(anchor);
  if (before && after) keepInPlace(view, before, after);
  app.refresh({...changes, scene: true});
}

function measureHeat(app) {
  if (HEATS[app.state.heat]) app.largest = largestOf(app.model, app.scene, app.state.heat);
}

function limitOf({folder, limit, model, state}) {
  const {shown} = state;
  if (shown !== null) return shown === limit?.shown ? limit : {...limitTo(model, ...shown), shown};
  if (state.around === null && state.between === null) return null;
  const whole = foldedOf(folder, state.computation, state);
  if (state.around !== null) return sameOr(limit, model, neighborhood(whole, state.around, state.depth));
  return sameOr(limit, model, nodesBetween(whole, ...state.between) || new Set(state.between));
}

// The limit as it was if it has the same nodes, so that opening a cluster arranges nothing anew.
function sameOr(limit, model, nodes) {
  const isSame = limit && limit.nodes.size === nodes.size && [...nodes].every(row => limit.nodes.has(row));
  return isSame ? limit : limitTo(model, nodes);
}

export function select(app, row) {
  app.state.selected = row;
  app.refresh({selected: row});
}

export function setHeat(app, heat) {
  app.state.heat = heat;
  measureHeat(app);
  app.refresh({heat});
}

export function setTransfers(app, transfers) {
  rebuild(app, {transfers}, app.state.selected);
  if (app.state.selected === null) showStart(app);
}

// Opens or closes a cluster.
export function toggle(app, row) {
  const {model, state} = app;
  if (!model.expandable[row]) return;
  const open = new Set(state.open);
  if (!open.delete(row)) open.add(row);
  rebuild(app, {open}, row);
}

// The neighborhood of the selected row, or all again.
export function toggleNeighborhood(app) {
  if (isLimited(app)) showWhole(app);
  else if (app.state.selected !== null) surround(app, app.state.selected);
}

// The neighborhood of a row, or with null all again, as it was before.
export function surround(app, row, depth = app.state.depth) {
  if (row === null) return showWhole(app);
  remember(app);
  const kept = keptWith(app, row);
  rebuild(app, {around: row, between: null, shown: null, depth, kept, computation: app.model.computation[row]});
  return fitOrCenter(app, row);
}

// The ways between two rows of one computation. Returns whether there is one.
export function showBetween(app, first, second) {
  const {folder, model, state} = app;
  const computation = model.computation[first];
  if (first === second || model.computation[second] !== computation) return false;
  if (!nodesBetween(foldedOf(folder, computation, state), first, second)) return false;
  remember(app);
  rebuild(app, {between: [first, second], around: null, shown: null, computation});
  fitOrCenter(app, first);
  return true;
}

function remember(app) {
  if (isLimited(app)) return;
  app.before = {computation: app.state.computation, view: {...app.view}};
}

// All of the computation that was shown before a part of it.
export function showWhole(app) {
  const {before, state, view} = app;
  const computation = before ? before.computation : state.computation;
  rebuild(app, {around: null, between: null, shown: null, computation});
  const node = app.scene.at.get(state.selected);
  if (before) Object.assign(view, {scale: before.view.scale, x: before.view.x, y: before.view.y});
  else if (node) centerOn(view, node);
  else showStart(app);
  if (node) reveal(view, node);
  app.before = null;
  app.refresh({view: true});
}

// Selects a row and brings it into view, wherever it is: opens what it is in, and draws it though it is seen through.
export function goTo(app, row) {
  const {state} = app;
  if (!app.scene.at.has(row)) {
    openUpTo(app, row);
    centerOn(app.view, app.scene.at.get(row));
  }
  state.selected = row;
  reveal(app.view, app.scene.at.get(row));
  app.refresh({selected: row, view: true});
}

// Opens what holds a row, so that the scene has it.
export function openUpTo(app, row) {
  const {model, state} = app;
  if (app.scene.at.has(row)) return;
  if (state.around !== null && model.computation[row] === state.computation) {
    rebuild(app, {around: row, kept: keptWith(app, row)});
  } else {
    rebuild(app, {...placeOf(app, row), kept: keptWith(app, row), around: null, between: null, shown: null});
  }
}

// Shows a computation on its own.
export function showComputation(app, computation) {
  rebuild(app, {computation, around: null, between: null, shown: null, selected: null});
  showStart(app);
}

function keptWith({model, state}, row) {
  return isSeenThrough(model, row, state) ? new Set(state.kept).add(row) : state.kept;
}

// The computation to show, and what to open in it, for a row to have a node.
function placeOf({model, state}, row) {
  const open = new Set(state.open);
  let computation = model.computation[row];
  for (const caller of callersOf(model, row).reverse()) {
    if (computation === state.computation || !model.expandable[caller]) break;
    open.add(caller);
    computation = model.computation[caller];
  }
  return {computation, open};
}

// The whole scene if it can be read, else the row, else where it begins.
export function showStart(app, row = null) {
  const {scene, view} = app;
  if (isFitReadable(view, scene)) fitScene(view, scene);
  else {
    const node = scene.at.get(row) || firstOf(app);
    if (node) centerAmong(view, node, scene);
  }
  app.refresh({view: true});
}

// Of the topmost nodes that do something the heaviest, else the topmost one: graphs are read from the arguments on.
function firstOf({model, scene}) {
  const weight = node => (node.parts ? 0 : model.bytes_accessed[node.row] || 0);
  const busy = scene.nodes.filter(weight);
  const nodes = busy.length ? busy : scene.nodes;
  const top = nodes.reduce((least, node) => Math.min(least, node.y), Infinity);
  const first = nodes.filter(node => node.y <= top + node.height); // centers of a layer differ by their heights
  return first.reduce((best, node) => (weight(node) > weight(best) ? node : best), first[0]);
}

function fitOrCenter(app, row) {
  showStart(app, row);
}
