// The section of the schedule: kernels and async operations on the axis of the memory, and what overlaps nothing.

import {element} from "./dom.js";
import {numberOf} from "./store.js";
import {createChoice, createLegend} from "./controls.js";
import {createLanes} from "./lanes_picture.js";
import {exposedWord, isExposed} from "./lanes.js";
import {createPairs, withLines} from "./transfers.js";
import {countOf, formatBytes, formatCount, formatSeconds} from "./units.js";

export function drawScheduleSection({body, tools, key}, page) {
  const {report, store, axis} = page;
  const pairs = withLines(report.tables.pairs?.rows ?? [], store);
  if (axis.hasTime) tools.append(scaleChoice(store));
  const readout = element("p", {class: "readout", "aria-live": "off"});
  const rows = new Map((report.tables.steps?.rows ?? []).map(row => [row.step, row]));
  let hovered = null;
  const write = () => readout.replaceChildren(...describeStep(page, rows, hovered ?? {}));
  const readOut = found => {
    hovered = found;
    write();
  };
  store.subscribe(changed => {
    if (changed.has("hoverStep") || changed.has("step") || changed.has("isPinned")) write();
  });
  write();
  const lanes = createLanes(page, pairs, readOut);
  const picture = element("div", {}, createLegend(legendOf(pairs, axis.hasTime, lanes)), lanes.element, readout);
  const beside = element("div", {class: "beside"}, ...operationsBeside(pairs, page, key));
  body.append(element("div", {class: "split"}, picture, beside));
}

// The exposed operations; where all overlap, the others.
function operationsBeside(pairs, page, section) {
  if (!pairs.length) return [];
  const exposed = pairs.filter(isExposed);
  const all = countOf(pairs.length, "async operations");
  const word = exposedWord(pairs);
  const title = exposed.length ? `${formatCount(exposed.length)} ${word} of ${all}` : `${all}, none ${word}`;
  const rows = exposed.length ? exposed : pairs;
  return [element("h3", {text: title}), createPairs(page, {name: "exposed", section, rows})];
}

function scaleChoice(store) {
  const choices = [["steps", "steps"], ["time", "time, est."]];
  const choice = createChoice("Axis", choices, store.state.scale, scale => store.set({scale}));
  store.subscribe(changed => changed.has("scale") && choice.press(store.state.scale));
  return element("span", {}, element("span", {class: "quiet", text: "axis "}), choice.element);
}

function legendOf(pairs, hasTime, {hasSynchronous}) {
  return [
    ["kernels", hasTime ? "kernels, by estimated time" : "kernels, by bytes accessed"],
    pairs.length && ["interval", "async operation, overlapped by compute"],
    pairs.some(isExposed) && ["exposed", exposedWord(pairs)],
    hasSynchronous && ["synchronous", "synchronous collective"],
  ].filter(Boolean);
}

// What happens at the step below the pointer, else at the pinned step.
function describeStep({store, axis}, rows, {pair, synchronous}) {
  const {hoverStep, step, isPinned} = store.state;
  const at = synchronous?.step ?? hoverStep ?? (isPinned ? step : null);
  if (at === null) return [element("span", {text: "Hover to inspect a step; click to pin it."})];
  const row = rows.get(at);
  const seconds = axis.secondsAt(at);
  const words = [
    `step ${formatCount(at)}`,
    seconds === null ? null : `at ${formatSeconds(seconds)} est.`,
    ...(row ? describeRow(row) : []),
    synchronous ? `synchronous ${synchronous.opcode}` : null,
    pair ? describePair(pair) : null,
  ];
  const name = row?.instruction ? element("code", {text: row.instruction}) : null;
  const rest = words.slice(1).filter(Boolean).map(word => ` \u00b7 ${word}`);
  return [words[0], " ", ...(name ? [name] : []), rest.join("")];
}

function describeRow(row) {
  const compute = numberOf(row.compute_seconds);
  const wait = numberOf(row.wait_seconds);
  const flying = numberOf(row.in_flight);
  const bytes = numberOf(row.in_flight_bytes);
  return [
    compute ? `compute ${formatSeconds(compute)}` : null,
    wait ? `exposed ${formatSeconds(wait)}` : null,
    flying ? `${formatCount(flying)} in flight${bytes ? `, ${formatBytes(bytes)}` : ""}` : null,
  ];
}

function describePair(pair) {
  const exposed = numberOf(pair.exposed_seconds);
  const overlap = pair.unoverlapped ? "overlaps no kernel" : `overlapped by ${countOf(pair.kernels, "kernels")}`;
  return [
    `${pair.instruction}, ${formatBytes(numberOf(pair.bytes) ?? 0)}`,
    `steps ${formatCount(pair.start)}\u2013${formatCount(pair.done)}`,
    exposed ? `exposed for ${formatSeconds(exposed)}` : overlap,
  ].join(", ");
}
