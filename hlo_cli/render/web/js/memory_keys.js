// The keys of the memory picture: arrows move by a step, Page Up and Page Down by a fiftieth, Home and End to the ends,
// P to the peak, and Enter selects the largest value.

import {groupsAt} from "./memory_groups.js";
import {instructionOf, nameOfStep} from "./store.js";
import {formatBytes, formatScaled} from "./units.js";

export function memoryKeys(box, page, memory) {
  const {store, axis} = page;
  box.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = Math.max(1, Math.ceil(axis.count / 50));
    const arrows = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1};
    const moves = {...arrows, PageUp: -far, PageDown: far, Home: -Infinity, End: Infinity};
    if (event.key in moves) moveBy(moves[event.key], page);
    else if (event.key === "p" || event.key === "P") store.set({isPinned: false});
    else if (event.key === "Enter") selectLargest(page, memory());
    else return;
    event.preventDefault();
  });
  const describe = () => announceStep(box, page, memory());
  store.subscribe(changed => {
    if (changed.has("step") || changed.has("space")) describe();
  });
  describe();
}

function moveBy(distance, {store, axis}) {
  const step = Math.max(0, Math.min(axis.count - 1, store.state.step + distance));
  store.set({step, isPinned: true});
}

function selectLargest({store}, {rows}) {
  const row = groupsAt(rows, store.state.step, "value")[0]?.values[0];
  if (row) store.set({selected: {instruction: instructionOf(row.value), value: row.value, source: row.source || null}});
}

// What a screen reader says of the step.
function announceStep(box, {store, axis, report}, {name, totals}) {
  const {step} = store.state;
  const instruction = nameOfStep(report, step);
  const use = `step ${formatScaled(step)}: ${formatBytes(totals[step])} of ${name} in use`;
  box.setAttribute("aria-valuemin", 0);
  box.setAttribute("aria-valuemax", axis.count - 1);
  box.setAttribute("aria-valuenow", step);
  box.setAttribute("aria-valuetext", instruction ? `${use}, ${instruction}` : use);
}
