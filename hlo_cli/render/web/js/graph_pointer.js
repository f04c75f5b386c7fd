// Pointers on the picture: drag, pinch, wheel, click, double click.

import {connectTo} from "./graph_keys.js";
import {select, toggle} from "./graph_state.js";
import {pointUnder, READABLE, zoomBy} from "./graph_view.js";
import {firstLine, secondLine} from "./node_text.js";
import {seenBetween} from "./scene.js";

const STILL = 6; // A pointer that moved less than this many pixels clicks.
const MARK_WIDTH = 20; // The mark of what can be opened, with its margin.
const MARK_HEIGHT = 18;
const WHEEL = 0.0016;
const PINCH = 0.01; // A pinch on a touchpad arrives as a wheel with Control.
const LINE = 16; // Pixels of a wheel that counts in lines.

export function listenToPointers(app, canvas) {
  const pointers = new Map();
  let moved = 0;
  canvas.onpointerdown = event => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (pointers.size === 1) moved = 0;
    canvas.classList.add("dragged");
  };
  canvas.onpointermove = event => {
    const before = pointers.get(event.pointerId);
    if (!before) return hover(app, canvas, event);
    const [x, y] = [event.offsetX, event.offsetY];
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    moveView(app.view, pointers, event.pointerId, before, [x, y]);
    pointers.set(event.pointerId, [x, y]);
    return app.refresh({view: true});
  };
  canvas.onpointerup = event => {
    const isClick = moved < STILL && pointers.size === 1;
    pointers.delete(event.pointerId);
    canvas.classList.remove("dragged");
    if (isClick) click(app, event);
  };
  canvas.onpointercancel = event => pointers.delete(event.pointerId);
  canvas.ondblclick = event => {
    const node = nodeUnder(app, event.offsetX, event.offsetY);
    if (node && !isOnMark(app, node, event)) toggle(app, node.row);
  };
  canvas.addEventListener("wheel", event => turnWheel(app, event), {passive: false});
}

function moveView(view, pointers, id, before, [x, y]) {
  const other = [...pointers].find(([each]) => each !== id)?.[1];
  if (!other) {
    view.x += x - before[0];
    view.y += y - before[1];
    return;
  }
  const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
  const is = Math.hypot(x - other[0], y - other[1]);
  zoomBy(view, is / Math.max(1, was), (x + other[0]) / 2, (y + other[1]) / 2);
}

// Zooms; with Shift, or a wheel that goes sideways, moves.
function turnWheel(app, event) {
  event.preventDefault();
  const {view} = app;
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
  const [across, down] = [event.deltaX * unit, event.deltaY * unit];
  const isZoom = event.ctrlKey || event.metaKey;
  if (!isZoom && (event.shiftKey || Math.abs(across) > Math.abs(down))) view.x -= across || down;
  else zoomBy(view, Math.exp(-down * (isZoom ? PINCH : WHEEL)), event.offsetX, event.offsetY);
  app.refresh({view: true});
}

// The innermost node at a point of the canvas.
function nodeUnder(app, offsetX, offsetY) {
  const [x, y] = pointUnder(app.view, offsetX, offsetY);
  let found = null;
  for (const node of seenBetween(app.scene, y, y).nodes) {
    const isIn = Math.abs(node.x - x) <= node.width / 2 && Math.abs(node.y - y) <= node.height / 2;
    if (isIn && (!found || node.depth > found.depth)) found = node;
  }
  return found;
}

function isOnMark(app, node, event) {
  if (!app.model.expandable[node.row] || app.view.scale < READABLE) return false;
  const [x, y] = pointUnder(app.view, event.offsetX, event.offsetY);
  return x - (node.x - node.width / 2) < MARK_WIDTH && y - (node.y - node.height / 2) < MARK_HEIGHT;
}

function click(app, event) {
  const node = nodeUnder(app, event.offsetX, event.offsetY);
  if (!node) select(app, null);
  else if (event.shiftKey) connectTo(app, node.row);
  else if (isOnMark(app, node, event)) toggle(app, node.row);
  else select(app, node.row);
}

// Names of nodes that are too small to be read.
function hover(app, canvas, event) {
  const node = nodeUnder(app, event.offsetX, event.offsetY);
  canvas.style.cursor = node ? "pointer" : "";
  const isUnread = node && app.view.scale < READABLE;
  canvas.title = isUnread ? `${firstLine(app.model, node.row)}\n${secondLine(app.model, node.row)}` : "";
}
