// Search among all instructions, folded ones too: names, opcodes, source lines, op_names.

import {element} from "./dom.js";
import {fileLineOf, isInEntry} from "./graph_model.js";
import {goTo} from "./graph_state.js";
import {withoutMiddle} from "./node_text.js";
import {countOf, formatCount} from "./units.js";

const MOST_SHOWN = 40;

// The rows that hold a text, those of the entry first, then short names.
function search(model, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  for (let row = 0; row < model.count; row++) if (holds(model, row, wanted)) found.push(row);
  const isOther = row => Number(model.name[row].toLowerCase() !== wanted);
  const rank = row => [isOther(row), 1 - isInEntry(model, row), model.name[row].length, row];
  const ranks = new Map(found.map(row => [row, rank(row)]));
  return found.sort((a, b) => compare(ranks.get(a), ranks.get(b)));
}

function holds(model, row, wanted) {
  const texts = [model.name[row], model.opcode[row], model.source[row], model.op_name[row]];
  return texts.some(text => text && text.toLowerCase().includes(wanted));
}

function compare(one, other) {
  const at = one.findIndex((value, place) => value !== other[place]);
  return at < 0 ? 0 : one[at] - other[at];
}

// The box with its list of hits; Enter goes to the marked one.
export function createSearch(app, canvas) {
  const list = element("ul", {id: "hits", role: "listbox", "aria-label": "Hits", hidden: true});
  const input = element("input", {
    type: "search", id: "search", placeholder: "Search  ( / )", role: "combobox",
    autocomplete: "off", spellcheck: "false",
    "aria-label": "Search instructions", "aria-controls": "hits", "aria-expanded": "false",
  });
  const found = {rows: [], at: 0};
  const choose = row => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    goTo(app, row);
    canvas.focus();
  };
  const show = () => showHits(app, input, list, found, choose);
  input.oninput = () => {
    Object.assign(found, {rows: search(app.model, input.value), at: 0});
    show();
  };
  input.onfocus = () => { if (input.value.trim()) show(); };
  input.onblur = () => { list.hidden = true; };
  input.onkeydown = event => {
    if (event.key === "ArrowDown") found.at = Math.min(Math.min(MOST_SHOWN, found.rows.length) - 1, found.at + 1);
    else if (event.key === "ArrowUp") found.at = Math.max(0, found.at - 1);
    else if (event.key === "Enter" && found.rows.length) return choose(found.rows[found.at]);
    else if (event.key === "Escape") {
      input.value = "";
      found.rows = [];
      canvas.focus();
    } else return undefined;
    event.preventDefault();
    return show();
  };
  return element("div", {class: "search", role: "search"}, input, list);
}

function showHits(app, input, list, found, choose) {
  const {model} = app;
  const isOpen = input.value.trim() !== "";
  list.hidden = !isOpen;
  input.setAttribute("aria-expanded", String(isOpen));
  const items = found.rows.slice(0, MOST_SHOWN).map((row, at) => element("li", {
    role: "option", id: `hit-${at}`, "aria-selected": String(at === found.at),
    onpointerdown: event => {
      event.preventDefault();
      choose(row);
    },
  },
  element("span", {class: "code", text: withoutMiddle(model.name[row], 44)}),
  element("span", {class: "quiet", text: noteOf(model, row)})));
  const total = found.rows.length
    ? `${formatCount(found.rows.length)} of ${countOf(model.count, "instructions")}`
    : `No match in ${countOf(model.count, "instructions")}`;
  list.replaceChildren(...items, element("li", {class: "quiet total", role: "presentation", text: total}));
  if (items.length) input.setAttribute("aria-activedescendant", `hit-${found.at}`);
  else input.removeAttribute("aria-activedescendant");
  items[found.at]?.scrollIntoView({block: "nearest"});
}

function noteOf(model, row) {
  const where = isInEntry(model, row) ? "" : `in ${model.computations[model.computation[row]]}`;
  return [model.opcode[row], fileLineOf(model, row), where].filter(Boolean).join("  ");
}
