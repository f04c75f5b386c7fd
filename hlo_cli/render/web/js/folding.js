// What of a computation is drawn: nodes and edges, with hidden instructions seen through.
// analysis/graphs/views.py has the same rules for pictures, DOT, and trees.

const EDGE_KINDS = ["control", "transfer", "data"]; // Of several ways between two nodes, the last kind counts.
const CONTROL = 0;
const TRANSFER = 1;
const DATA = 2;
const MOST_USERS = 16; // Users of a node with more than this are not followed, unless it is the center.

// Whether a row is seen through. `kept` are rows to draw all the same, as one that was searched.
export function isSeenThrough(model, row, {transfers, kept}) {
  if (kept.has(row)) return false;
  return Boolean(model.is_hidden[row]) || (!transfers && Boolean(model.is_transfer[row]));
}

// `{nodes, edges}` of a computation: the nodes are rows, edges `{from, to, bytes, kind}`, ordered by target. The bytes
// of an edge are those that the target reads: the least along the way, added over operands. Parameters without users
// are left out.
export function fold(model, computation, options) {
  const rows = model.inside[computation];
  const used = new Set(rows.flatMap(row => [...model.operands[row], ...model.control[row]]));
  const isKept = row => model.is_root[row] || used.has(row) || options.kept.has(row);
  const isIdle = row => model.opcode[row] === "parameter" && !isKept(row);
  const nodes = [];
  const edges = [];
  const reach = new Map(); // By row that is seen through: rows behind it, with bytes and kind.
  for (const row of rows) {
    const found = behind(model, row, reach);
    if (isSeenThrough(model, row, options)) {
      reach.set(row, passed(found, model.bytes[row] || 0, model.is_transfer[row] ? TRANSFER : DATA));
      continue;
    }
    if (!isIdle(row)) nodes.push(row);
    for (const [from, [bytes, kind]] of found) edges.push({from, to: row, bytes, kind: EDGE_KINDS[kind]});
  }
  return {nodes, edges};
}

function passed(found, most, best) {
  return new Map([...found].map(([from, [bytes, kind]]) => [from, [Math.min(bytes, most), Math.min(kind, best)]]));
}

// The nodes behind a row: those of its operands, whose bytes add up, and its control predecessors.
function behind(model, row, reach) {
  const found = new Map();
  for (const operand of model.operands[row]) {
    const sources = reach.get(operand) || [[operand, [model.bytes[operand] || 0, DATA]]];
    for (const [from, [bytes, kind]] of sources) {
      const known = found.get(from);
      found.set(from, known ? [bytes + known[0], Math.max(kind, known[1])] : [bytes, kind]);
    }
  }
  for (const before of model.control[row]) {
    const sources = reach.has(before) ? reach.get(before).keys() : [before];
    for (const from of sources) if (!found.has(from)) found.set(from, [0, CONTROL]);
  }
  return found;
}

// The part of a folded computation with some nodes.
export function partOf({nodes, edges}, shown) {
  return {
    nodes: nodes.filter(row => shown.has(row)),
    edges: edges.filter(({from, to}) => shown.has(from) && shown.has(to)),
  };
}

// The nodes at most `depth` edges away from one of a folded computation.
export function neighborhood({edges}, center, depth) {
  const operands = neighborsOf(edges, "to", "from");
  const users = neighborsOf(edges, "from", "to");
  const next = node => {
    const below = users.get(node) || [];
    return [...(operands.get(node) || []), ...(node === center || below.length <= MOST_USERS ? below : [])];
  };
  return reached(next, center, depth);
}

// The nodes on paths from one node to the other, in the direction that has any; null if neither has.
export function nodesBetween({edges}, first, second) {
  const operands = neighborsOf(edges, "to", "from");
  const users = neighborsOf(edges, "from", "to");
  for (const [from, to] of [[first, second], [second, first]]) {
    const after = reached(node => users.get(node) || [], from, Infinity);
    if (!after.has(to)) continue;
    const before = reached(node => operands.get(node) || [], to, Infinity);
    return new Set([...after].filter(node => before.has(node)));
  }
  return null;
}

function neighborsOf(edges, key, value) {
  const near = new Map();
  for (const edge of edges) {
    if (!near.has(edge[key])) near.set(edge[key], []);
    near.get(edge[key]).push(edge[value]);
  }
  return near;
}

function reached(next, start, depth) {
  const found = new Set([start]);
  let border = [start];
  for (let steps = 0; steps < depth && border.length; steps++) {
    const near = new Set(border.flatMap(next));
    border = [...near].filter(node => !found.has(node));
    for (const node of border) found.add(node);
  }
  return found;
}
