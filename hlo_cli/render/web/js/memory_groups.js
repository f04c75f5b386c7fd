// Values in groups, by source line, shape, kind, name, or scope, and the color of each group.

import {scopeOf} from "./scopes.js";
import {fileLine} from "./words.js";

export const GROUPINGS = [
  ["source", "source line"],
  ["shape", "shape"],
  ["kind", "kind"],
  ["scope", "scope"],
  ["value", "value"],
];
const COLORS = 10;
const FROM_PEAK = 7; // colors for the largest groups at the peak; the others go to what is large for long

const ARGUMENTS = new Set(["argument", "aliased"]);

// The key of a value's group. Values without a source line have an inferred one, as in `hlo memspace --by source`.
export function groupKey(row, grouping) {
  switch (grouping) {
    case "shape":
      return row.shape;
    case "kind":
      return row.kind;
    case "value":
      return row.value;
    case "scope":
      return scopeOf(row.op_name || "") || (ARGUMENTS.has(row.kind) ? "(arguments)" : "(no scope)");
    default:
      return row.source || row.origin || (ARGUMENTS.has(row.kind) ? "(arguments)" : "(no source line)");
  }
}

function isLiveAt(row, step) {
  return row.start <= step && step <= row.end;
}

// The groups of the values that are live at a step, the largest first, each with its values, the largest first.
export function groupsAt(rows, step, grouping) {
  const groups = new Map();
  for (const row of rows) {
    if (!isLiveAt(row, step)) continue;
    const key = groupKey(row, grouping);
    let group = groups.get(key);
    if (group === undefined) {
      group = {key, label: labelOf(key, grouping), bytes: 0, inferred: 0, values: []};
      groups.set(key, group);
    }
    group.bytes += row.bytes;
    if (grouping === "source" && isInferred(row)) group.inferred += 1;
    group.values.push(row);
  }
  for (const group of groups.values()) group.values.sort(byBytes);
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes || compareTexts(a.key, b.key));
}

function labelOf(key, grouping) {
  return grouping === "source" ? fileLine(key) : key;
}

// Whether the source line of a value is that of its users or operands; arguments have none to infer.
export function isInferred(row) {
  return !row.source && Boolean(row.origin) && !ARGUMENTS.has(row.kind);
}

function byBytes(a, b) {
  return b.bytes - a.bytes || compareTexts(a.value, b.value);
}

function compareTexts(a, b) {
  return a < b ? -1 : Number(a > b);
}

// The number of the color of each group that has one, 0 to COLORS - 1.
export function colorsOf(rows, peakStep, grouping) {
  const colors = new Map();
  const take = (keys, most) => {
    for (const key of keys) {
      if (colors.size >= most) return;
      if (!colors.has(key)) colors.set(key, colors.size);
    }
  };
  const atPeak = groupsAt(rows, peakStep, grouping).map(group => group.key);
  const areas = new Map();
  for (const row of rows) {
    const key = groupKey(row, grouping);
    areas.set(key, (areas.get(key) ?? 0) + row.bytes * (row.end - row.start + 1));
  }
  take(atPeak, FROM_PEAK);
  take([...areas].sort((a, b) => b[1] - a[1]).map(([key]) => key), COLORS);
  return colors;
}
