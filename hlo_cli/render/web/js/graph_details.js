// Beside the picture: what is known of the selected instruction, or the heaviest of all.

import {element} from "./dom.js";
import {callersOf, fileLineOf, isInEntry, sizeInside} from "./graph_model.js";
import {goTo, select, surround, toggle} from "./graph_state.js";
import {HEATS, heaviestOf} from "./heat.js";
import {CHANGES} from "./kinds.js";
import {operationOf} from "./node_text.js";
import {countOf, formatBytes, formatCount, formatFlops, formatPercent, formatSeconds} from "./units.js";

const MOST_LISTED = 24;
const MOST_HEAVY = 16;
const LONGEST_SHAPE = 120;
const KEYS = [
  ["click", "select"],
  ["double-click, Enter", "open or close"],
  ["arrows", "follow the thickest edge, or go to the next node of the row"],
  ["N", "neighborhood"],
  ["shift-click", "show the paths to a second node"],
  ["F, +, \u2212", "fit, zoom"],
  ["/", "search"],
  ["Esc", "back"],
];

export function showDetails(app, box) {
  const row = app.state.selected;
  box.classList.toggle("open", row !== null);
  box.replaceChildren(...(row === null ? startOf(app) : detailsOf(app, row)));
}

function startOf(app) {
  const {model, state} = app;
  const key = HEATS[state.heat] ? state.heat : "bytes";
  const rows = heaviestOf(model, shownRows(app), key, MOST_HEAVY);
  const changed = state.heat === "change" ? changedRows(model) : [];
  const parts = [];
  if (changed.length) {
    parts.push(element("h2", {text: `Changes (${formatCount(changed.length)})`}));
    parts.push(listOf(app, changed, row => changeNote(model, row)));
  }
  if (rows.length) parts.push(element("h2", {text: HEATS[key].heading}), heavyList(app, rows, key));
  const items = KEYS.flatMap(([keys, act]) => [
    element("dt", {}, element("kbd", {text: keys})), element("dd", {text: act}),
  ]);
  parts.push(element("h2", {text: "Keys and pointer"}), element("dl", {class: "keys"}, ...items));
  return parts;
}

function shownRows({model, state, limit}) {
  const rows = model.inside[state.computation];
  return limit ? rows.filter(row => limit.nodes.has(row)) : rows;
}

// Changed rows: those that are drawn first, those of the entry before others, large before small.
export function changedRows(model) {
  const rows = [];
  for (let row = 0; row < model.count; row++) if (CHANGES[model.change[row]]) rows.push(row);
  const rank = row => (model.is_hidden[row] || model.is_transfer[row] ? 0 : 2) + isInEntry(model, row);
  return rows.sort((a, b) => rank(b) - rank(a) || (model.bytes[b] || 0) - (model.bytes[a] || 0) || a - b);
}

function changeNote(model, row) {
  const change = model.change[row];
  const size = model.bytes[row] ? [formatBytes(model.bytes[row])] : [];
  return [`${CHANGES[change][0]} ${change}`, model.opcode[row], ...size].join(", ");
}

// Names with a bar and a number.
function heavyList(app, rows, key) {
  const {of, text} = HEATS[key];
  const largest = of(app.model, rows[0]);
  return element("ol", {class: "heavy"}, ...rows.map(row => element("li", {},
    linkTo(app, row), element("span", {class: "number", text: text(of(app.model, row))}),
    element("meter", {min: 0, max: 1, value: of(app.model, row) / largest, "aria-hidden": "true"}))));
}

function linkTo(app, row, text = app.model.name[row]) {
  return element("button", {type: "button", class: "link code", text, onclick: () => goTo(app, row)});
}

function listOf(app, rows, note) {
  const items = rows.slice(0, MOST_LISTED).map(row => element("li", {},
    linkTo(app, row), " ", element("span", {class: "quiet", text: note(row)})));
  const rest = rows.length - items.length;
  if (rest > 0) items.push(element("li", {class: "quiet", text: `${formatCount(rest)} more`}));
  return element("ul", {}, ...items);
}

function detailsOf(app, row) {
  const {model} = app;
  const close = element("button", {
    type: "button", class: "close", "aria-label": "Close details", text: "\u00d7", onclick: () => select(app, null),
  });
  const parts = [element("div", {class: "heading"}, element("h2", {class: "code", text: model.name[row]}), close)];
  parts.push(buttonsOf(app, row), factsOf(app, row));
  parts.push(...section(app, "Operands", [...new Set(model.operands[row])], each => shapeNote(model, each)));
  parts.push(...section(app, "Users", model.users[row], each => operationOf(model, each)));
  parts.push(...section(app, "Control predecessors", model.control[row], each => operationOf(model, each)));
  parts.push(...section(app, "Callers", callersOf(model, row).reverse(), each => operationOf(model, each)));
  const bodies = model.calls[row].filter(called => model.inside[called].length);
  if (bodies.length) {
    parts.push(element("h3", {text: "Called computations"}));
    parts.push(element("ul", {}, ...bodies.map(called => calledItem(app, called))));
  }
  parts.push(element("h3", {text: "Command"}), element("code", {class: "command", text: commandFor(app, row)}));
  return parts;
}

function section(app, title, rows, note) {
  if (!rows.length) return [];
  return [element("h3", {text: `${title} (${formatCount(rows.length)})`}), listOf(app, rows, note)];
}

function shapeNote(model, row) {
  const behind = model.operands[row][0];
  const isThrough = (model.is_hidden[row] || model.is_transfer[row]) && behind !== undefined;
  return (isThrough ? `of ${model.name[behind]}, ` : "") + (model.literal[row] || model.label[row] || "");
}

function calledItem(app, called) {
  const {model} = app;
  const size = model.inside[called].length;
  const root = model.inside[called].find(row => model.is_root[row]) ?? model.inside[called][size - 1];
  return element("li", {},
    linkTo(app, root, model.computations[called]), " ",
    element("span", {class: "quiet", text: countOf(size, "instructions")}));
}

function buttonsOf(app, row) {
  const {model, state} = app;
  const button = (text, onclick, key) => element("button", {type: "button", text, onclick, "data-act": key});
  const buttons = [];
  if (model.expandable[row] && app.scene.at.has(row)) {
    const inside = formatCount(sizeInside(model, row));
    buttons.push(button(state.open.has(row) ? "Close" : `Open, ${inside} inside`, () => toggle(app, row), "open"));
  }
  const isCenter = state.around === row;
  buttons.push(button(isCenter ? "Whole graph" : "Neighborhood", () => surround(app, isCenter ? null : row), "around"));
  return element("p", {class: "acts"}, ...buttons);
}

function factsOf(app, row) {
  const {model} = app;
  const bytes = model.bytes[row];
  const padding = HEATS.padding.of(model, row);
  const has = (value, format) => (value === null || value === undefined ? null : format(value));
  const share = padding ? `${formatBytes(padding)} (${formatPercent(padding / bytes)}% of the result)` : null;
  const change = CHANGES[model.change[row]] && `${CHANGES[model.change[row]][0]} ${model.change[row]}`;
  const facts = [
    ["opcode", operationOf(model, row)], ["change", change],
    ["shape", model.shape[row], true], ["value", model.literal[row], true],
    ["source", fileLineOf(model, row), true], ["op_name", model.op_name[row], true],
    ["result", has(bytes, formatBytes)], ["padding", share],
    ["accessed", has(model.bytes_accessed[row], formatBytes)], ["flops", has(model.flops[row] || null, formatFlops)],
    ["est. time", has(model.seconds[row] || null, formatSeconds)],
    ["step", has(model.step[row], formatCount)], ["live bytes", has(model.live_bytes[row], formatBytes)],
    ["in", model.computations[model.computation[row]], true],
  ];
  const shown = facts.filter(([, text]) => text);
  return element("dl", {class: "facts"}, ...shown.flatMap(([title, text, isCode]) => [
    element("dt", {text: title}), element("dd", {class: isCode ? "code" : null}, foldedText(model, row, title, text)),
  ]));
}

// A long shape is folded to its short form.
function foldedText(model, row, title, text) {
  if (title !== "shape" || text.length <= LONGEST_SHAPE || !model.label[row]) return text;
  return element("details", {}, element("summary", {text: model.label[row]}), text);
}

function commandFor({model}, row) {
  return `hlo graph ${model.dump ? quoted(model.dump) : "DUMP"} --around ${quoted(model.name[row])}`;
}

// As one word of a shell.
function quoted(text) {
  return /^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The selected node in a sentence, for readers who do not see the picture.
export function spokenDetails({model, scene, state}) {
  const row = state.selected;
  if (row === null) return "";
  const node = scene.at.get(row);
  const parts = [model.name[row], operationOf(model, row), model.label[row]];
  const heat = HEATS[state.heat] || HEATS.bytes;
  const value = heat.of(model, row);
  if (value) parts.push(`${heat.text(value)} ${heat.meaning}`);
  if (node) parts.push(`${node.up.length} operands, ${node.down.length} users in the picture`);
  const closed = `closed, ${sizeInside(model, row)} instructions inside`;
  if (model.expandable[row]) parts.push(state.open.has(row) ? "open" : closed);
  return parts.filter(Boolean).join("; ");
}
