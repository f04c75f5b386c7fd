// Details of what is selected, at the side of the page or at its bottom: all that its tables hold about it.

import {element} from "./dom.js";
import {describeInstruction, describeLine, describeValues} from "./details_rows.js";
import {fileLine} from "./words.js";

export function createDetails(page) {
  const {store} = page;
  const panel = element("aside", {id: "details", "aria-label": "Details of the selection", hidden: true});
  const show = () => {
    const {selected} = store.state;
    panel.hidden = selected === null;
    document.body.classList.toggle("has-details", selected !== null);
    panel.replaceChildren(...(selected === null ? [] : selectionDetails(page, selected)));
    panel.scrollTop = 0;
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
  const close = element("button", {type: "button", class: "close", "aria-label": "Close details", text: "\u2715", onclick: () => page.store.set({selected: null})});
  const isLine = instruction === null;
  const title = element("h3", {class: isLine ? "code" : "code name", text: isLine ? fileLine(source ?? "") : (value ?? instruction)});
  const head = element("div", {class: "details-head"}, title, close);
  if (isLine) return [head, ...describeLine(page, source)];
  const values = page.store.buffersOf(value ?? instruction);
  return [head, ...describeValues(page, values), ...describeInstruction(page, instruction, values)];
}
