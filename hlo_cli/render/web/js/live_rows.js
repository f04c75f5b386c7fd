// Rows of the table of live values: groups with the color of their bands, and below them their values.

import {element} from "./dom.js";
import {isInferred} from "./memory_groups.js";
import {formatPercent, formatScaled} from "./units.js";
import {fileLine, shorten, shortenShape} from "./words.js";

const LAYOUT_PART = /\{[^{}]*\}/g;
const MOST_SHAPES = 2;

// `format` is `{bytes, total, grouping, largest, isOpen, toggle, color}`, where `bytes` writes sizes in the unit of the
// column; `toggle` opens and closes the group.
export function liveRow(group, format) {
  const isSingle = group.values.length === 1;
  const swatch = element("span", {class: `swatch ${format.color === undefined ? "other" : `b${format.color}`}`});
  const label = element("span", {title: group.label, text: shorten(group.label, 52)});
  const inferred = group.inferred ? element("span", {class: "quiet", text: inferenceOf(group)}) : null;
  const toggle = isSingle ? null : toggleOf(group, format);
  const counted = format.grouping === "value" ? stepsOf(group.values[0]) : formatScaled(group.values.length);
  const bar = element("span", {style: `width:${((100 * group.bytes) / Math.max(1, format.largest)).toFixed(1)}%`});
  return element(
    "tr",
    {class: isSingle ? null : "group"},
    element("td", {class: "code"}, swatch, label, inferred, toggle),
    numberCell(counted),
    numberCell(format.bytes.textOf(group.bytes)),
    numberCell(shareOf(group.bytes, format.total)),
    element("td", {class: "bar low"}, bar),
    element("td", {class: "code quiet low rare", text: groupContent(group, format.grouping)}),
  );
}

// The row takes the focus and Enter, so the button is no stop of its own.
function toggleOf(group, {isOpen, toggle}) {
  const onclick = event => {
    event.stopPropagation();
    toggle();
  };
  const named = {"aria-expanded": String(isOpen), "aria-label": `values of ${group.label}`};
  const text = isOpen ? "\u25be" : "\u25b8";
  return element("button", {...named, type: "button", class: "toggle", tabindex: -1, text, onclick});
}

export function valueRow(value, format) {
  return element(
    "tr",
    {class: "value"},
    element("td", {class: "code name", title: value.value, text: shorten(value.value, 44)}),
    numberCell(stepsOf(value), "quiet"),
    numberCell(format.bytes.textOf(value.bytes)),
    numberCell(shareOf(value.bytes, format.total)),
    element("td", {class: "low quiet", text: value.kind}),
    element("td", {class: "code quiet low rare", title: value.shape, text: shortenShape(value.shape, 58)}),
  );
}

function numberCell(text, kind = "") {
  return element("td", {class: `number ${kind}`.trim(), text});
}

// How many values of a source line are there by inference.
function inferenceOf({inferred, values}) {
  return inferred === values.length ? " inferred" : ` ${formatScaled(inferred)} inferred`;
}

function shareOf(bytes, total) {
  return total ? formatPercent(bytes / total) : "-";
}

function stepsOf(value) {
  return `${formatScaled(value.start)}\u2013${formatScaled(value.end)}`;
}

// What is in a group: its shapes without layouts, each with its number.
function groupContent(group, grouping) {
  const [first] = group.values;
  if (grouping === "shape") return shorten(first.value, 44);
  if (grouping === "value") return shortenShape(first.shape, 58);
  const counts = new Map();
  for (const {shape} of group.values) {
    const plain = shape.replace(LAYOUT_PART, "");
    counts.set(plain, (counts.get(plain) ?? 0) + 1);
  }
  const counted = ([shape, count]) => (count > 1 ? `${count} \u00d7 ` : "") + shorten(shape, 40);
  const named = [...counts].slice(0, MOST_SHAPES).map(counted);
  const rest = counts.size - MOST_SHAPES;
  const texts = rest > 0 ? [...named, `${formatScaled(rest)} more`] : named;
  return (group.values.length === 1 ? [first.value, ...texts] : texts).join(group.values.length === 1 ? "  " : ", ");
}

// The source line of a value; where it is inferred, the text says so.
export function sourceOfValue(value) {
  if (value.source) return fileLine(value.source);
  return isInferred(value) ? `${fileLine(value.origin)} (inferred)` : "";
}
