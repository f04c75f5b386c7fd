// Small controls of sections.

import {element} from "./dom.js";

// Buttons of which one is pressed: `choices` are `[key, text]`; returns the group, with `press(key)`.
export function createChoice(label, choices, chosen, choose) {
  const buttons = choices.map(([key, text]) => element("button", {type: "button", text, onclick: () => choose(key)}));
  const press = key => buttons.forEach((each, at) => each.setAttribute("aria-pressed", String(choices[at][0] === key)));
  press(chosen);
  return {element: element("span", {class: "segmented", role: "group", "aria-label": label}, ...buttons), press};
}

// A legend: `[class, text]` of each color in the picture below.
export function createLegend(entries) {
  const items = entries.map(([tone, text]) => element("li", {}, element("span", {class: `swatch ${tone}`}), text));
  return element("ul", {class: "legend"}, ...items);
}
