// The fragment of the address holds where the reader is, so that it can be sent on:
// #memory?space=HBM&step=661&select=fusion.174&group=shape&scale=time&q=words

import {byId} from "./dom.js";
import {GROUPINGS} from "./memory_groups.js";
import {currentModule} from "./modules.js";

const REST = 300; // milliseconds; browsers limit how often an address may change

// Restores what the address holds, follows links within the page, and keeps the address up to date.
export function keepPermalink({store, axis}) {
  const initial = {space: store.state.space, grouping: store.state.grouping};
  let section = "";
  let timer = 0;
  let known = location.hash; // what was read or written last
  const write = () => {
    if (location.hash !== known) return; // a link was followed, and is read next
    const address = addressOfState(section, store.state, initial);
    if (address !== location.hash) history.replaceState(null, "", address || location.pathname + location.search);
    known = location.hash;
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(write, REST);
  };
  const read = (event = null) => {
    known = location.hash;
    const [key, query = ""] = location.hash.slice(1).split("?");
    section = byId(key)?.matches("section") ? key : "";
    applyAddress(new URLSearchParams(query), store, axis);
    if (section && (query || !event)) byId(section).scrollIntoView();
    if (section && section !== "memory" && query) store.set({reveal: {section}}); // the selected row of its tables
    later();
  };
  store.subscribe(changed => {
    if (changed.size > 1 || !changed.has("hoverStep")) later();
  });
  addEventListener("hashchange", read);
  if (location.hash.length > 1) read();
}

function addressOfState(section, state, initial) {
  const parts = new URLSearchParams();
  if (currentModule()) parts.set("module", currentModule());
  const {space, step, isPinned, selected, grouping, scale, query} = state;
  if (space !== initial.space) parts.set("space", space);
  if (isPinned) parts.set("step", step);
  if (selected?.value ?? selected?.instruction) parts.set("select", selected.value ?? selected.instruction);
  else if (selected) parts.set("line", selected.source);
  if (grouping !== initial.grouping) parts.set("group", grouping);
  if (scale !== "steps") parts.set("scale", scale);
  if (query) parts.set("q", query);
  const text = parts.toString();
  return section || text ? `#${section || "memory"}${text ? `?${text}` : ""}` : "";
}

// Only what is known is taken over: an address may be of another dump.
function applyAddress(parts, store, axis) {
  const changes = {};
  if (store.peakOf.has(parts.get("space"))) changes.space = parts.get("space");
  if (parts.has("select")) store.show(targetOf(parts.get("select")));
  if (parts.has("line")) changes.selected = {instruction: null, value: null, source: parts.get("line")};
  const step = Number(parts.get("step") ?? Number.NaN);
  if (Number.isInteger(step) && step >= 0 && step < axis.count) Object.assign(changes, {step, isPinned: true});
  if (GROUPINGS.some(([key]) => key === parts.get("group"))) changes.grouping = parts.get("group");
  if (parts.get("scale") === "time" && axis.hasTime) changes.scale = "time";
  if (parts.has("q")) changes.query = parts.get("q");
  store.set(changes);
  store.flush();
}

function targetOf(name) {
  return name.endsWith("}") ? {value: name} : {instruction: name};
}
