// Rows and the selection of the page: whether a row belongs to it, and its address within the page.

import {isSelected} from "./store.js";

// Whether a row that shows `{instruction, value, source}` is part of the selection; `also` are further instructions
// of the row, such as the done of an asynchronous operation.
export function isRowSelected(selected, own) {
  if (!selected || !own) return false;
  return isSelected(selected, own) || (own.also || []).some(each => isSelected(selected, {instruction: each}));
}

// The address of what a row shows, as permalinks have it.
export function addressOf(section, own) {
  const name = own.value || own.instruction;
  const part = name ? `select=${encodeURIComponent(name)}` : `line=${encodeURIComponent(own.source || "")}`;
  return `#${section}?${part}`;
}
