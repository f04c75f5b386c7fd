// The search of the page: one field that filters all tables, and counts what it finds in each section.

import {byId, element} from "./dom.js";

const DELAY = 90; // milliseconds of rest in typing before tables are filtered

// The field; the key / brings the focus to it, Escape empties it, Enter goes to the first section with a hit.
export function searchField(store, links) {
  const field = element("input", {
    type: "search", id: "search", placeholder: "Search names, shapes, lines  ( / )", "aria-label": "Search all tables",
    autocomplete: "off", spellcheck: "false",
  });
  let timer = 0;
  const apply = () => store.set({query: field.value.trim()});
  field.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(apply, DELAY);
  };
  field.onkeydown = event => {
    if (event.key === "Enter") {
      apply();
      store.flush();
      showFirstFound(links);
      document.dispatchEvent(new CustomEvent("find-next")); // a timeline goes to its next bar
    }
    if (event.key === "Escape") {
      event.stopPropagation();
      if (field.value) {
        field.value = "";
        apply();
      } else field.blur();
    }
  };
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  store.subscribe(changed => {
    if (!changed.has("query")) return;
    if (document.activeElement !== field || !store.state.query) field.value = store.state.query;
    queueMicrotask(() => countFound(store.state.query, links));
  });
  return field;
}

function isTyping(target) {
  return target instanceof Element && target.matches("input, textarea, select, [contenteditable]");
}

// Rows that match in each section, beside its link.
function countFound(query, links) {
  for (const link of links) {
    link.querySelector(".found")?.remove();
    if (query) link.append(element("span", {class: "found", text: rowsFound(link).toLocaleString("en-US")}));
  }
}

function rowsFound(link) {
  const tables = byId(link.hash.slice(1))?.querySelectorAll("[data-found]") ?? [];
  return [...tables].reduce((sum, table) => sum + Number(table.dataset.found), 0);
}

function showFirstFound(links) {
  const link = links.find(each => rowsFound(each) > 0);
  if (link) byId(link.hash.slice(1)).scrollIntoView();
}
