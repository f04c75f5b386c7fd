// Details of what is selected, at the side of the page or at its bottom: all that its tables hold about it.

import {element} from "./dom.js";
import {describeInstruction, describeLine, describeValues, liveBar} from "./details_rows.js";
import {fileLine} from "./words.js";

export function createDetails(page) {
  const {store} = page;
  const panel = element("aside", {id: "details", "aria-label": "Details of the selection", hidden: true});
  const show = () => {
    const {selected} = store.state;
    panel.hidden = selected === null;
    document.documentElement.classList.toggle("has-details", selected !== null);
    panel.replaceChildren(...(selected === null ? [] : selectionDetails(page, selected)));
    panel.scrollTop = 0;
    document.activeElement?.closest("main tr")?.scrollIntoView({block: "nearest"});
  };
  store.subscribe(changed => {
    if (changed.has("selected")) show();
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    store.set(store.state.selected ? {selected: null} : {isPinned: false});
  });
  show();
  return panel;
}

function selectionDetails(page, selected) {
  const {instruction, value, source} = selected;
  const isLine = instruction === null;
  const text = isLine ? fileLine(source ?? "") : (value ?? instruction);
  const title = element("h3", {class: isLine ? "code" : "code name", text});
  const onclick = () => page.store.set({selected: null});
  const closing = {type: "button", class: "close", "aria-label": "Close details", text: "\u2715", onclick};
  const values = isLine ? [] : page.store.buffersOf(value ?? instruction);
  const bar = values.length === 1 ? liveBar(page, values[0]) : null;
  const blocks = isLine ? describeLine(page, source) : describeAll(page, values, instruction);
  const command = isLine ? searchButton(page.store, source) : commandOf(page.report, instruction, value);
  return [
    element("div", {class: "details-head"}, title, bar, command, element("button", closing)),
    element("div", {class: "details-blocks"}, ...blocks.filter(block => block.childElementCount)),
  ];
}

function describeAll(page, values, instruction) {
  return [...describeValues(page, values), ...describeInstruction(page, instruction, values)];
}

// A command to paste. The dump is named by its directory and file only, as the page shows no more of its place.
function commandOf(report, instruction, value) {
  const dump = quoted((report.input?.path ?? "DUMP").split("/").slice(-2).join("/"));
  const option = value === null ? `--explain ${quoted(instruction)}` : `--value ${quoted(value)}`;
  return element("code", {class: "command", text: `hlo ${value === null ? "parse" : "memspace"} ${dump} ${option}`});
}

function searchButton(store, source) {
  const onclick = () => store.set({query: fileLine(source ?? "")});
  return element("button", {type: "button", text: "search for this line", onclick});
}

function quoted(text) {
  return /^[\w./@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
