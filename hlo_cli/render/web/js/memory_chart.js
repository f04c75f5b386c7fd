// The picture of memory over the schedule: a band for each value, the total, the peak, and the limit if it is near.

import {element, svgElement} from "./dom.js";
import {LEFT, pictureOf, RIGHT, watchWidth} from "./axis.js";
import {colorsOf, groupKey} from "./memory_groups.js";
import {pictureColumns, stackBands, totalsBySteps} from "./memory_bands.js";
import {memoryKeys} from "./memory_keys.js";
import {memoryReadout} from "./memory_readout.js";
import {instructionOf, isSelected, nameOfStep} from "./store.js";
import {tickDistance} from "./ticks.js";
import {axisUnit, BYTE_UNITS, formatBytes, formatScaled} from "./units.js";
import {shorten} from "./words.js";

const CHART_TOP = 24;
const HEIGHTS = {narrow: 200, wide: 340};
const THIN = 3; // pixels; lines around lower bands would hide their color
const NEAR = 1.35; // a limit beyond this multiple of the peak is left to the gauge

export function createMemoryChart(page, memory) {
  const {store, axis} = page;
  const box = element("div", {class: "picture memory", tabindex: 0, role: "slider", "aria-orientation": "horizontal"});
  const chart = {page, memory, box, bands: new Map(), width: 0};
  box.setAttribute("aria-label", "Memory in use by step");
  axis.track(box);
  box.addEventListener("click", event => {
    const band = chart.bands.get(event.target);
    if (band) store.set({selected: ownOfBand(band, store.state.grouping)});
  });
  memoryKeys(box, page, memory);
  memoryReadout(chart);
  watchWidth(box, width => drawChart(chart, width));
  store.subscribe(changed => {
    if (["space", "scale", "grouping"].some(key => changed.has(key))) drawChart(chart, chart.width);
    else if (changed.has("selected")) markBands(chart);
  });
  return box;
}

// What the memory of a name holds: its rows, peak, limit, and totals by step.
export function memoryOf(report, axis, name) {
  const track = report.timelines.buffers.tracks.find(each => each.name === name);
  const rows = (report.tables.buffers?.rows ?? []).filter(row => row.space === name);
  const limit = report.tables.spaces?.rows.find(row => row.space === name)?.limit_bytes ?? track.limit_bytes;
  const totals = totalsBySteps(track, axis.count);
  return {name, rows, peakBytes: track.peak_bytes, peakStep: track.peak_step, limitBytes: limit, totals};
}

function drawChart(chart, width) {
  if (!width) return;
  const {page: {axis}, box} = chart;
  const memory = chart.memory();
  const height = width < 640 ? HEIGHTS.narrow : HEIGHTS.wide;
  const bottom = CHART_TOP + height;
  const limit = nearLimit(memory);
  const most = Math.max(memory.peakBytes, limit ?? 0, 1) * 1.02;
  const y = bytes => bottom - (bytes / most) * height;
  const svg = pictureOf(width, bottom + 20 + (axis.loops.length ? 26 : 0));
  chart.width = width;
  axis.drawLoops(svg, width, CHART_TOP, bottom);
  drawScale(svg, width, most, y);
  drawBands(chart, svg, memory, pictureColumns(axis, memory.totals, width), y);
  if (limit !== null) drawLimit(svg, width, limit, y);
  axis.drawAxis(svg, width, bottom);
  axis.labelLoops(svg, width, bottom + 22);
  drawPeak(chart, svg, memory, width, bottom);
  axis.addCrosshair("memory", svg, width, CHART_TOP, bottom);
  chart.svg = svg;
  const old = box.querySelector("svg");
  if (old) old.replaceWith(svg);
  else box.prepend(svg);
  markBands(chart);
}

function nearLimit({limitBytes, peakBytes}) {
  return typeof limitBytes === "number" && limitBytes < NEAR * peakBytes ? limitBytes : null;
}

function drawScale(svg, width, most, y) {
  const unit = axisUnit(most);
  const distance = tickDistance(most / 1024 ** unit, 4);
  for (let at = 0; at * distance * 1024 ** unit <= most; at++) {
    const place = y(at * distance * 1024 ** unit).toFixed(1);
    const isLast = (at + 1) * distance * 1024 ** unit > most;
    const number = Number((at * distance).toPrecision(6)).toLocaleString("en-US");
    const text = isLast ? `${number} ${BYTE_UNITS[unit]}` : number;
    svg.append(
      svgElement("path", {d: `M${LEFT} ${place}H${width - RIGHT}`, class: "grid"}),
      svgElement("text", {x: LEFT - 8, y: Number(place) + 4, class: "quiet", "text-anchor": "end", text}),
    );
  }
}

// Values without a color are gray; what is too small for a band of its own is a part of the sum of its group.
function drawBands(chart, svg, memory, columns, y) {
  const {grouping} = chart.page.store.state;
  const colors = colorsOf(memory.rows, memory.peakStep, grouping);
  const colored = row => {
    const key = groupKey(row, grouping);
    return colors.has(key) ? key : null;
  };
  const {bands, others, outline} = stackBands(memory.rows, colored, memory, columns, y);
  chart.bands = new Map();
  const group = svgElement("g", {});
  for (const band of bands) {
    const color = band.group === null ? "other" : `b${colors.get(band.group)}`;
    const isThin = band.row === null || y(0) - y(band.row.bytes) < THIN;
    const shape = svgElement("path", {d: band.path, class: `band ${color}${isThin ? " thin" : ""}`});
    chart.bands.set(shape, band);
    group.append(shape);
  }
  svg.append(svgElement("path", {d: others, class: "small"}), group, svgElement("path", {d: outline, class: "total"}));
}

function drawLimit(svg, width, limit, y) {
  const place = y(limit).toFixed(1);
  const at = {x: width - RIGHT - 4, y: place - 4, "text-anchor": "end"};
  svg.append(
    svgElement("path", {d: `M${LEFT} ${place}H${width - RIGHT}`, class: "limit"}),
    svgElement("text", {...at, class: "peak-label", text: `limit ${formatBytes(limit)}`}),
  );
}

function drawPeak({page: {axis, report}}, svg, memory, width, bottom) {
  const x = axis.x(memory.peakStep + 0.5, width);
  const name = nameOfStep(report, memory.peakStep) ?? "";
  const at = `step ${formatScaled(memory.peakStep)}${name ? `, ${shorten(name, 34)}` : ""}`;
  const words = `peak ${formatBytes(memory.peakBytes)}, ${at}`;
  const wide = words.length * 6.2 + 14;
  const fits = x + wide < width;
  const anchor = fits ? "start" : x - wide > 0 ? "end" : "middle";
  const text = anchor === "end" ? `${words} \u25bc` : `\u25bc ${words}`;
  const place = {start: x - 5, end: x + 5, middle: width / 2}[anchor];
  svg.append(
    svgElement("path", {d: `M${x.toFixed(1)} ${CHART_TOP - 8}V${bottom}`, class: "peak"}),
    svgElement("text", {x: place.toFixed(1), y: CHART_TOP - 11, class: "peak-label", "text-anchor": anchor, text}),
  );
}

function markBands({page: {store}, bands, svg}) {
  const {selected} = store.state;
  let isAny = false;
  for (const [shape, band] of bands) {
    const own = ownOfBand(band, store.state.grouping);
    const isOn = own !== null && isSelected(selected, own) && (band.row !== null || selected.instruction === null);
    shape.classList.toggle("on", isOn);
    isAny ||= isOn;
  }
  svg?.classList.toggle("has-selection", isAny);
}

// What a band shows: a value, or a source line.
function ownOfBand({row, group}, grouping) {
  if (row !== null) return {instruction: instructionOf(row.value), value: row.value, source: row.source || null};
  return grouping === "source" ? {instruction: null, value: null, source: group} : null;
}
