// Layered layout of a directed graph without cycles: ranks from top to bottom, few crossings, straight long lines.
//
// The Python layout of the same pictures is a port of this file and of horizontal.js: same order of operations on the same
// doubles, so the same coordinates. Sums are plain loops (Python's `sum` of floats rounds otherwise), sorts are stable.
// `arrange` knows nothing of sizes, so that opening a cluster keeps the order of all others; `place` gives coordinates.

import {columnsOf, horizontal} from "./horizontal.js";

// Edges over more ranks are left out in large graphs: the page draws a stub at each end. Training steps have many such edges (weights),
// and a chain of points for each would make the layout quadratic.
export const LONG_EDGE = 8;
const RANK_LIMIT = 24; // More nodes without operands (or without users) in one rank go to further ranks.
const SWEEPS = 10;
const POINT = 6; // The width that a line takes where it passes a rank.
const LEAST_GAP = 30; // Between ranks; more where lines have far to go sideways, for they would be flat.
const MOST_GAP = 80;
const BASE_GAP = 24;
const SLOPE = 0.04;

// The order of `count` nodes in ranks. Edges are `[from, to]`, `from < to`, each pair once.
// Returns `{count, ranks, layers, up, columns, paths, isLong}`: nodes from `count` on are points of edges that pass ranks,
// `paths[e]` are those of edge `e` from top to bottom.
export function arrange(count, edges, longest = LONG_EDGE) {
  const ranks = ranksOf(count, edges);
  const up = Array.from({length: count}, () => []);
  const down = Array.from({length: count}, () => []);
  const paths = new Array(edges.length);
  const isLong = new Uint8Array(edges.length);
  edges.forEach(([from, to], at) => {
    paths[at] = [];
    if (ranks[to] - ranks[from] > longest) isLong[at] = 1;
    else addPath(from, to, ranks, up, down, paths[at]);
  });
  const layers = firstLayers(ranks, up, down);
  sweep(layers, up, down);
  return {count, ranks, layers, up, columns: columnsOf(layers, up, down, count), paths, isLong};
}

function addPath(from, to, ranks, up, down, path) {
  let last = from;
  for (let rank = ranks[from] + 1; rank < ranks[to]; rank++) {
    const point = ranks.push(rank) - 1;
    up.push([last]);
    down.push([]);
    down[last].push(point);
    path.push(point);
    last = point;
  }
  down[last].push(to);
  up[to].push(last);
}

// Ranks: as early as operands allow; then, users first, as late as users allow for nodes with no fewer users than operands.
function ranksOf(count, edges) {
  const operands = Array.from({length: count}, () => []);
  const users = Array.from({length: count}, () => []);
  for (const [from, to] of edges) {
    operands[to].push(from);
    users[from].push(to);
  }
  const ranks = new Array(count).fill(0);
  for (let node = 0; node < count; node++) {
    for (const operand of operands[node]) ranks[node] = Math.max(ranks[node], ranks[operand] + 1);
  }
  for (let node = count - 1; node >= 0; node--) {
    if (users[node].length && users[node].length >= operands[node].length) {
      ranks[node] = earliest(users[node], ranks) - 1;
    }
  }
  spread(ranks, node => !operands[node].length && users[node].length > 0, -1);
  spread(ranks, node => operands[node].length > 0 && !users[node].length, 1);
  return compacted(ranks);
}

function earliest(nodes, ranks) {
  let least = Infinity;
  for (const node of nodes) least = Math.min(least, ranks[node]);
  return least;
}

// Moves what is too much in a rank, of the nodes that may move, to the next one in a direction.
function spread(ranks, mayMove, direction) {
  const lists = new Map();
  const sizes = new Map();
  ranks.forEach((rank, node) => {
    sizes.set(rank, (sizes.get(rank) || 0) + 1);
    if (!lists.has(rank)) lists.set(rank, []);
    if (mayMove(node)) lists.get(rank).push(node);
  });
  const order = [...sizes.keys()].sort((a, b) => direction * (a - b));
  for (let rank = order[0]; order.length; rank += direction) {
    const movable = lists.get(rank) || [];
    const size = sizes.get(rank) || 0;
    const staying = Math.max(0, Math.min(movable.length, RANK_LIMIT - (size - movable.length)));
    const moved = movable.slice(staying);
    for (const node of moved) ranks[node] = rank + direction;
    if (moved.length) {
      lists.set(rank + direction, [...moved, ...(lists.get(rank + direction) || [])]);
      sizes.set(rank + direction, (sizes.get(rank + direction) || 0) + moved.length);
    }
    if (!moved.length && direction * (order[order.length - 1] - rank) <= 0) break;
  }
}

// Ranks from 0, without empty ones.
function compacted(ranks) {
  const used = [...new Set(ranks)].sort((a, b) => a - b);
  const places = new Map(used.map((rank, at) => [rank, at]));
  return ranks.map(rank => places.get(rank));
}

// Depth first, so that what belongs together is side by side to begin with.
function firstLayers(ranks, up, down) {
  const layers = [];
  const seen = new Uint8Array(ranks.length);
  for (const rank of ranks) while (layers.length <= rank) layers.push([]);
  for (let start = 0; start < ranks.length; start++) {
    const stack = [start];
    while (stack.length) {
      const node = stack.pop();
      if (seen[node]) continue;
      seen[node] = 1;
      layers[ranks[node]].push(node);
      for (const user of down[node]) if (!seen[user]) stack.push(user);
      for (const operand of up[node]) if (!seen[operand]) stack.push(operand);
    }
  }
  return layers;
}

// Sorts each layer by the mean place of its neighbors above, then below, in turn; keeps the order with the fewest crossings.
function sweep(layers, up, down) {
  const places = new Int32Array(up.length);
  const means = new Float64Array(up.length);
  const number = layer => layer.forEach((node, at) => { places[node] = at; });
  layers.forEach(number);
  let best = layers.map(layer => layer.slice());
  let fewest = crossings(layers, up, places);
  for (let round = 0; round < SWEEPS && fewest > 0; round++) {
    const isDownward = round % 2 === 0;
    for (let at = 0; at < layers.length; at++) {
      const layer = layers[isDownward ? at : layers.length - 1 - at];
      for (const node of layer) means[node] = meanPlace(isDownward ? up[node] : down[node], places, places[node]);
      layer.sort((a, b) => means[a] - means[b]);
      number(layer);
    }
    const found = crossings(layers, up, places);
    if (found >= fewest) continue;
    fewest = found;
    best = layers.map(layer => layer.slice());
  }
  best.forEach((layer, at) => { layers[at] = layer; });
}

function meanPlace(neighbors, places, own) {
  if (!neighbors.length) return own;
  let total = 0;
  for (const other of neighbors) total += places[other];
  return total / neighbors.length;
}

// Crossings of lines between neighboring layers, as inversions counted in a Fenwick tree.
function crossings(layers, up, places) {
  let total = 0;
  for (let rank = 1; rank < layers.length; rank++) {
    const size = layers[rank - 1].length;
    const tree = new Int32Array(size + 1);
    let count = 0;
    for (const node of layers[rank]) {
      for (const other of up[node]) {
        let below = 0;
        for (let at = places[other] + 1; at > 0; at -= at & -at) below += tree[at];
        total += count - below;
      }
      for (const other of up[node]) for (let at = places[other] + 1; at <= size; at += at & -at) tree[at]++;
      count += up[node].length;
    }
  }
  return total;
}

// Coordinates of an arrangement for nodes of given sizes: `{x, y, width, height, bends}`. `x`, `y` are centers, `bends[e]`
// the points of edge `e` between its ends: `[x, top, bottom]` for each rank that it passes.
export function place(arrangement, widths, heights) {
  const {count, ranks, layers, up, columns, paths} = arrangement;
  const all = Array.from(ranks, (_, node) => (node < count ? widths[node] : POINT));
  const x = horizontal(columns, all, count);
  const tops = topsOf(layers, up, x, heights, count);
  let left = Infinity;
  let right = -Infinity;
  for (let node = 0; node < all.length; node++) {
    left = Math.min(left, x[node] - all[node] / 2);
    right = Math.max(right, x[node] + all[node] / 2);
  }
  if (!all.length) left = right = 0;
  const y = Array.from({length: count}, (_, node) => tops[ranks[node]][0] + heights[node] / 2);
  const bendOf = point => [x[point] - left, tops[ranks[point]][0], tops[ranks[point]][1]];
  const bends = paths.map(path => (path.length ? path.map(bendOf) : path));
  return {
    x: Array.from({length: count}, (_, node) => x[node] - left), y, bends,
    width: right - left, height: layers.length ? tops[layers.length - 1][1] : 0,
  };
}

// Top and bottom of each rank.
function topsOf(layers, up, x, heights, count) {
  const tops = [];
  let y = 0;
  layers.forEach((layer, rank) => {
    let farthest = 0;
    let height = 0;
    for (const node of layer) {
      if (node < count) height = Math.max(height, heights[node]);
      for (const other of up[node]) farthest = Math.max(farthest, Math.abs(x[other] - x[node]));
    }
    if (rank) y += Math.min(MOST_GAP, Math.max(LEAST_GAP, BASE_GAP + SLOPE * farthest));
    tops.push([y, y + height]);
    y += height;
  });
  return tops;
}
