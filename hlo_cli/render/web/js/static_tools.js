// The tools of a page: the search field, which / reaches and Escape empties, and the switch between light and dark.

import {element} from "./dom.js";
import {themeButton} from "./theme.js";
import {filterTables} from "./static_filter.js";
import {saveState, tableKey} from "./static_state.js";

export function createTools(tables) {
  const tools = element("div", {class: "tools"});
  if (tables.length) tools.append(...createSearch(tables));
  tools.append(themeButton());
  document.querySelector("header").append(tools);
  document.addEventListener("sorted", event => saveState(tableKey(event.target), event.detail));
}

function createSearch(tables) {
  const words = {placeholder: "Search the tables ( / )", "aria-label": "Search the tables"};
  const field = element("input", {type: "search", ...words});
  const count = element("output", {"aria-live": "polite"});
  field.oninput = () => {
    filterTables(tables, field.value);
    saveState("q", field.value);
  };
  document.addEventListener("filtered", ({detail: {query, found, all}}) => {
    if (field.value !== query) field.value = query;
    count.textContent = query.trim() ? `${found.toLocaleString("en")} of ${all.toLocaleString("en")} rows` : "";
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target !== field && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "Enter" && event.target === field) {
      document.dispatchEvent(new CustomEvent("find-next"));
    } else if (event.key === "Escape" && event.target === field) {
      field.value = "";
      field.oninput();
      field.blur();
    }
  });
  return [count, field];
}
