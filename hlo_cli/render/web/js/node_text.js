// The two lines of a node, and the size of its box, which must not depend on the reader's fonts: Python draws the same.

import {CHANGES} from "./kinds.js";
import {formatCount} from "./units.js";

export const CHARACTER = 6.65; // The width of a character of 11 px monospace type, of the widest of the common fonts.
export const NODE_HEIGHT = 34;
const TEXT_MARGIN = 16;
const MARK = 2; // Characters before the name of what can be opened.
const LONGEST_NAME = 32;
const LONGEST_LABEL = 30;
const LONGEST_LITERALS = 16;
const MOST_LITERALS = 2;
const MORE = " more)";

// A text without its middle, so that it has at most `most` characters.
export function withoutMiddle(text, most) {
  const characters = charactersOf(text);
  if (characters.length <= most) return text;
  const [start, end] = [Math.ceil(most / 2) - 1, characters.length - Math.floor(most / 2)];
  return [...characters.slice(0, start), "\u2026", ...characters.slice(end)].join("");
}

// Characters, not the units of UTF-16 that JavaScript counts.
function charactersOf(text) {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
}

// The name, with the sign of its change.
export function firstLine(model, row) {
  const change = CHANGES[model.change[row]];
  return (change ? `${change[0]} ` : "") + withoutMiddle(model.name[row], LONGEST_NAME);
}

// Such as `matmul fusion  bf16[8,128] VMEM`, `while x 12  f32[8] +4`, `add  f32[8]  1`.
export function secondLine(model, row) {
  const parts = [operationOf(model, row)];
  if (model.label[row]) parts.push(withoutMiddle(shortLabel(model.label[row]), LONGEST_LABEL));
  const literals = literalsOf(model, row);
  if (literals) parts.push(literals);
  return parts.join("  ");
}

// Of a tuple the first and how many more: `f32[8] +2` for `(f32[8], ... 2 more)`, in which the dots are one character.
function shortLabel(label) {
  const at = label.lastIndexOf(", \u2026 ");
  return at < 0 || !label.endsWith(MORE) ? label : `${label.slice(1, at)} +${label.slice(at + 4, -MORE.length)}`;
}

// The opcode; of fusions what is in them, of loops how often.
export function operationOf(model, row) {
  const opcode = model.opcode[row];
  const isNamed = opcode === "fusion" && model.kind[row] && model.kind[row] !== "fusion";
  const trips = model.trips[row] === null ? "" : ` \u00d7 ${formatCount(model.trips[row])}`;
  return (isNamed ? `${model.kind[row]} fusion` : opcode) + trips;
}

// The value of a short constant, or the first two short ones among the operands.
function literalsOf({literal, operands}, row) {
  const given = literal[row] === null || literal[row] === "" ? operands[row].map(operand => literal[operand]) : [literal[row]];
  const text = given.filter(each => each !== null && each !== "").slice(0, MOST_LITERALS).join(", ");
  return charactersOf(text).length <= LONGEST_LITERALS ? text : "";
}

export function nodeWidth(model, row) {
  const first = charactersOf(firstLine(model, row)).length + (model.expandable[row] ? MARK : 0);
  return Math.max(first, charactersOf(secondLine(model, row)).length) * CHARACTER + TEXT_MARGIN;
}
