// Places of nodes in ordered layers, after Brandes and Koepf, "Fast and simple horizontal coordinate assignment" (2001):
// four times every node is aligned with the middle one of its neighbors (above or below, from the left or from the right)
// and the columns so made are pushed together; the answer is the mean of the two middle ones. Linear; long lines are straight.

const NODE_GAP = 16;
const POINT_GAP = 8;

// What does not depend on sizes: of each of the four, the columns from left to right and what is next to what.
export function columnsOf(layers, up, down, count) {
  const conflicts = conflictsOf(layers, up, count);
  const found = [];
  for (const isUpward of [false, true]) {
    for (const isMirrored of [false, true]) {
      let rows = isUpward ? layers.slice().reverse() : layers;
      if (isMirrored) rows = rows.map(row => row.slice().reverse());
      const roots = aligned(rows, isUpward ? down : up, conflicts, isUpward);
      found.push({roots, isMirrored, ...ordered(rows, roots)});
    }
  }
  return found;
}

// The centers of all nodes; those from `count` on are points of lines.
export function horizontal(columns, widths, count) {
  const candidates = columns.map(each => {
    const x = pushedTogether(each, widths, count);
    return each.isMirrored ? x.map(value => -value) : x;
  });
  return balanced(candidates, widths);
}

// Lines that cross a straight piece (between two points) and must give way to it, as `from * nodes + to`.
function conflictsOf(layers, up, count) {
  const conflicts = new Set();
  const places = placesOf(layers, up.length);
  for (let rank = 1; rank < layers.length; rank++) {
    const layer = layers[rank];
    let left = 0;
    let scanned = 0;
    layer.forEach((node, at) => {
      const inner = node >= count && up[node][0] >= count ? up[node][0] : -1;
      if (inner < 0 && at < layer.length - 1) return;
      const right = inner < 0 ? layers[rank - 1].length : places[inner];
      for (; scanned <= at; scanned++) {
        const end = layer[scanned];
        for (const start of up[end]) {
          const isStraight = start >= count && end >= count;
          if (!isStraight && (places[start] < left || right < places[start])) conflicts.add(start * up.length + end);
        }
      }
      left = right;
    });
  }
  return conflicts;
}

function placesOf(rows, size) {
  const places = new Array(size).fill(0);
  for (const row of rows) row.forEach((node, at) => { places[node] = at; });
  return places;
}

// The first node of the column of each node.
function aligned(rows, near, conflicts, isUpward) {
  const size = near.length;
  const places = placesOf(rows, size);
  const roots = Array.from({length: size}, (_, node) => node);
  const isTaken = new Uint8Array(size);
  for (const row of rows) {
    let last = -1;
    for (const node of row) {
      const others = near[node];
      if (!others.length) continue;
      const sorted = others.slice().sort((a, b) => places[a] - places[b]);
      const middles = [(sorted.length - 1) >> 1, sorted.length >> 1];
      for (const other of middles.map(middle => sorted[middle])) {
        const key = isUpward ? node * size + other : other * size + node;
        if (roots[node] !== node || isTaken[other] || last >= places[other] || conflicts.has(key)) continue;
        roots[node] = roots[other];
        isTaken[other] = 1;
        last = places[other];
      }
    }
  }
  return roots;
}

// The columns, each after those to its left, and for each the pairs of neighbors in a row of which it has the left one.
function ordered(rows, roots) {
  const pairs = roots.map(() => []);
  const pending = new Int32Array(roots.length);
  for (const row of rows) {
    for (let at = 1; at < row.length; at++) {
      pairs[roots[row[at - 1]]].push(row[at - 1], row[at]);
      pending[roots[row[at]]]++;
    }
  }
  const order = [];
  for (let node = 0; node < roots.length; node++) if (roots[node] === node && !pending[node]) order.push(node);
  for (let at = 0; at < order.length; at++) {
    const own = pairs[order[at]];
    for (let each = 1; each < own.length; each += 2) if (!--pending[roots[own[each]]]) order.push(roots[own[each]]);
  }
  return {order, pairs};
}

// As far to the left as columns allow, then back to the right where there is room.
function pushedTogether({roots, order, pairs}, widths, count) {
  const x = new Float64Array(roots.length);
  const distance = (left, right) => {
    const gap = left >= count && right >= count ? POINT_GAP : NODE_GAP;
    return (widths[left] + widths[right]) / 2 + gap;
  };
  for (const root of order) {
    const own = pairs[root];
    for (let at = 0; at < own.length; at += 2) {
      const other = roots[own[at + 1]];
      x[other] = Math.max(x[other], x[root] + distance(own[at], own[at + 1]));
    }
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const own = pairs[order[at]];
    let room = Infinity;
    for (let each = 0; each < own.length; each += 2) {
      room = Math.min(room, x[roots[own[each + 1]]] - distance(own[each], own[each + 1]));
    }
    if (room < Infinity) x[order[at]] = Math.max(x[order[at]], room);
  }
  return x.map((_, node) => x[roots[node]]);
}

// The four at one place, left edges or right edges on those of the narrowest; then the mean of the two in the middle.
function balanced(candidates, widths) {
  const spans = candidates.map(x => {
    let left = Infinity;
    let right = -Infinity;
    for (let node = 0; node < x.length; node++) {
      left = Math.min(left, x[node] - widths[node] / 2);
      right = Math.max(right, x[node] + widths[node] / 2);
    }
    return [left, right];
  });
  let narrowest = spans[0];
  for (const span of spans) if (span[1] - span[0] < narrowest[1] - narrowest[0]) narrowest = span;
  const shifts = spans.map((span, at) => (at % 2 ? narrowest[1] - span[1] : narrowest[0] - span[0]));
  return widths.map((_, node) => {
    const values = candidates.map((x, at) => x[node] + shifts[at]).sort((a, b) => a - b);
    return (values[1] + values[2]) / 2;
  });
}
