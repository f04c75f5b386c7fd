// The fragment of the address: what is selected and open, so that a link shows the same to another reader.
// #select=fusion.3&open=while.1,fusion.2&heat=bytes&around=fusion.3&depth=2&between=a,b&transfers=1&in=computation

import {isSeenThrough} from "./folding.js";
import {rowsNamed} from "./graph_model.js";
import {rebuild} from "./graph_state.js";

export function writeLink({model, state}) {
  const parts = [];
  const add = (key, value) => parts.push(`${key}=${value}`);
  const names = rows => rows.map(row => encodeURIComponent(model.name[row])).join(",");
  if (state.computation !== model.graph.entry) add("in", encodeURIComponent(model.computations[state.computation]));
  if (state.selected !== null) add("select", names([state.selected]));
  if (state.open.size) add("open", names([...state.open]));
  if (state.heat !== state.firstHeat) add("heat", state.heat);
  if (state.around !== null) {
    add("around", names([state.around]));
    add("depth", state.depth);
  }
  if (state.between !== null) add("between", names(state.between));
  if (state.transfers) add("transfers", 1);
  const fragment = parts.join("&");
  if (fragment === location.hash.slice(1)) return;
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
}

// Brings the page to what a fragment names; unknown names are ignored. Returns whether it named anything.
export function readLink(app, fragment, heats) {
  const {model, state} = app;
  const given = new Map(fragment.replace(/^#/, "").split("&").filter(Boolean).map(part => splitPart(part)));
  const rows = key => (given.get(key) || []).flatMap(name => rowsNamed(model, name).slice(0, 1));
  const [selected] = rows("select");
  const [around] = rows("around");
  const between = rows("between");
  const changes = {
    open: new Set(rows("open")), transfers: given.has("transfers"), selected: selected ?? null, around: around ?? null,
    between: between.length === 2 ? between : null, depth: Math.max(1, Math.min(4, Number(given.get("depth")?.[0]) || state.depth)),
  };
  const [heat] = given.get("heat") || [];
  if (heats.includes(heat)) changes.heat = heat;
  const computation = computationOf(model, given.get("in")?.[0], around ?? between[0]);
  if (computation >= 0) changes.computation = computation;
  changes.kept = new Set([selected, around].filter(row => row !== undefined && isSeenThrough(model, row, {...changes, kept: new Set()})));
  rebuild(app, changes);
  return given.size > 0;
}

function splitPart(part) {
  const at = part.indexOf("=");
  return [part.slice(0, at), part.slice(at + 1).split(",").map(decode)];
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function computationOf(model, name, inner) {
  if (inner !== undefined) return model.computation[inner];
  return name === undefined ? -1 : model.computations.indexOf(name);
}
