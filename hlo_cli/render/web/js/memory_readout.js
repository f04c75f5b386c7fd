// What is below the pointer in the memory picture: the step, the bytes in use, and the value.

import {element} from "./dom.js";
import {sourceOfValue} from "./live_rows.js";
import {groupsAt} from "./memory_groups.js";
import {nameOfStep} from "./store.js";
import {countOf, formatBytes, formatScaled, formatSeconds} from "./units.js";

export function memoryReadout(chart) {
  const {box, page: {store}} = chart;
  const readout = element("div", {class: "tip", hidden: true, "aria-hidden": "true"});
  box.append(readout);
  let band = null;
  box.addEventListener("pointermove", event => {
    band = chart.bands.get(event.target) ?? null;
  });
  store.subscribe(changed => {
    if (!changed.has("hoverStep")) return;
    const isHere = box.matches(":hover") && store.state.hoverStep !== null;
    readout.hidden = !isHere;
    if (isHere) showReadout(chart, readout, band);
  });
  box.addEventListener("pointermove", () => {
    if (!readout.hidden) showReadout(chart, readout, band);
  });
}

function showReadout(chart, readout, band) {
  const {page: {store, axis, report}, box, width} = chart;
  const step = store.state.hoverStep;
  const memory = chart.memory();
  const lines = [stepLine(report, axis, step), `${formatBytes(memory.totals[step])} in ${memory.name}`];
  if (band) lines.push("", ...linesOfBand(band, memory, store.state));
  readout.textContent = lines.join("\n");
  const x = axis.x(step + 0.5, width);
  const isRight = x + 14 + readout.offsetWidth > box.clientWidth;
  readout.style.left = `${Math.max(0, isRight ? x - 14 - readout.offsetWidth : x + 14)}px`;
}

function stepLine(report, axis, step) {
  const name = nameOfStep(report, step);
  const seconds = axis.secondsAt(step);
  const time = seconds === null ? "" : ` at ${formatSeconds(seconds)} est.`;
  return `step ${formatScaled(step)}${name ? `  ${name}` : ""}${time}`;
}

// A value, or the sum of the small values of a group.
function linesOfBand({row, group}, memory, {grouping, hoverStep}) {
  if (row) return [`${row.value}  ${formatBytes(row.bytes)}`, ...placeOf(row)];
  const found = groupsAt(memory.rows, hoverStep, grouping).find(each => each.key === group);
  return found ? [`${found.label}  ${formatBytes(found.bytes)} in ${countOf(found.values.length, "values")}`] : [];
}

function placeOf(row) {
  const steps = `steps ${formatScaled(row.start)}\u2013${formatScaled(row.end)}`;
  return [steps, row.shape, sourceOfValue(row)].filter(Boolean);
}
