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
  const close = () => page.store.set({selected: null});
  const button = element("button", {type: "button", class: "close", "aria-label": "Close details", text: "\u2715", onclick: close});
  const values = isLine ? [] : page.store.buffersOf(value ?? instruction);
  const bar = values.length === 1 ? liveBar(page, values[0]) : null;
  const blocks = isLine ? describeLine(page, source) : describeAll(page, values, instruction);
  const command = isLine ? null : commandOf(page.report, instruction, value);
  return [
    element("div", {class: "details-head"}, title, bar, command, button),
    element("div", {class: "details-blocks"}, ...blocks.filter(block => block.childElementCount)),
  ];
}

function describeAll(page, values, instruction) {
  return [...describeValues(page, values), ...describeInstruction(page, instruction, values)];
}

// A command to paste. The dump is named by its directory and file only, as the page shows no more of its place.
function commandOf(report, instruction, value) {
  const dump = quoted((report.input?.path ?? "DUMP").split("/").slice(-2).join("/"));
  const command = value === null ? `hlo parse ${dump} --explain ${quoted(instruction)}` : `hlo memspace ${dump} --value ${quoted(value)}`;
  return element("code", {class: "command", text: command});
}

function quoted(text) {
  return /^[\w./@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
