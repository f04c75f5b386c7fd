// The colors of the canvas: those of the style sheet, read when the scheme of the page changes.

import {CHANGES, colorsOfKind, mixed} from "./kinds.js";
import {HEATS, heatColors} from "./heat.js";

const NAMES = ["paper", "ink", "quiet", "rule", "other", "alarm", "name", "waste", "saving", "odd"];

export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const palette = Object.fromEntries(NAMES.map(name => [name, style.getPropertyValue(`--${name}`).trim() || "#808080"]));
  palette.isForced = matchMedia("(forced-colors: active)").matches;
  if (palette.isForced) Object.assign(palette, forcedColors());
  palette.isDark = !palette.isForced && isDarkColor(palette.paper);
  palette.wash = palette.isForced ? palette.paper : mixed(palette.paper, palette.ink, 0.04);
  return palette;
}

function forcedColors() {
  const texts = Object.fromEntries(NAMES.map(name => [name, "CanvasText"]));
  return {...texts, paper: "Canvas", name: "Highlight", quiet: "GrayText"};
}

function isDarkColor(color) {
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));
  return red * 0.3 + green * 0.6 + blue * 0.1 < 128;
}

// Fill, border, and text of a node, by what nodes are colored by.
export function nodeColors(app, row) {
  const {model, palette, state} = app;
  if (palette.isForced) return [palette.paper, palette.ink, palette.ink];
  if (state.heat === "change") return changeColors(model.change[row], palette);
  if (state.heat === "kind") return colorsOfKind(model.kind[row], palette.isDark);
  return heatColors((HEATS[state.heat].of(model, row) || 0) / app.largest, palette.isDark);
}

function changeColors(change, palette) {
  if (!CHANGES[change]) return [palette.wash, palette.rule, palette.quiet];
  const color = palette[CHANGES[change][1]];
  return [mixed(palette.paper, color, 0.22), color, palette.ink];
}
