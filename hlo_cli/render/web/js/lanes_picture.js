// The picture of the schedule: a row of kernels, and below it a lane for each kind of async operation.

import {element, svgElement} from "./dom.js";
import {LEFT, RIGHT, watchWidth} from "./axis.js";
import {columnsOfCosts, computeOfSteps, lanesOf} from "./lanes.js";
import {isRowSelected} from "./selection.js";
import {numberOf} from "./store.js";
import {lineOfRow} from "./words.js";

const KERNELS_HEIGHT = 34;
const SYNCHRONOUS_HEIGHT = 11;
const LANE_ROOM = 96;
const GAP = 9;
const LEAST_LANE = 24;

// `{element, hasSynchronous}`: the picture, and whether it has synchronous collectives; `readOut` hears what is below
// the pointer, `{pair}` or `{synchronous}`, a row of a table; null for nothing.
export function createLanes({report, store, axis}, pairs, readOut) {
  const label = "Schedule: kernels and async operations over steps";
  const box = element("div", {class: "picture lanes", role: "img", "aria-label": label});
  const lanes = lanesOf(pairs);
  const compute = computeOfSteps(report, axis.count, axis.hasTime);
  let marks = [];
  let width = 0;
  const draw = wide => {
    width = wide;
    const picture = drawLanes({lanes, compute, store, axis, readOut}, width);
    marks = picture.marks;
    box.replaceChildren(picture.svg);
    mark();
  };
  const mark = () => {
    const {selected} = store.state;
    for (const {shape, own} of marks) shape.classList.toggle("on", isRowSelected(selected, own));
  };
  watchWidth(box, draw);
  store.subscribe(changed => {
    if (changed.has("scale") && width) draw(width);
    else if (changed.has("selected")) mark();
  });
  axis.track(box);
  const hasSynchronous = compute.synchronous.length > 0 || lanes.some(lane => lane.intervals.some(isSynchronous));
  return {element: box, hasSynchronous};
}

function drawLanes(parts, width) {
  const {lanes, axis} = parts;
  const svg = svgElement("svg", {width});
  const shapes = svgElement("g");
  const marks = [];
  let y = 2;
  drawKernels(parts, shapes, width, y);
  y += KERNELS_HEIGHT + GAP;
  if (parts.compute.synchronous.length) y += drawSynchronous(parts, shapes, width, y, marks) + GAP;
  for (const lane of lanes) y += drawLane(lane, parts, shapes, width, y, marks) + GAP;
  y -= GAP - 4;
  axis.drawLoops(svg, width, 0, y);
  svg.append(shapes);
  axis.drawAxis(svg, width, y);
  axis.addCrosshair("lanes", svg, width, 0, y);
  svg.setAttribute("height", y + 22);
  svg.setAttribute("viewBox", `0 0 ${width} ${y + 22}`);
  return {svg, marks};
}

// The height of a column is the share of its time in which kernels run; on an axis of steps, the share of the largest
// column, as square roots, so that short kernels can be seen too.
function drawKernels({compute, axis}, shapes, width, top) {
  const columns = Math.max(1, Math.min(axis.count, width - LEFT - RIGHT));
  const wide = (width - LEFT - RIGHT) / columns;
  const sums = columnsOfCosts(compute.costs, step => (axis.x(step, width) - LEFT) / wide, columns);
  const most = Math.max(...sums);
  const shareOf = sum => (axis.isTime() ? Math.min(1, sum / secondsOf(axis, columns)) : Math.sqrt(sum / most));
  const base = top + KERNELS_HEIGHT;
  let outline = "";
  sums.forEach((sum, column) => {
    if (!sum) return;
    const height = Math.max(1, KERNELS_HEIGHT * shareOf(sum));
    outline += `M${(LEFT + column * wide).toFixed(1)} ${base}v${-height.toFixed(1)}h${wide.toFixed(2)}V${base}Z`;
  });
  shapes.append(laneLabel(["kernels"], base - 4), svgElement("path", {d: outline, class: "kernels"}));
}

// The time of one column on an axis of time.
function secondsOf(axis, columns) {
  return axis.secondsAt(axis.count) / columns;
}

// A lane of the collectives during which the device computes nothing.
function drawSynchronous({compute, store, axis, readOut}, shapes, width, top, marks) {
  const label = laneLabel(["sync"], top + SYNCHRONOUS_HEIGHT - 1);
  label.append(svgElement("title", {text: `synchronous collectives: ${compute.synchronous.length}`}));
  shapes.append(label);
  for (const row of compute.synchronous) {
    const [from, to] = [axis.x(row.step, width), axis.x(row.step + 1, width)];
    const place = {x: from.toFixed(1), y: top, width: Math.max(1.5, to - from).toFixed(1), height: SYNCHRONOUS_HEIGHT};
    const own = {instruction: row.instruction};
    const shape = svgElement("rect", {...place, class: "synchronous mark"});
    shape.onclick = event => {
      event.stopPropagation(); // its step is pinned, not one of those beside it at the same place
      store.show(own);
    };
    shape.onpointerenter = () => readOut({synchronous: row});
    shape.onpointerleave = () => readOut(null);
    marks.push({shape, own});
    shapes.append(shape);
  }
  return SYNCHRONOUS_HEIGHT;
}

function drawLane(lane, {store, axis, readOut}, shapes, width, top, marks) {
  const pitch = Math.max(1, Math.min(7, LANE_ROOM / lane.rows));
  const height = pitch > 2 ? pitch - 1 : pitch * 0.8;
  const label = laneLabel(lane.operation.split(/(?<=collective-|reduce-|dynamic-|update-|ragged-)/), top + 10);
  label.append(svgElement("title", {text: `${lane.operation}: ${lane.intervals.length}`}));
  shapes.append(label);
  for (const {pair, row, share} of lane.intervals) {
    const from = axis.x(pair.start, width);
    const wide = Math.max(1.2, axis.x(pair.done + 1, width) - from);
    const place = {y: (top + row * pitch).toFixed(1), height: height.toFixed(1)};
    const own = {instruction: pair.instruction, source: lineOfRow(pair), also: [pair.done_instruction]};
    const shape = svgElement("rect", {...place, x: from.toFixed(1), width: wide.toFixed(1), class: "interval mark"});
    shape.dataset.name = pair.instruction;
    shape.onclick = () => store.show({instruction: own.instruction, source: own.source});
    shape.onpointerenter = () => readOut({pair});
    shape.onpointerleave = () => readOut(null);
    marks.push({shape, own});
    shapes.append(shape);
    if (!share) continue;
    const exposed = Math.max(2, exposedWidth(pair, share, wide, axis, width));
    const tone = isSynchronous({pair}) ? "synchronous" : "exposed";
    const end = from + Math.max(wide, exposed) - exposed;
    shapes.append(svgElement("rect", {...place, x: end.toFixed(1), width: exposed.toFixed(1), class: tone}));
  }
  return Math.max(lane.rows * pitch, LEAST_LANE);
}

// A start and done that the compiler runs as one.
function isSynchronous({pair}) {
  return pair.is_sync === true;
}

// The exposed stretch is at the end, where the done waits: on an axis of time as long as the wait of one execution, on
// average, as the axis has one iteration of a loop; else as the share.
function exposedWidth(pair, share, wide, axis, width) {
  const seconds = numberOf(pair.exposed_seconds);
  if (!axis.isTime() || seconds === null || share === 1) return wide * share;
  const each = seconds / (numberOf(pair.execution_count) || 1);
  return Math.min(wide, (each / axis.secondsAt(axis.count)) * (width - LEFT - RIGHT));
}

// A name of up to two lines left of the axis.
function laneLabel(lines, y) {
  const label = svgElement("text", {class: "quiet lane", "text-anchor": "end"});
  const [first, ...rest] = lines;
  for (const [at, text] of [first, rest.join("")].entries()) {
    if (text) label.append(svgElement("tspan", {x: LEFT - 8, y: y + at * 12, text}));
  }
  return label;
}
