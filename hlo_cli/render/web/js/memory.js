// The section of memory: the picture over the schedule, and the values that are live at the chosen step.

import {element} from "./dom.js";
import {createChoice} from "./controls.js";
import {createLiveTable} from "./live_table.js";
import {createMemoryChart, memoryOf} from "./memory_chart.js";
import {GROUPINGS} from "./memory_groups.js";
import {columnsOf} from "./table_rows.js";
import {createTable} from "./table.js";

export function drawMemorySection(section, page) {
  const {report, store, axis} = page;
  if (store.state.space === null) return;
  const memories = new Map();
  const memory = () => {
    const {space} = store.state;
    if (!memories.has(space)) memories.set(space, memoryOf(report, axis, space));
    return memories.get(space);
  };
  addTools(section.tools, page);
  const groupings = stateChoice(store, "Group by", GROUPINGS, "grouping");
  const unpin = () => store.set({isPinned: false});
  const toPeak = element("button", {type: "button", text: "back to the peak", hidden: true, onclick: unpin});
  store.subscribe(changed => {
    if (changed.has("isPinned") || changed.has("step")) toPeak.hidden = !store.state.isPinned;
  });
  const tools = element("div", {class: "tools"}, toPeak, element("span", {class: "together"}, "group by ", groupings));
  const live = element("div", {class: "beside"}, createLiveTable(page, memory, tools));
  section.body.append(element("div", {class: "split"}, createMemoryChart(page, memory), live));
  addSpaces(section, page);
}

function addTools(tools, {report, store, axis}) {
  const names = report.timelines.buffers.tracks.map(track => [track.name, track.name]);
  if (names.length > 1) tools.append(stateChoice(store, "Memory", names, "space"));
  if (axis.hasTime) {
    const scales = stateChoice(store, "Axis", [["steps", "steps"], ["time", "time, est."]], "scale");
    tools.append(element("span", {class: "together"}, "axis ", scales));
  }
}

// Buttons that set one key of the state, and follow it.
function stateChoice(store, label, choices, key) {
  const choice = createChoice(label, choices, store.state[key], chosen => store.set({[key]: chosen}));
  store.subscribe(changed => {
    if (changed.has(key)) choice.press(store.state[key]);
  });
  return choice.element;
}

// All memories side by side, if there are several.
function addSpaces(section, {report, store}) {
  const table = report.tables.spaces;
  if (!table || table.rows.length < 2) return;
  const columns = columnsOf(table, [
    {name: "space", label: "memory"},
    {name: "peak_bytes", label: "peak", unit: "size"},
    {name: "limit_bytes", label: "limit", unit: "size"},
    {name: "allocated_bytes", label: "allocated", unit: "size"},
    {name: "argument_bytes", label: "arguments", unit: "size", low: true, optional: true},
    {name: "output_bytes", label: "outputs", unit: "size", low: true, optional: true},
    {name: "aliased_bytes", label: "aliased", unit: "size", low: true, optional: true},
    {name: "temporary_bytes", label: "temporaries", unit: "size", low: true, optional: true},
    {name: "fragmentation_bytes", label: "fragmentation", unit: "size", low: true, optional: true, tone: () => "waste"},
    {name: "values", label: "values", low: true},
    {name: "peak_instruction", label: "peak at", low: true, isLink: true},
  ]);
  const own = row => ({instruction: row.peak_instruction, value: null, source: null});
  const choose = row => store.peakOf.has(row.space) && store.set({space: row.space}); // those that have a picture
  section.body.append(createTable(store, {
    name: "spaces", section: section.key, noun: "memories", label: "Memories", rows: table.rows, columns, own, choose,
  }));
}
