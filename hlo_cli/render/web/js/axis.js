// One x axis for all pictures over the schedule, so that what stands above each other happens together.
//
// createAxis(report, store) gives
//   count, hasTime          steps on the axis; whether the steps have estimated times
//   x(step, width)          left edge of a step in a picture of that width; `x(count, width)` is the right end
//   stepAt(x, width)        the step at a place, within 0 to count - 1
//   secondsAt(step)         estimated begin of a step, or null
//   drawAxis(svg, width, y) ticks and their numbers below y, 20 px high
//   drawLoops(svg, width, top, bottom)      shades the steps of loops
//   labelLoops(svg, width, y)               brackets with `name x trips` below y, 24 px high; 0 without loops
//   addCrosshair(key, svg, width, top, bottom)   the crosshair in a picture; drawn anew under the same key
//   track(box)              pointer and click of a picture: sets hoverStep; a click pins the step
// Pictures listen to the store's `scale`, and draw anew by `watchWidth(box, draw)` when their box changes its width.

import {svgElement} from "./dom.js";
import {numberOf} from "./store.js";
import {TIME_UNITS, tickDistance} from "./ticks.js";

export const LEFT = 66;
export const RIGHT = 10;

export function createAxis(report, store) {
  const timeline = report.timelines.buffers;
  const starts = startTimes(report.tables.steps?.rows ?? []);
  const timed = starts === null ? 0 : starts.length - 1; // the last is the end
  const count = Math.max(timeline?.steps ?? 0, timed, report.tables.steps?.rows.length ?? 0, 1);
  const total = starts === null ? 0 : starts.at(-1);
  const hasTime = total > 0;
  const isTime = () => hasTime && store.state.scale === "time";
  const secondsAt = step => (hasTime ? between(starts, Math.min(step, starts.length - 1)) : null);
  const room = width => Math.max(1, width - LEFT - RIGHT);
  const x = (step, width) => LEFT + (isTime() ? secondsAt(step) / total : step / count) * room(width);
  const stepAt = (place, width) => {
    const part = Math.min(1, Math.max(0, (place - LEFT) / room(width)));
    return Math.min(count - 1, isTime() ? lastAtMost(starts, part * total) : Math.floor(part * count));
  };
  const loops = timeline?.loops ?? [];
  const axis = {count, hasTime, loops, x, stepAt, secondsAt, isTime};
  return {
    ...axis,
    drawAxis: (svg, width, y) => drawTicks(svg, width, y, isTime() ? total : count, isTime()),
    drawLoops: (svg, width, top, bottom) => drawLoopShades(axis, svg, width, top, bottom),
    labelLoops: (svg, width, y) => drawLoopLabels(axis, svg, width, y),
    ...createCrosshairs(axis, store),
  };
}

// An empty picture; one that is printed narrower than it was drawn is scaled.
export function pictureOf(width, height) {
  const scaled = {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMinYMin"};
  return svgElement("svg", {"aria-hidden": "true", width, height, ...scaled});
}

// Calls `draw(width)` when the width of a box is another one than at the last call.
export function watchWidth(box, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width && width !== last) draw((last = width));
  }).observe(box);
}

// Begin of each step in seconds, and at last the end; null if any is unknown.
function startTimes(rows) {
  const starts = [];
  let end = 0;
  for (const row of rows) {
    const start = numberOf(row.start_seconds);
    if (start === null) return null;
    starts[row.step] = start;
    end = Math.max(end, start + (numberOf(row.compute_seconds) ?? 0) + (numberOf(row.wait_seconds) ?? 0));
  }
  for (let step = 0; step < starts.length; step++) starts[step] ??= starts[step - 1] ?? 0;
  return starts.length ? [...starts, end] : null;
}

// The value at a place between two indices.
function between(values, place) {
  const index = Math.floor(place);
  const rest = place - index;
  return rest ? values[index] + rest * (values[index + 1] - values[index]) : values[index];
}

function lastAtMost(values, limit) {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle] <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

function drawTicks(svg, width, y, most, isTime) {
  const [unit, factor] = isTime ? TIME_UNITS.find(([, each]) => most * each < 1000) ?? ["s", 1] : ["step", 1];
  const scaled = most * factor;
  const room = width - LEFT - RIGHT;
  const distance = Math.max(tickDistance(scaled, Math.max(2, room / 110)), isTime ? 0 : 1);
  svg.append(svgElement("path", {d: `M${LEFT} ${y + 0.5}H${width - RIGHT}`, class: "grid"}));
  for (let at = 0; at * distance <= scaled; at++) {
    const tick = LEFT + ((at * distance) / scaled) * room;
    const text = Number((at * distance).toPrecision(6)).toLocaleString("en-US");
    const isLast = tick > width - RIGHT - 16;
    const x = isLast ? width - RIGHT : tick.toFixed(1);
    const anchor = at === 0 ? "start" : isLast ? "end" : "middle";
    svg.append(
      svgElement("path", {d: `M${tick.toFixed(1)} ${y}v4`, class: "grid"}),
      svgElement("text", {x, y: y + 16, class: "quiet", "text-anchor": anchor, text}),
    );
  }
  const label = isTime ? `${unit}, est.` : unit;
  svg.append(svgElement("text", {x: LEFT - 8, y: y + 16, class: "quiet", "text-anchor": "end", text: label}));
}

function drawLoopShades(axis, svg, width, top, bottom) {
  for (const loop of axis.loops) {
    const x = axis.x(loop.start, width);
    const wide = Math.max(1, axis.x(loop.end + 1, width) - x).toFixed(1);
    svg.append(svgElement("rect", {x: x.toFixed(1), y: top, width: wide, height: bottom - top, class: "loop"}));
  }
}

function drawLoopLabels(axis, svg, width, y) {
  let free = 0;
  for (const loop of axis.loops) {
    const [start, end] = [axis.x(loop.start, width), axis.x(loop.end + 1, width)];
    svg.append(svgElement("path", {d: `M${start.toFixed(1)} ${y}v4H${end.toFixed(1)}v-4`, class: "bracket"}));
    const text = `${loop.name} \u00d7 ${loop.trip_count ?? "?"}`;
    const half = text.length * 3;
    const middle = Math.min(Math.max((start + end) / 2, half), width - half);
    if (middle - half < free) continue;
    svg.append(svgElement("text", {x: middle.toFixed(1), y: y + 17, class: "quiet", "text-anchor": "middle", text}));
    free = middle + half + 8;
  }
  return axis.loops.length ? 24 : 0;
}

// Lines at the step below the pointer and at the pinned step, in all pictures at once.
function createCrosshairs(axis, store) {
  const pictures = new Map();
  const place = () => {
    const {hoverStep, step, isPinned} = store.state;
    for (const {width, hover, pin} of pictures.values()) {
      moveLine(hover, hoverStep === null ? null : axis.x(hoverStep + 0.5, width));
      moveLine(pin, isPinned ? axis.x(step + 0.5, width) : null);
    }
  };
  store.subscribe(changed => {
    if (["hoverStep", "step", "isPinned", "space"].some(key => changed.has(key))) place();
  });
  const addCrosshair = (key, svg, width, top, bottom) => {
    const line = kind => svgElement("path", {d: `M0 ${top}V${bottom}`, class: kind});
    const picture = {width, hover: line("cross"), pin: line("pin")};
    pictures.set(key, picture);
    svg.append(picture.hover, picture.pin);
    place();
  };
  const stepOfEvent = (event, box) => {
    const edges = box.getBoundingClientRect();
    return axis.stepAt(event.clientX - edges.left, edges.width);
  };
  const track = box => {
    box.addEventListener("pointermove", event => store.set({hoverStep: stepOfEvent(event, box)}));
    box.addEventListener("pointerleave", () => store.set({hoverStep: null}));
    box.addEventListener("click", event => store.set({step: stepOfEvent(event, box), isPinned: true}));
  };
  return {addCrosshair, track};
}

function moveLine(line, x) {
  if (x === null) line.setAttribute("visibility", "hidden");
  else {
    line.setAttribute("visibility", "visible");
    line.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
  }
}
