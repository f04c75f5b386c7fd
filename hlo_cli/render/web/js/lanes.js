// What the schedule's picture shows: async operations packed into lanes by kind, and the compute of each step.

import {numberOf} from "./store.js";

const COLLECTIVE = "collective";
const TRANSFER = "transfer";

// One lane for each kind of operation, those with most bytes first: `{operation, rows, intervals}`; intervals that
// overlap are in different rows. An interval is `{pair, row, share}`, `share` the exposed part of its duration.
export function lanesOf(pairs) {
  const lanes = new Map();
  for (const pair of pairs) {
    if (numberOf(pair.start) === null || numberOf(pair.done) === null) continue;
    const lane = lanes.get(pair.operation) || {operation: pair.operation, bytes: 0, rows: 0, intervals: []};
    lanes.set(pair.operation, lane);
    lane.bytes += numberOf(pair.total_bytes) ?? 0;
    lane.intervals.push({pair, row: 0, share: exposedShare(pair)});
  }
  for (const lane of lanes.values()) lane.rows = packIntervals(lane.intervals);
  return [...lanes.values()].sort((a, b) => b.bytes - a.bytes || (a.operation < b.operation ? -1 : 1));
}

// Gives each interval the first row that is free at its start; returns the number of rows.
function packIntervals(intervals) {
  intervals.sort((a, b) => a.pair.start - b.pair.start || b.pair.done - a.pair.done);
  const ends = [];
  for (const interval of intervals) {
    const free = ends.findIndex(end => end < interval.pair.start);
    interval.row = free < 0 ? ends.length : free;
    ends[interval.row] = interval.pair.done;
  }
  return ends.length;
}

// The part of an operation's duration that no compute overlaps; without times, all of one that overlaps no kernel.
function exposedShare(pair) {
  if (pair.exposed_seconds === undefined) return pair.unoverlapped === true ? 1 : 0;
  const [exposed, total] = [numberOf(pair.exposed_seconds), numberOf(pair.total_seconds)];
  return exposed && total ? Math.min(1, exposed / total) : 0;
}

// What operations are of which no compute overlaps a part: time is exposed; without times, there is no overlap.
export function exposedWord(pairs) {
  return pairs.some(pair => pair.exposed_seconds !== undefined) ? "exposed" : "without overlap";
}

// Whether any part of an operation is exposed, as `hlo schedule` counts them.
export function isExposed(pair) {
  return exposedShare(pair) > 0;
}

// The cost of each step that is drawn: estimated seconds of compute, else bytes accessed by its kernel.
// `{costs, unit, synchronous}`: `synchronous` are the rows of steps that run a collective without start and done.
export function computeOfSteps(report, count, hasTime) {
  const kernels = new Map((report.tables.kernels?.rows ?? []).map(row => [row.instruction, row]));
  const costs = new Float64Array(count);
  const synchronous = [];
  for (const row of report.tables.steps?.rows ?? []) {
    const kernel = kernels.get(row.instruction);
    if (kernel && kernel.kernel_kind === COLLECTIVE && !isAsync(row.opcode)) synchronous.push(row);
    if (kernel && (kernel.kernel_kind === TRANSFER || kernel.kernel_kind === COLLECTIVE)) continue;
    if (hasTime) costs[row.step] = numberOf(row.compute_seconds) ?? 0;
    else if (kernel) costs[row.step] = Math.max(1, numberOf(kernel.bytes) ?? 1);
  }
  return {costs, unit: hasTime ? "seconds" : "bytes", synchronous};
}

function isAsync(opcode) {
  return /-(?:start|update|done)$/.test(opcode || "");
}

// Costs of steps summed by columns of a picture: those of a step are spread over the columns that it takes.
// `edges(step)` is the left edge of a step in columns.
export function columnsOfCosts(costs, edges, columns) {
  const sums = new Float64Array(columns);
  for (let step = 0; step < costs.length; step++) {
    if (!costs[step]) continue;
    const [from, to] = [edges(step), edges(step + 1)];
    const first = Math.min(columns - 1, Math.floor(from));
    const last = Math.min(columns - 1, Math.floor(to));
    for (let column = first; column <= last; column++) {
      const part = to > from ? (Math.min(to, column + 1) - Math.max(from, column)) / (to - from) : 1;
      sums[column] += costs[step] * Math.max(0, part);
    }
  }
  return sums;
}
