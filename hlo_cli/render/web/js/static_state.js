// The query and the sorted columns of a page as its fragment, so that a link shows the same, such as
// #q=fusion&part1=bytes:descending

import {filterTables} from "./static_filter.js";
import {sortBy} from "./static_sort.js";

export function saveState(name, value) {
  const state = new URLSearchParams(location.hash.slice(1));
  if (value) state.set(name, value);
  else state.delete(name);
  // a page in a frame without an origin may not change its address
  try {
    history.replaceState(null, "", `#${state}`);
  } catch {
    return;
  }
}

// The name of a table in the fragment: the class that its columns are styled by.
export function tableKey(table) {
  return table.classList[1];
}

export function restoreState(tables) {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const table of tables) {
    const [column, order] = (state.get(tableKey(table)) || "").split(":");
    const head = column && [...table.tHead.rows[0].cells].find(cell => cell.dataset.c === column);
    if (head) sortBy(head, order === "descending");
  }
  const query = state.get("q");
  if (query) filterTables(tables, query);
}
