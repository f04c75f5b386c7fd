// What all parts of the report page share: where the reader is, and what is selected.
//
// A page is `{report, store, axis}`; each section of the overview is drawn by a function `(section, page) => void`
// that sections.js names by the section's key, where `section` is
//   {key, title, sentence, parts, element, lead, tools, body}
// `element` the <section>, `lead` its sentence <p>, `tools` a <span> for controls beside the title, `body` a <div>.
//
// state:
//   space      name of the memory in the picture, such as "HBM"; null without a timeline
//   grouping   "source" | "shape" | "kind" | "value" | "scope"
//   step       the step whose live values are listed; the peak unless `isPinned`
//   selected   null | {instruction, value, source}, any of them null; `store.show(...)` selects and goes to the step
//   scale      "steps" | "time"; `axis.hasTime` tells whether time is known
//   query      the words of the search, "" for none
//   hoverStep  the step below the pointer in any picture, or null
//
// store.set(changes)          merges; listeners hear the set of changed keys once per frame
// store.subscribe(listener)   listener(changed: Set<string>); returns a function that ends it
// store.show({instruction, value, source})   selects, and pins the step of the instruction if it has one
// store.stepOf(instruction)   its step, or null
// store.buffersOf(name)       the rows of table `buffers` of an instruction or of a value
// isSelected(selected, {instruction, value, source})   whether a row or a mark is that of the selection: class "on"

export function createStore(report) {
  const tracks = report.timelines.buffers?.tracks ?? [];
  const peakOf = new Map(tracks.map(track => [track.name, track.peak_step]));
  const space = (tracks.find(track => track.peak_bytes > 0) ?? tracks[0])?.name ?? null; // main memory is first
  const marked = tracks.find(track => track.name === space)?.marks[0]?.step; // the step that a command asks for
  const state = {
    space, grouping: "source", step: marked ?? peakOf.get(space) ?? 0, isPinned: marked !== undefined,
    selected: null, scale: "steps", query: "", hoverStep: null,
  };
  const {set, subscribe, flush} = createChanges(state, changes => completeChanges(state, changes, peakOf));
  const steps = stepsByInstruction(report);
  const buffers = buffersByName(report);
  const stepOf = name => steps.get(name) ?? buffers.get(name)?.[0].start ?? null;
  const show = target => {
    const selected = completeSelection(target, buffers);
    const step = selected.instruction === null ? null : stepOf(selected.instruction);
    set(step === null ? {selected} : {selected, step, isPinned: true});
  };
  return {report, state, set, subscribe, flush, show, stepOf, buffersOf: name => buffers.get(name) ?? [], peakOf};
}

// The name of the instruction of a step; undefined if it is unknown.
export function nameOfStep(report, step) {
  const row = report.tables.steps?.rows[step];
  return row ? row.instruction : report.strings[report.timelines.buffers?.instructions?.[step]];
}

export function isSelected(selected, {instruction = null, value = null, source = null}) {
  if (selected === null) return false;
  if (value !== null && selected.value !== null) return value === selected.value;
  if (instruction !== null && selected.instruction !== null) return instruction === selected.instruction;
  return Boolean(source) && source === selected.source && (instruction === null || selected.instruction === null);
}

// The instruction of a value: `fusion.421{0}` is an element of the result of `fusion.421`.
export function instructionOf(value) {
  return value.replace(/\{[0-9,]*\}$/, "");
}

// A cell as a number: null for what does not apply ("-"), is unknown ("?"), or is missing.
export function numberOf(cell) {
  return typeof cell === "number" && Number.isFinite(cell) ? cell : null;
}

function createChanges(state, complete) {
  const listeners = new Set();
  let changed = new Set();
  let frame = 0;
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    const keys = changed;
    changed = new Set();
    if (keys.size) for (const listener of [...listeners]) listener(keys);
  };
  const set = changes => {
    for (const [key, value] of Object.entries(complete(changes))) {
      if (state[key] === value) continue;
      state[key] = value;
      changed.add(key);
    }
    if (changed.size && !frame) frame = requestAnimationFrame(flush);
  };
  const subscribe = listener => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {set, subscribe, flush};
}

// Another memory, and no step any more, mean the peak.
function completeChanges(state, changes, peakOf) {
  const space = changes.space ?? state.space;
  const isMoved = "space" in changes && changes.space !== state.space && !("step" in changes);
  if (!isMoved && changes.isPinned !== false) return changes;
  return {step: peakOf.get(space) ?? 0, ...changes, isPinned: false};
}

function completeSelection({instruction = null, value = null, source = null}, buffers) {
  const name = instruction ?? (value === null ? null : instructionOf(value));
  const rows = buffers.get(value ?? name) ?? [];
  return {
    instruction: name,
    value: value ?? (rows.length === 1 ? rows[0].value : null),
    source: source ?? (rows.find(row => row.source)?.source || null),
  };
}

function stepsByInstruction(report) {
  const steps = new Map();
  for (const {instruction, step} of report.tables.steps?.rows ?? []) {
    if (!steps.has(instruction)) steps.set(instruction, step);
  }
  return steps;
}

function buffersByName(report) {
  const found = new Map();
  const add = (name, row) => {
    const rows = found.get(name);
    if (rows === undefined) found.set(name, [row]);
    else rows.push(row);
  };
  for (const row of report.tables.buffers?.rows ?? []) {
    const instruction = instructionOf(row.value);
    add(instruction, row);
    if (instruction !== row.value) add(row.value, row);
  }
  return found;
}
