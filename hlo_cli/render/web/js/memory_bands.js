// The stack of values as shapes: where each value lies in each column of the picture.

const SMALLEST = 300; // values below this part of the peak are summed by group
const MOST_BANDS = 1500;

// The total of a track at each step.
export function totalsBySteps(track, count) {
  const totals = new Float64Array(count);
  let at = 0;
  let bytes = 0;
  for (let step = 0; step < count; step++) {
    while (at < track.totals.length && track.totals[at][0] <= step) bytes = track.totals[at++][1];
    totals[step] = bytes;
  }
  return totals;
}

// Columns of at least a pixel: `steps[c]`, the step with the highest total in column c, and `edges`, their places.
export function pictureColumns(axis, totals, width) {
  const [left, right] = [axis.x(0, width), axis.x(axis.count, width)];
  const pixels = Math.max(1, Math.floor(right - left));
  const columns = axis.isTime() ? pixels : Math.min(axis.count, pixels);
  const steps = new Int32Array(columns);
  const edges = Array.from({length: columns + 1}, (_, column) => tenths(left + (column * (right - left)) / columns));
  let first = 0;
  for (let column = 0; column < columns; column++) {
    const after = axis.isTime() ? axis.stepAt(edges[column + 1], width) + 1 : Math.floor(((column + 1) * axis.count) / columns);
    steps[column] = highest(totals, first, Math.max(first + 1, after));
    first = axis.isTime() ? Math.max(first, after - 1) : after;
  }
  return {steps, edges};
}

function highest(totals, first, after) {
  let found = first;
  for (let step = first + 1; step < after; step++) if (totals[step] > totals[found]) found = step;
  return found;
}

// The stack from below: `{row, group, path}` for each value that is large enough, older ones below, and for all others
// of a group, which have no `row`; last those of no group. `groupOf(row)` is a group's key, or null. `y` gives the place
// of a number of bytes. The outline is the total.
export function stackBands(rows, groupOf, memory, {steps, edges}, y) {
  const {large, small} = bandsOf(rows, groupOf, memory.peakBytes, steps);
  const base = new Float64Array(steps.length);
  const lower = new Float64Array(steps.length).fill(tenths(y(0)));
  const last = steps.length - 1;
  const stack = ({row, group, from, to, heights}) => {
    const upper = new Float64Array(to + 1);
    for (let column = from; column <= to; column++) {
      base[column] += heights === undefined ? row.bytes : heights[column];
      upper[column] = tenths(y(base[column]));
    }
    const path = bandPath(edges, lower, upper, from, to);
    for (let column = from; column <= to; column++) lower[column] = upper[column];
    return {row, group, path};
  };
  const bands = [...large, ...small].sort(fromOldest).map(stack);
  const top = Float64Array.from(steps, step => tenths(y(memory.totals[step])));
  return {bands, others: bandPath(edges, lower, top, 0, last), outline: linePath(edges, top, 0, last)};
}

// Sums of small values lie above the large ones, but for those that are there from the first step, such as arguments.
function fromOldest(a, b) {
  return a.start - b.start || b.end - a.end || (b.row?.bytes ?? 0) - (a.row?.bytes ?? 0);
}

// Large values with the columns in which they are live, and the sums of the small ones by group.
function bandsOf(rows, groupOf, peakBytes, steps) {
  const large = [];
  const sums = new Map();
  for (const row of rows) {
    const from = firstAtLeast(steps, row.start);
    const to = firstAtLeast(steps, row.end + 1) - 1;
    if (from > to || !row.bytes) continue;
    const group = groupOf(row);
    if (row.bytes * SMALLEST >= peakBytes && large.length < MOST_BANDS) {
      large.push({row, group, from, to, start: row.start, end: row.end});
    } else if (group !== null) addSmall(sums, group, row, from, to, steps.length);
  }
  return {large, small: [...sums.values()].map(sum => finishedSum(sum, steps.length))};
}

// The sum as its changes by column; `first` are the bytes that are there from the first step.
function addSmall(sums, group, row, from, to, columns) {
  let sum = sums.get(group);
  if (sum === undefined) sums.set(group, (sum = {group, changes: new Float64Array(columns + 1), first: 0, bytes: 0}));
  sum.changes[from] += row.bytes;
  sum.changes[to + 1] -= row.bytes;
  sum.bytes += row.bytes;
  if (row.start === 0) sum.first += row.bytes;
}

function finishedSum({group, changes, first, bytes}, columns) {
  const heights = new Float64Array(columns);
  let height = 0;
  for (let column = 0; column < columns; column++) heights[column] = height += changes[column];
  const isFirst = first > bytes / 2;
  return {row: null, group, heights, from: 0, to: columns - 1, start: isFirst ? 0 : Infinity, end: Infinity};
}

function firstAtLeast(steps, step) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

function linePath(edges, heights, from, to) {
  let path = `M${edges[from]} ${heights[from]}`;
  for (let column = from + 1; column <= to; column++) {
    if (heights[column] !== heights[column - 1]) path += `H${edges[column]}V${heights[column]}`;
  }
  return `${path}H${edges[to + 1]}`;
}

function bandPath(edges, lower, upper, from, to) {
  let path = `${linePath(edges, upper, from, to)}V${lower[to]}`;
  for (let column = to - 1; column >= from; column--) {
    if (lower[column] !== lower[column + 1]) path += `H${edges[column + 1]}V${lower[column]}`;
  }
  return `${path}H${edges[from]}Z`;
}

function tenths(value) {
  return Math.round(value * 10) / 10;
}
