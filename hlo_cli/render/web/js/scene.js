// What is drawn, with coordinates: folded computations, open clusters as boxes within them.

import {fold, limitedTo} from "./folding.js";
import {arrange, place} from "./layered.js";
import {NODE_HEIGHT, nodeWidth} from "./node_text.js";

const TITLE_HEIGHT = 36; // The two lines of an open cluster.
const PART_TITLE = 18; // The name of a computation where a cluster has several.
const PADDING = 14;
const LOOSE_GAP = 16;
const LOOSE_WIDTH = 1200; // Nodes without edges stand in rows of this width at least.
const PORT_GAP = 14;
const BAND = 600; // Nodes and edges are found by bands of this height.

// A memory of arrangements, which do not depend on what is open.
export function createFolder(model) {
  return {model, known: new Map()};
}

// The folded computation and its arrangement; `nodes` limits what is drawn, or is null.
export function foldedOf(folder, computation, state, nodes = null) {
  const {model, known} = folder;
  const signature = `${Number(state.transfers)} ${[...state.kept].join()}`;
  if (folder.signature !== signature) known.clear();
  folder.signature = signature;
  const key = nodes ? "limited" : computation;
  const before = known.get(key);
  if (before && before.limit === nodes) return before;
  const rows = nodes ? limitedTo(model, model.inside[computation], nodes, state) : model.inside[computation];
  const {nodes: drawn, edges} = fold(model, rows, state);
  const found = {...arranged(drawn, edges), limit: nodes};
  known.set(key, found);
  return found;
}

// Nodes with edges, arranged; those without any, apart.
function arranged(nodes, edges) {
  const tied = new Set();
  for (const {from, to} of edges) tied.add(from).add(to);
  const linked = nodes.filter(row => tied.has(row));
  const places = new Map(linked.map((row, at) => [row, at]));
  const pairs = edges.map(({from, to}) => [places.get(from), places.get(to)].sort((a, b) => a - b));
  return {nodes, edges, linked, loose: nodes.filter(row => !tied.has(row)), arrangement: arrange(linked.length, pairs)};
}

// `{nodes, edges, at, width, height}`: nodes `{row, x, y, width, height, rank, parent, depth, parts, up, down}` with centers, edges with
// `points` from the bottom of one to the top of the other: `[x, top, bottom]` for each rank they pass.
export function sceneOf(folder, state, limit) {
  const scene = {nodes: [], edges: [], at: new Map(), titles: [], bands: new Map()};
  const group = groupOf(folder, state.computation, state, limit, new Set());
  flatten(group, 0, 0, null, scene);
  for (const node of scene.nodes) setPorts(node);
  for (const edge of scene.edges) edge.points = pointsOf(edge);
  fillBands(scene);
  return Object.assign(scene, {width: group.width, height: group.height});
}

// One computation; clusters within it are placed first, as their size decides about its own.
function groupOf(folder, computation, state, limit, outer) {
  const {model} = folder;
  const folded = foldedOf(folder, computation, state, limit);
  const within = new Set(outer).add(computation);
  const boxes = new Map();
  for (const row of folded.nodes) {
    const parts = state.open.has(row) && model.expandable[row]
      ? model.calls[row].filter(called => !within.has(called) && model.inside[called].length) : [];
    boxes.set(row, boxOf(row, parts, part => groupOf(folder, part, state, null, within), model));
  }
  const sizes = folded.linked.map(row => boxes.get(row));
  const placed = place(folded.arrangement, sizes.map(box => box.width), sizes.map(box => box.height));
  folded.linked.forEach((row, at) => Object.assign(boxes.get(row), {x: placed.x[at], y: placed.y[at]}));
  const group = {computation, folded, boxes, bends: placed.bends, width: placed.width, height: placed.height};
  placeLoose(group);
  return group;
}

function boxOf(row, parts, build, model) {
  const box = {row, width: nodeWidth(model, row), height: NODE_HEIGHT, parts: null};
  if (!parts.length) return box;
  const titled = parts.length > 1 ? PART_TITLE : 0;
  let x = PADDING;
  let height = 0;
  box.parts = parts.map(part => {
    const group = build(part);
    const name = titled ? model.computations[part] : null;
    const found = {group, name, x, y: TITLE_HEIGHT + titled};
    x += Math.max(group.width, name ? name.length * 6.2 : 0) + PADDING;
    height = Math.max(height, group.height);
    return found;
  });
  box.width = Math.max(box.width, x);
  box.height = TITLE_HEIGHT + titled + height + PADDING;
  return box;
}

function placeLoose(group) {
  let x = 0;
  let top = group.folded.linked.length ? group.height + 2 * LOOSE_GAP : 0;
  let height = 0;
  const room = Math.max(LOOSE_WIDTH, group.width);
  for (const row of group.folded.loose) {
    const box = group.boxes.get(row);
    if (x && x + box.width > room) {
      x = 0;
      top += height + LOOSE_GAP;
      height = 0;
    }
    Object.assign(box, {x: x + box.width / 2, y: top + box.height / 2});
    x += box.width + LOOSE_GAP;
    height = Math.max(height, box.height);
    group.width = Math.max(group.width, x - LOOSE_GAP);
    group.height = Math.max(group.height, top + height);
  }
}

function flatten(group, left, top, parent, scene) {
  const made = new Map();
  const depth = parent ? parent.depth + 1 : 0;
  const {linked, arrangement} = group.folded;
  const ranks = new Map(linked.map((row, at) => [row, arrangement.ranks[at]]));
  for (const row of group.folded.nodes) {
    const box = group.boxes.get(row);
    const spot = {x: left + box.x, y: top + box.y, rank: ranks.get(row) ?? -1};
    const node = {...box, ...spot, parent, depth, up: [], down: [], ports: new Map()};
    made.set(row, node);
    scene.nodes.push(node);
    if (!scene.at.has(row)) scene.at.set(row, node);
    for (const part of node.parts || []) {
      const [x, y] = [node.x - node.width / 2 + part.x, node.y - node.height / 2 + part.y];
      if (part.name) scene.titles.push({name: part.name, x, y: y - 6, node});
      flatten(part.group, x, y, node, scene);
    }
  }
  group.folded.edges.forEach((found, at) => {
    const [from, to] = [made.get(found.from), made.get(found.to)];
    const bends = group.bends[at].map(([x, start, end]) => [left + x, top + start, top + end]);
    const edge = {...found, from, to, bends, isLong: Boolean(arrangement.isLong[at])};
    from.down.push(edge);
    to.up.push(edge);
    scene.edges.push(edge);
  });
}

// Where edges leave and enter a node: side by side, in the order of where they go.
function setPorts(node) {
  const goal = (edge, side) => {
    const bend = side === "down" ? edge.bends[0] : edge.bends[edge.bends.length - 1];
    return bend ? bend[0] : (side === "down" ? edge.to : edge.from).x;
  };
  for (const side of ["up", "down"]) {
    const edges = node[side].filter(edge => !edge.isLong);
    if (edges.length < 2) continue;
    const sorted = edges.map(edge => [goal(edge, side), edge]).sort((a, b) => a[0] - b[0]);
    const gap = Math.min(PORT_GAP, Math.min(node.width, 360) * 0.6 / (edges.length - 1));
    sorted.forEach(([, edge], at) => node.ports.set(edge, (at - (edges.length - 1) / 2) * gap));
  }
}

function pointsOf(edge) {
  const {from, to, bends} = edge;
  const start = from.y + from.height / 2;
  const end = to.y - to.height / 2;
  const out = from.x + (from.ports.get(edge) || 0);
  const into = to.x + (to.ports.get(edge) || 0);
  return [[out, start, start], ...bends, [into, end, end]];
}

function fillBands(scene) {
  for (const node of scene.nodes) addToBands(scene, "nodes", node.y - node.height / 2, node.y + node.height / 2, node);
  for (const edge of scene.edges) {
    const top = edge.points[0][1];
    const bottom = edge.points[edge.points.length - 1][1];
    if (!edge.isLong) {
      addToBands(scene, "edges", Math.min(top, bottom), Math.max(top, bottom), edge);
      continue;
    }
    addToBands(scene, "edges", top, top, edge);
    if (Math.floor(top / BAND) !== Math.floor(bottom / BAND)) addToBands(scene, "edges", bottom, bottom, edge);
  }
}

function addToBands({bands}, list, top, bottom, item) {
  for (let band = Math.floor(top / BAND); band <= Math.floor(bottom / BAND); band++) {
    if (!bands.has(band)) bands.set(band, {nodes: [], edges: []});
    bands.get(band)[list].push(item);
  }
}

// The nodes and edges between two heights, each once, outer nodes first.
export function seenBetween({bands}, top, bottom) {
  const nodes = new Set();
  const edges = new Set();
  for (let band = Math.floor(top / BAND); band <= Math.floor(bottom / BAND); band++) {
    for (const node of bands.get(band)?.nodes || []) nodes.add(node);
    for (const edge of bands.get(band)?.edges || []) edges.add(edge);
  }
  return {nodes: [...nodes].sort((a, b) => a.depth - b.depth), edges: [...edges]};
}
