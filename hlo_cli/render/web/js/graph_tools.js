// Controls above the picture, the legend, and the path to what is shown.

import {byId, element} from "./dom.js";
import {callersOf} from "./graph_model.js";
import {goTo, isLimited, setHeat, setTransfers, toggleNeighborhood} from "./graph_state.js";
import {showComputation, showWhole, surround} from "./graph_state.js";
import {fitScene, zoomBy} from "./graph_view.js";
import {HEATS, heatColor} from "./heat.js";
import {CHANGES, KIND_COLORS, colorsOfKind} from "./kinds.js";
import {countOf, formatCount} from "./units.js";

const DEPTHS = [1, 2, 3, 4];
const STEP = 1.3;

// The tool bar. `heats` are the colorings on offer.
export function createTools(app, heats, searchBox) {
  const heatButton = key => toolButton(HEATS[key]?.label || key, () => setHeat(app, key), {"data-heat": key});
  const depthButton = depth =>
    toolButton(String(depth), () => surround(app, app.state.around, depth), {"data-depth": depth});
  const depths = {class: "segmented", id: "depths", role: "group", "aria-label": "Depth of the neighborhood"};
  const near = {id: "neighborhood", title: "Only what is near the selected node (N)"};
  return element("div", {class: "tools", role: "toolbar", "aria-label": "Graph"},
    element("div", {class: "segmented", role: "group", "aria-label": "Color by"},
      element("span", {class: "label", text: "color by"}), ...heats.map(heatButton)),
    app.model.is_transfer.some(Boolean) ? transfersButton(app) : null,
    toolButton("neighborhood", () => toggleNeighborhood(app), near),
    element("div", depths, ...DEPTHS.map(depthButton)),
    searchBox);
}

function toolButton(text, onclick, attributes) {
  return element("button", {type: "button", text, onclick, ...attributes});
}

function transfersButton(app) {
  const title = "Draw copies and slices between memories as nodes";
  return toolButton("transfers", () => setTransfers(app, !app.state.transfers), {id: "transfers", title});
}

export function createZoom(app) {
  const button = (text, label, act) => toolButton(text, () => {
    act();
    app.refresh({view: true});
  }, {"aria-label": label, title: label});
  return element("div", {class: "zoom", role: "group", "aria-label": "Zoom"},
    button("+", "Zoom in", () => zoomBy(app.view, STEP)),
    button("\u2212", "Zoom out", () => zoomBy(app.view, 1 / STEP)),
    button("fit", "Show all", () => fitScene(app.view, app.scene)));
}

export function showTools(app) {
  const {state} = app;
  const press = (button, isOn) => button.setAttribute("aria-pressed", String(isOn));
  for (const button of document.querySelectorAll("[data-heat]")) press(button, button.dataset.heat === state.heat);
  for (const button of document.querySelectorAll("[data-depth]")) {
    press(button, Number(button.dataset.depth) === state.depth);
  }
  if (byId("transfers")) press(byId("transfers"), state.transfers);
  const near = byId("neighborhood");
  near.textContent = isLimited(app) ? "whole graph" : "neighborhood";
  near.disabled = !isLimited(app) && state.selected === null;
  byId("depths").hidden = state.around === null;
}

// What is shown: the computation, those around it, the callers of the selected row; and how much of the module it is.
export function showPath(app, box) {
  const {model, scene, state} = app;
  const inner = state.selected === null ? [] : callersOf(model, state.selected).filter(row => scene.at.has(row));
  const link = (text, onclick) => element("button", {type: "button", class: "link code", text, onclick});
  const {entry} = model.graph;
  const isShown = computation => computation === state.computation;
  const show = computation => () => (isShown(computation) ? goToAll(app) : showComputation(app, computation));
  const shown = [...new Set([entry, state.computation])];
  const crumbs = shown.map(computation => link(model.computations[computation], show(computation)));
  for (const row of inner) crumbs.push(link(model.name[row], () => goTo(app, row)));
  const part = partInWords(app);
  const counts = `${countOf(scene.nodes.length, "nodes")}, ${countOf(scene.edges.length, "edges")}`;
  const size = `${counts} for ${countOf(model.count, "instructions")}`;
  box.replaceChildren(
    ...crumbs.flatMap((crumb, at) => (at ? [element("span", {class: "quiet", text: " \u203a "}), crumb] : [crumb])),
    element("span", {class: "quiet size", text: part ? `${part}: ${size}` : size}));
}

function goToAll(app) {
  if (isLimited(app)) return showWhole(app);
  fitScene(app.view, app.scene);
  return app.refresh({view: true});
}

function partInWords({model, state}) {
  if (state.around !== null) return `within ${countOf(state.depth, "edges")} of ${model.name[state.around]}`;
  if (state.between !== null) return `paths from ${model.name[state.between[0]]} to ${model.name[state.between[1]]}`;
  return state.shown !== null ? "part" : "";
}

// The colors in use with their names, and what lines mean.
export function showLegend(app, box) {
  const {model, scene, state} = app;
  const parts = HEATS[state.heat] ? heatLegend(app) : state.heat === "change" ? changeLegend(app) : kindLegend(app);
  const has = test => scene.edges.some(test);
  const lines = ["edge width: log of bytes"];
  if (has(edge => edge.kind === "transfer")) lines.push("dashed: transfer between memories");
  if (has(edge => edge.kind === "control")) lines.push("dotted: control");
  if (has(edge => edge.kind === "indirect")) lines.push("dash-dot: path through nodes that are not shown");
  if (has(edge => edge.isLong)) lines.push("stub: a distant node; select it to draw the edge");
  box.replaceChildren(...parts, element("span", {class: "lines", text: lines.join(" \u00b7 ")}));
  box.hidden = !scene.nodes.length || !model.count;
}

function swatch(fill, border, text) {
  const mark = element("i", {"aria-hidden": "true"});
  mark.style.setProperty("background", fill);
  mark.style.setProperty("border-color", border);
  return element("span", {class: "swatch"}, mark, text);
}

// Kinds that are painted alike are one entry.
function kindLegend({model, palette, scene}) {
  if (palette.isForced) return [];
  const used = new Set(scene.nodes.map(node => model.kind[node.row]));
  const groups = new Map();
  for (const kind of Object.keys(KIND_COLORS).filter(each => used.has(each))) {
    const colors = colorsOfKind(kind, palette.isDark);
    const known = groups.get(colors[0]);
    if (known) known.names.push(kind);
    else groups.set(colors[0], {colors, names: [kind]});
  }
  return [...groups.values()].map(({colors, names}) => swatch(colors[0], colors[1], names.join(", ")));
}

// Changes with their number in the whole module.
function changeLegend({model, palette}) {
  const counts = new Map();
  for (const change of model.change) counts.set(change, (counts.get(change) || 0) + 1);
  const found = Object.entries(CHANGES).filter(([change]) => counts.has(change));
  return found.map(([change, [sign, color]]) =>
    swatch(palette[color], palette[color], `${sign} ${formatCount(counts.get(change))} ${change}`));
}

function heatLegend({largest, palette, state}) {
  const heat = HEATS[state.heat];
  const steps = [0, 0.04, 0.16, 0.36, 0.64, 1].map(share => heatColor(share, palette.isDark));
  const bar = element("i", {class: "ramp", "aria-hidden": "true"});
  bar.style.setProperty("background", `linear-gradient(90deg, ${steps.join(", ")})`);
  const most = largest > Number.MIN_VALUE ? heat.text(largest) : "0";
  const middle = largest > Number.MIN_VALUE ? heat.text(roundedQuarter(largest, state.heat)) : "";
  const ends = ["0", middle, most].map(text => element("span", {text}));
  return [
    element("span", {class: "scale"}, element("span", {class: "ends"}, ...ends), bar),
    element("span", {text: `${heat.meaning}, square-root scale`}),
  ];
}

// The number in the middle of the scale: with a square root, a quarter of the largest.
function roundedQuarter(largest, key) {
  return key === "time" ? largest / 4 : Math.round(largest / 4);
}
