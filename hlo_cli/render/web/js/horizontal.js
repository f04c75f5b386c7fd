// Places of nodes in ordered layers, after Brandes and Koepf, "Fast and simple horizontal coordinate assignment" (2001):
// four times every node is aligned with the middle one of its neighbors (above or below, from the left or from the right)
// and the columns so made are pushed together; the answer is the mean of the two middle ones. Linear; long lines are straight.

const NODE_GAP = 16;
const POINT_GAP = 8;

// The centers of all nodes; those from `count` on are points of lines.
export function horizontal(layers, up, down, widths, count) {
  const conflicts = conflictsOf(layers, up, count);
  const candidates = [];
  for (const isUpward of [false, true]) {
    for (const isMirrored of [false, true]) {
      let rows = isUpward ? layers.slice().reverse() : layers;
      if (isMirrored) rows = rows.map(row => row.slice().reverse());
      const roots = aligned(rows, isUpward ? down : up, conflicts, isUpward);
      const x = pushedTogether(rows, roots, widths, count);
      candidates.push(isMirrored ? x.map(value => -value) : x);
    }
  }
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

// As far to the left as columns allow, then back to the right where there is room.
function pushedTogether(rows, roots, widths, count) {
  const next = roots.map(() => []);
  const pending = new Int32Array(roots.length);
  for (const row of rows) {
    for (let at = 1; at < row.length; at++) {
      const [left, right] = [row[at - 1], row[at]];
      const gap = left >= count && right >= count ? POINT_GAP : NODE_GAP;
      next[roots[left]].push([roots[right], (widths[left] + widths[right]) / 2 + gap]);
      pending[roots[right]]++;
    }
  }
  const order = [];
  for (let node = 0; node < roots.length; node++) if (roots[node] === node && !pending[node]) order.push(node);
  const x = new Array(roots.length).fill(0);
  for (let at = 0; at < order.length; at++) {
    for (const [other, distance] of next[order[at]]) {
      x[other] = Math.max(x[other], x[order[at]] + distance);
      if (!--pending[other]) order.push(other);
    }
  }
  for (let at = order.length - 1; at >= 0; at--) {
    let room = Infinity;
    for (const [other, distance] of next[order[at]]) room = Math.min(room, x[other] - distance);
    if (room < Infinity) x[order[at]] = Math.max(x[order[at]], room);
  }
  return roots.map(root => x[root]);
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
