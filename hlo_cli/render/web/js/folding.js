// What of a computation is drawn: nodes and edges, with hidden instructions seen through.
//
// Python has the same rules for pictures, DOT and trees. Nodes keep the order of the rows. Edges are ordered by user, then
// operand; several between two nodes are one with the sum of their bytes. The bytes of an edge are those of the value that
// the user reads: the least along the way. An edge is a transfer if all that it sums pass a transfer. Control edges join
// what no data edge joins.

// Whether a row is seen through. `kept` are rows to draw all the same, as one that was searched.
export function isSeenThrough(model, row, {transfers, kept}) {
  if (kept.has(row)) return false;
  return model.is_transfer[row] ? !transfers : Boolean(model.is_hidden[row]);
}

// `{nodes, edges}` of rows of one computation: the nodes are rows, edges `{from, to, bytes, isTransfer, isControl}`.
// Rows that are not given count as not there.
export function fold(model, rows, options) {
  const nodes = [];
  const edges = [];
  const known = new Map();
  const sources = new Map();
  for (const row of rows) {
    const found = isSeenThrough(model, row, options) ? hiddenSources(model, row, sources) : null;
    sources.set(row, found || [{from: row, bytes: model.bytes[row] || 0, isTransfer: false}]);
    if (found) continue;
    nodes.push(row);
    for (const operand of model.operands[row]) {
      for (const source of sources.get(operand) || []) addEdge(source, row, model.count, known, edges);
    }
  }
  addControl(model, nodes, sources, known, edges);
  return {nodes, edges};
}

// What the operands of a hidden row lead to. What passes a row is no larger than its value; a tuple holds what it is made of.
function hiddenSources(model, row, sources) {
  const found = new Map();
  const size = model.opcode[row] === "tuple" || model.bytes[row] === null ? Infinity : model.bytes[row];
  for (const operand of model.operands[row]) {
    for (const {from, bytes, isTransfer} of sources.get(operand) || []) {
      const passed = Math.min(bytes, size);
      const isMoved = isTransfer || Boolean(model.is_transfer[row]);
      const before = found.get(from);
      if (!before) found.set(from, {from, bytes: passed, isTransfer: isMoved});
      else if (passed > before.bytes) found.set(from, {from, bytes: passed, isTransfer: before.isTransfer && isMoved});
    }
  }
  return [...found.values()];
}

function addEdge({from, bytes, isTransfer}, to, count, known, edges) {
  if (from === to) return;
  const key = from * count + to;
  const before = known.get(key);
  if (!before) {
    const edge = {from, to, bytes, isTransfer, isControl: false};
    known.set(key, edge);
    edges.push(edge);
    return;
  }
  before.bytes += bytes;
  before.isTransfer &&= isTransfer;
}

function addControl(model, nodes, sources, known, edges) {
  for (const to of nodes) {
    for (const predecessor of model.control[to]) {
      for (const {from} of sources.get(predecessor) || []) {
        const key = from * model.count + to;
        if (from === to || known.has(key) || known.has(to * model.count + from)) continue;
        const edge = {from, to, bytes: 0, isTransfer: false, isControl: true};
        known.set(key, edge);
        edges.push(edge);
      }
    }
  }
}

// The rows to give to `fold` to draw the nodes alone: those, and all that is seen through.
export function limitedTo(model, rows, nodes, options) {
  return rows.filter(row => nodes.has(row) || isSeenThrough(model, row, options));
}

// The nodes at most `depth` edges away from a node of a folded computation.
export function neighborhood({edges}, start, depth) {
  const near = neighborsOf(edges, edge => [[edge.from, edge.to], [edge.to, edge.from]]);
  return reached(near, start, depth);
}

// The nodes on ways from one node to the other, in the direction that has one; null if neither has.
export function nodesBetween({edges}, first, second) {
  const users = neighborsOf(edges, edge => [[edge.from, edge.to]]);
  const operands = neighborsOf(edges, edge => [[edge.to, edge.from]]);
  for (const [from, to] of [[first, second], [second, first]]) {
    const below = reached(users, from, Infinity);
    if (!below.has(to)) continue;
    const above = reached(operands, to, Infinity);
    return new Set([...below].filter(node => above.has(node)));
  }
  return null;
}

function neighborsOf(edges, pairsOf) {
  const near = new Map();
  for (const edge of edges) {
    for (const [one, other] of pairsOf(edge)) {
      if (!near.has(one)) near.set(one, []);
      near.get(one).push(other);
    }
  }
  return near;
}

function reached(near, start, depth) {
  const found = new Set([start]);
  let last = [start];
  for (let steps = 0; steps < depth && last.length; steps++) {
    const next = [];
    for (const node of last) {
      for (const other of near.get(node) || []) {
        if (found.has(other)) continue;
        found.add(other);
        next.push(other);
      }
    }
    last = next;
  }
  return found;
}
