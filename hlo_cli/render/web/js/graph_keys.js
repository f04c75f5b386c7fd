// Keys of the picture.

import {isLimited, select, showBetween, showWhole, surround, toggle} from "./graph_state.js";
import {fitScene, reveal, zoomBy} from "./graph_view.js";

const ZOOM = 1.25;

// Handles a key pressed on the canvas; returns whether it had a meaning.
export function pressKey(app, key) {
  const {scene, state, view} = app;
  const node = scene.at.get(state.selected);
  if (key.startsWith("Arrow")) walk(app, node, key);
  else if (key === "Enter" || key === " ") node ? toggle(app, node.row) : walk(app, node, "ArrowDown");
  else if (key === "Escape") goBack(app, node);
  else if (key === "n" || key === "N") isLimited(app) ? showWhole(app) : state.selected !== null && surround(app, state.selected);
  else if (isLimited(app) && state.around !== null && "1" <= key && key <= "4") surround(app, state.around, Number(key));
  else if ("fF+=-".includes(key)) {
    if (key === "f" || key === "F") fitScene(view, scene);
    else zoomBy(view, key === "-" ? 1 / ZOOM : ZOOM);
    app.refresh({view: true});
  } else return false;
  return true;
}

// Back: from a part to the whole, from a node to the cluster it is in, from a selected node to none.
function goBack(app, node) {
  if (isLimited(app)) return showWhole(app);
  return select(app, node && node.parent ? node.parent.row : null);
}

function walk(app, node, key) {
  const next = node ? neighborOf(app.scene, node, key) : firstNode(app);
  if (!next) return;
  select(app, next.row);
  reveal(app.view, next);
  app.refresh({view: true});
}

// The node nearest to the middle of the view.
function firstNode({scene, view}) {
  const [x, y] = [(view.width / 2 - view.x) / view.scale, (view.height / 2 - view.y) / view.scale];
  const distance = node => Math.hypot(node.x - x, node.y - y);
  return scene.nodes.reduce((best, node) => (!best || distance(node) < distance(best) ? node : best), null);
}

function neighborOf(scene, node, key) {
  if (key === "ArrowUp") return thickest(node.up)?.from || node.parent;
  if (key === "ArrowDown") return node.parts ? firstInside(scene, node) : thickest(node.down)?.to;
  const side = key === "ArrowLeft" ? -1 : 1;
  let best = null;
  for (const other of scene.nodes) {
    if (other.parent !== node.parent || other.rank !== node.rank || (other.x - node.x) * side <= 0) continue;
    if (!best || (best.x - other.x) * side > 0) best = other;
  }
  return best;
}

function thickest(edges) {
  return edges.reduce((best, edge) => (!best || edge.bytes > best.bytes ? edge : best), null);
}

function firstInside(scene, node) {
  return scene.nodes.find(other => other.parent === node);
}

// Shift-click: the paths between the selected node and another.
export function connectTo(app, row) {
  if (app.state.selected === null || !showBetween(app, app.state.selected, row)) select(app, row);
}
