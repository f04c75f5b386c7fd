// The two lines of a node, and the size of its box, which must not depend on the reader's fonts: Python draws the same.

import {CHANGES} from "./kinds.js";

export const CHARACTER = 6.65; // The width of a character of 11 px monospace type, of the widest of the common fonts.
export const NODE_HEIGHT = 34;
const TEXT_MARGIN = 16;
const MARK = 2; // Characters before the name of what can be opened.
const LONGEST_NAME = 32;
const LONGEST_LABEL = 30;
const LONGEST_LITERALS = 16;

// A text without its middle, so that it has at most `most` characters.
export function withoutMiddle(text, most) {
  if (text.length <= most) return text;
  return text.slice(0, Math.ceil(most / 2) - 1) + "\u2026" + text.slice(text.length - Math.floor(most / 2));
}

// The name, with the sign of its change.
export function firstLine(model, row) {
  const change = CHANGES[model.change[row]];
  return (change ? `${change[0]} ` : "") + withoutMiddle(model.name[row], LONGEST_NAME);
}

// Such as `matmul fusion  bf16[8,128] S1`, `while x 12  (4 values)`, `add  f32[8]  1`.
export function secondLine(model, row) {
  const parts = [operationOf(model, row)];
  if (model.label[row]) parts.push(withoutMiddle(model.label[row], LONGEST_LABEL));
  const literals = literalsOf(model, row);
  if (literals) parts.push(literals);
  return parts.join("  ");
}

// The opcode; of fusions what is in them, of loops how often.
export function operationOf(model, row) {
  const opcode = model.opcode[row];
  const isNamed = opcode === "fusion" && model.kind[row] && model.kind[row] !== "fusion";
  const trips = model.trips[row] === null ? "" : ` \u00d7 ${model.trips[row]}`;
  return (isNamed ? `${model.kind[row]} fusion` : opcode) + trips;
}

// Small constants among the operands, at most two.
function literalsOf(model, row) {
  const found = [];
  for (const operand of model.operands[row]) {
    if (found.length < 2 && model.opcode[operand] === "constant" && model.literal[operand]) found.push(model.literal[operand]);
  }
  const text = found.join(", ");
  return text.length <= LONGEST_LITERALS ? text : "";
}

export function nodeWidth(model, row) {
  const first = lengthOf(firstLine(model, row)) + (model.expandable[row] ? MARK : 0);
  return Math.max(first, lengthOf(secondLine(model, row))) * CHARACTER + TEXT_MARGIN;
}

// Characters, not the units of UTF-16 that JavaScript counts.
function lengthOf(text) {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text).length : text.length;
}
