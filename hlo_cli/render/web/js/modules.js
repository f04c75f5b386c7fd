// Several modules in one file: the page of one is shown, those of the others wait in templates. The address names the
// module, `#first?module=2`; another one is shown by loading the page anew.

import {byId} from "./dom.js";

const current = chosen() ?? 0;

// The module that an address names: its number, or null.
function chosen() {
  const number = Number(new URLSearchParams(location.hash.split("?")[1] ?? "").get("module") ?? Number.NaN);
  return number === 0 || (Number.isInteger(number) && byId(`page-${number}`)) ? number : null;
}

// The number of the module that is shown; 0 is the first one.
export function currentModule() {
  return current;
}

// Puts the page of the chosen module in its place, and marks its link; the name of the element with its data.
export function openModule() {
  if (current) byId("page").replaceChildren(byId(`page-${current}`).content.cloneNode(true));
  for (const [at, link] of document.querySelectorAll("#modules .links a").entries()) {
    if (at === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  addEventListener("hashchange", () => {
    if ((chosen() ?? current) !== current) location.reload();
  });
  return current ? `data-${current}` : "data";
}
