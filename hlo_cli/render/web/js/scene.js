// What is drawn, with coordinates: folded computations, open clusters as boxes within them.

import {fold, partOf} from "./folding.js";
import {LONG_EDGE, arrange, place} from "./layered.js";
import {NODE_HEIGHT, nodeWidth} from "./node_text.js";

const TITLE_HEIGHT = 36; // The two lines of an open cluster.
const PART_TITLE = 18; // The name of a computation where a cluster has several.
const PADDING = 14;
const LOOSE_GAP = 16;
const LOOSE_WIDTH = 1200; // Nodes without edges stand in rows of this width at least.
const PORT_GAP = 14;
const FEW = 60; // Computations of at most this many nodes have no stubs.
const PORTS_WIDTH = 360;
const BAND = 600; // Nodes and edges are found by bands of this height.

// A memory of arrangements, which do not depend on what is open.
export function createFolder(model) {
  return {model, known: new Map(), widths: new Float64Array(model.count)};
}

// The folded computation, whole.
export function foldedOf(folder, computation, state) {
  const {model, known} = folder;
  const signature = `${Number(state.transfers)} ${[...state.kept].join()}`;
  if (folder.signature !== signature) known.clear();
  folder.signature = signature;
  if (!known.has(computation)) known.set(computation, fold(model, computation, state));
  return known.get(computation);
}

// The folded computation, or the part of it in `limit`, with its arrangement, which is kept until the part changes.
function arrangedOf(folder, computation, state, limit) {
  const whole = foldedOf(folder, computation, state);
  const isPart = limit !== null && limit.computations.has(computation);
  if (!isPart) return whole.arranged ||= arranged(whole.nodes, whole.edges);
  const before = limit.arranged.get(computation);
  if (before && before.whole === whole) return before;
  const {nodes, edges} = partOf(whole, limit.nodes);
  const links = limit.links && limit.links.filter(({to}) => folder.model.computation[to] === computation);
  const found = {...arranged(nodes, links || edges), whole};
  limit.arranged.set(computation, found);
  return found;
}

// A limit of what is shown to some rows; in computations without any of them all is shown. `links` are edges to show.
export function limitTo(model, nodes, links = null) {
  const computations = new Set([...nodes].map(row => model.computation[row]));
  return {nodes, links, computations, arranged: new Map()};
}

// Nodes with edges, arranged; those without any, apart.
function arranged(nodes, edges) {
  const tied = new Set();
  for (const {from, to} of edges) tied.add(from).add(to);
  const linked = nodes.filter(row => tied.has(row));
  const places = new Map(linked.map((row, at) => [row, at]));
  const pairs = edges.map(({from, to}) => pairOf(places.get(from), places.get(to)));
  const arrangement = arrange(linked.length, pairs, linked.length <= FEW ? linked.length : LONG_EDGE);
  const ranks = new Map(linked.map((row, at) => [row, arrangement.ranks[at]]));
  return {nodes, edges, linked, loose: nodes.filter(row => !tied.has(row)), arrangement, ranks};
}

// Control may point to an earlier row; for the order of ranks that makes no difference.
function pairOf(from, to) {
  return from < to ? [from, to] : [to, from];
}

// `{nodes, edges, at, width, height}`: nodes `{row, x, y, width, height, rank, parent, depth, parts, up, down}` with centers, edges with
// `points` from the bottom of one to the top of the other: `[x, top, bottom]` for each rank they pass.
export function sceneOf(folder, state, limit) {
  const scene = {nodes: [], edges: [], at: new Map(), titles: [], bands: new Map()};
  const group = groupOf(folder, state.computation, state, limit, new Set());
  flatten(group, 0, 0, null, scene);
  for (const node of scene.nodes) setPorts(node);
  for (const edge of scene.edges) setEnds(edge);
  fillBands(scene);
  return Object.assign(scene, {width: group.width, height: group.height});
}

// One computation; clusters within it are placed first, as their size decides about its own.
function groupOf(folder, computation, state, limit, outer) {
  const {model} = folder;
  const folded = arrangedOf(folder, computation, state, limit);
  const within = new Set(outer).add(computation);
  const boxes = new Map();
  for (const row of folded.nodes) {
    const parts = state.open.has(row) && model.expandable[row] ? partsOf(model, row, limit, within) : [];
    boxes.set(row, boxOf(folder, row, parts, part => groupOf(folder, part, state, limit, within)));
  }
  const sizes = folded.linked.map(row => boxes.get(row));
  const placed = place(folded.arrangement, sizes.map(box => box.width), sizes.map(box => box.height));
  sizes.forEach((box, at) => {
    box.x = placed.x[at];
    box.y = placed.y[at];
  });
  const group = {computation, folded, boxes, bends: placed.bends, width: placed.width, height: placed.height};
  placeLoose(group);
  return group;
}

// The computations to show in a row; of those that the command has chosen parts of, no others.
function partsOf(model, row, limit, within) {
  const called = model.calls[row].filter(each => !within.has(each) && model.inside[each].length);
  const chosen = called.filter(each => limit?.computations.has(each));
  return chosen.length ? chosen : called;
}

function boxOf({model, widths}, row, parts, build) {
  widths[row] ||= nodeWidth(model, row);
  const box = {width: widths[row], height: NODE_HEIGHT, parts: null, x: 0, y: 0};
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
  const {ranks, arrangement} = group.folded;
  for (const row of group.folded.nodes) {
    const box = group.boxes.get(row);
    const {width, height, parts} = box;
    const rank = ranks.get(row) ?? -1;
    const node = {row, x: left + box.x, y: top + box.y, width, height, parts, rank, parent, depth, up: [], down: []};
    made.set(row, node);
    scene.nodes.push(node);
    if (!scene.at.has(row)) scene.at.set(row, node);
    for (const part of node.parts || []) {
      const [x, y] = [node.x - node.width / 2 + part.x, node.y - node.height / 2 + part.y];
      if (part.name) scene.titles.push({name: part.name, x, y: y - 6, node});
      flatten(part.group, x, y, node, scene);
    }
  }
  group.folded.edges.forEach(({from: source, to: target, bytes, kind}, at) => {
    const from = made.get(source);
    const to = made.get(target);
    const points = [null];
    for (const [x, start, end] of group.bends[at]) points.push([left + x, top + start, top + end]);
    points.push(null);
    const edge = {from, to, bytes, kind, isLong: arrangement.isLong[at] === 1, points, out: 0, into: 0};
    from.down.push(edge);
    to.up.push(edge);
    scene.edges.push(edge);
  });
}

// Where edges leave and enter a node: side by side, in the order of where they go.
function setPorts(node) {
  const above = node.up.filter(edge => !edge.isLong);
  const below = node.down.filter(edge => !edge.isLong);
  const before = ({points, from}) => (points.length > 2 ? points[points.length - 2][0] : from.x);
  const after = ({points, to}) => (points.length > 2 ? points[1][0] : to.x);
  above.sort((a, b) => before(a) - before(b)).forEach((edge, at) => { edge.into = portAt(node, at, above.length); });
  below.sort((a, b) => after(a) - after(b)).forEach((edge, at) => { edge.out = portAt(node, at, below.length); });
}

function portAt(node, at, count) {
  const gap = count > 1 ? Math.min(PORT_GAP, Math.min(node.width, PORTS_WIDTH) * 0.6 / (count - 1)) : 0;
  return (at - (count - 1) / 2) * gap;
}

function setEnds({from, to, points, out, into}) {
  const start = from.y + from.height / 2;
  const end = to.y - to.height / 2;
  points[0] = [from.x + out, start, start];
  points[points.length - 1] = [to.x + into, end, end];
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
