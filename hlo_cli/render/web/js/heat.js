// Nodes colored by a number: one hue, by the square root of the share of the largest.

import {mixed} from "./kinds.js";
import {formatBytes, formatFlops, formatSeconds} from "./units.js";

const LIGHT = ["#fff8ef", "#d9480f"];
const DARK = ["#1d242c", "#ff9d5c"];

// By key: label of the button, sentence of the legend, heading of the list, number of a row, and its text.
export const HEATS = {
  bytes: {
    label: "bytes", meaning: "bytes read and written", heading: "Most bytes accessed",
    of: (model, row) => model.bytes_accessed[row], text: formatBytes,
  },
  flops: {
    label: "flops", meaning: "floating-point operations", heading: "Most flops",
    of: (model, row) => model.flops[row], text: formatFlops,
  },
  padding: {
    label: "padding", meaning: "padding bytes of the result", heading: "Most padding",
    of: (model, row) => (model.bytes[row] === null ? null : Math.max(0, model.bytes[row] - model.logical_bytes[row])),
    text: formatBytes,
  },
  live: {
    label: "live", meaning: "live bytes of the main memory at the step", heading: "At the steps with most live bytes",
    of: (model, row) => model.live_bytes[row], text: formatBytes,
  },
  time: {
    label: "time", meaning: "estimated time", heading: "Longest estimated time",
    of: (model, row) => model.seconds[row], text: formatSeconds,
  },
};

// Those of which some instruction has a number.
export function presentHeats(model) {
  return Object.keys(HEATS).filter(key => {
    for (let row = 0; row < model.count; row++) if (HEATS[key].of(model, row) > 0) return true;
    return false;
  });
}

// The largest number among nodes that are not open; at least the smallest positive number, so that it divides.
export function largestOf(model, scene, key) {
  let largest = 0;
  for (const node of scene.nodes) if (!node.parts) largest = Math.max(largest, HEATS[key].of(model, node.row) || 0);
  return largest || Number.MIN_VALUE;
}

// The color of a share of the largest.
export function heatColor(share, isDark) {
  const [from, to] = isDark ? DARK : LIGHT;
  return mixed(from, to, Math.sqrt(Math.max(0, Math.min(1, share))));
}

// Fill, border, and text of a node with that share.
export function heatColors(share, isDark) {
  const fill = heatColor(share, isDark);
  const root = Math.sqrt(share);
  if (isDark) return [fill, mixed(fill, "#ffffff", 0.25), root > 0.5 ? "#000000" : "#e6edf3"];
  return [fill, mixed(fill, "#000000", 0.25), root > 0.85 ? "#ffffff" : "#000000"];
}

// The rows of a computation with the largest numbers, largest first.
export function heaviestOf(model, rows, key, most) {
  const {of} = HEATS[key];
  const found = rows.filter(row => of(model, row) > 0 && !model.is_transfer[row]);
  return found.sort((a, b) => of(model, b) - of(model, a) || a - b).slice(0, most);
}
