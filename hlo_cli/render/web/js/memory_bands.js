// The stack of values as shapes: where each value lies in each column of the picture.

const SMALLEST = 300; // values below this part of the peak are one gray sum
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

// The bands `{row, path}` of the values that are large enough, older ones below; above them the sum of the others, and
// the outline of the total. `y` gives the place of a number of bytes.
export function stackBands(rows, peakBytes, totals, {steps, edges}, y) {
  const base = new Float64Array(steps.length);
  let lower = new Float64Array(steps.length).fill(tenths(y(0)));
  const bands = [];
  for (const {row, from, to} of largeValues(rows, peakBytes, steps)) {
    const upper = new Float64Array(to + 1);
    for (let column = from; column <= to; column++) {
      base[column] += row.bytes;
      upper[column] = tenths(y(base[column]));
    }
    bands.push({row, path: bandPath(edges, lower, upper, from, to)});
    for (let column = from; column <= to; column++) lower[column] = upper[column];
  }
  const top = Float64Array.from(steps, step => tenths(y(totals[step])));
  const last = steps.length - 1;
  return {bands, others: bandPath(edges, lower, top, 0, last), outline: linePath(edges, top, 0, last)};
}

// Values with the columns in which they are live, from the oldest; the largest areas if there are too many.
function largeValues(rows, peakBytes, steps) {
  const found = [];
  for (const row of rows) {
    if (row.bytes * SMALLEST < peakBytes || !row.bytes) continue;
    const from = firstAtLeast(steps, row.start);
    const to = firstAtLeast(steps, row.end + 1) - 1;
    if (from <= to) found.push({row, from, to});
  }
  if (found.length > MOST_BANDS) {
    found.sort((a, b) => b.row.bytes * (b.to - b.from + 1) - a.row.bytes * (a.to - a.from + 1));
    found.length = MOST_BANDS;
  }
  return found.sort((a, b) => a.row.start - b.row.start || b.row.end - a.row.end || b.row.bytes - a.row.bytes);
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
