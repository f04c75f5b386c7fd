// The rows of the details: of values in memory, of the instruction, and of a source line.

import {element} from "./dom.js";
import {isInferred} from "./memory_groups.js";
import {numberOf} from "./store.js";
import {countOf, formatAddress, formatBytes, formatFlops, formatPercent, formatScaled, formatSeconds} from "./units.js";
import {fileLine} from "./words.js";

const MOST_LINKS = 12;

// One value in full; of several, such as the elements of a tuple, a link each.
export function describeValues(page, values) {
  if (values.length === 0) return [];
  if (values.length === 1) return describeValue(page, values[0]);
  const sum = values.reduce((bytes, row) => bytes + row.bytes, 0);
  const links = values.slice(0, MOST_LINKS).map(row => valueLink(page, row));
  const rest = values.length - MOST_LINKS;
  const text = `${countOf(values.length, "values")}, ${formatBytes(sum)}`;
  return [detailsList([["values", [element("p", {text}), ...links, rest > 0 ? moreText(rest) : null]]])];
}

function describeValue(page, row) {
  const {store, axis} = page;
  const peak = store.peakOf.get(row.space);
  const isOverPeak = row.start <= peak && peak <= row.end;
  const length = row.end - row.start + 1;
  const steps = `for ${formatScaled(length)} of ${formatScaled(axis.count)} steps (${stepRange(row.start, row.end)})`;
  const line = row.source ? fileLine(row.source) : isInferred(row) ? `${fileLine(row.origin)} (inferred)` : null;
  const own = [
    ["size", [sizeOf(row)]],
    ["memory", [`${row.space}, ${row.kind}${row.space === store.state.space ? "" : " "}`, spaceButton(page, row)]],
    ["live", [`${steps}${isOverPeak ? ", including the peak" : ""}`]],
    ["shape", [codeText(row.shape)]],
    ["allocation", [allocationOf(row)]],
  ];
  const others = [
    ["source", [line && codeText(line)]],
    ["op_name", [row.op_name && codeText(row.op_name)]],
    ["users", usersOf(page, row)],
    ["reused by", [row.reused_by && instructionLink(page, row.reused_by)]],
  ];
  return [detailsList(own), detailsList(others)];
}

function sizeOf(row) {
  const exact = row.bytes >= 1024 ? ` (${formatScaled(row.bytes)} B)` : "";
  const data = numberOf(row.logical_bytes);
  const padding = data === null || data >= row.bytes ? "" : `, ${formatPercent(1 - data / row.bytes)}% padding`;
  return `${formatBytes(row.bytes)}${exact}${padding}`;
}

function allocationOf(row) {
  if (numberOf(row.allocation) === null) return null;
  const offset = numberOf(row.offset) === null ? "" : ` at offset ${formatAddress(row.offset)}`;
  return `${formatScaled(row.allocation)}${offset}`;
}

function spaceButton({store}, row) {
  if (row.space === store.state.space || !store.peakOf.has(row.space)) return null;
  const show = () => store.set({space: row.space, step: row.start, isPinned: true});
  return element("button", {type: "button", class: "plain name", text: `show in ${row.space}`, onclick: show});
}

function usersOf(page, row) {
  const names = Array.isArray(row.users) ? row.users : [];
  const count = numberOf(row.user_count) ?? names.length;
  if (row.users === undefined && row.user_count === undefined) return [];
  if (!count) return ["no users"];
  const rest = count > names.length ? moreText(count - names.length) : null;
  return [...names.map(name => instructionLink(page, name)), rest];
}

// Where a value is live on the schedule, and where the peak is.
export function liveBar({axis: {count}, store}, row) {
  const peak = store.peakOf.get(row.space);
  const percent = step => `${((100 * step) / count).toFixed(2)}%`;
  const title = `live from step ${row.start} to ${row.end} of ${count}; the peak is at step ${peak}`;
  return element(
    "div",
    {class: "range", role: "img", "aria-label": title, title},
    element("span", {class: "live", style: `left:${percent(row.start)};width:${percent(row.end - row.start + 1)}`}),
    peak === undefined ? null : element("span", {class: "at-peak", style: `left:${percent(peak)}`}),
  );
}

// What the other tables hold about an instruction: its place, cost, transfer, and findings.
export function describeInstruction(page, instruction, values) {
  const {report, store} = page;
  const step = store.stepOf(instruction);
  const row = step === null ? null : report.tables.steps?.rows[step];
  const own = row?.instruction === instruction ? row : null;
  const kernel = rowOf(report, "kernels", "instruction", instruction);
  const fusion = rowOf(report, "fusions", "fusion", instruction);
  const pair =
    rowOf(report, "pairs", "instruction", instruction) ?? rowOf(report, "pairs", "done_instruction", instruction);
  const hasValue = values.length === 1;
  const shape = own?.shape ?? null;
  const opName = own?.op_name ?? fusion?.op_name ?? pair?.op_name ?? null;
  const source = fusion?.source ?? kernel?.source ?? pair?.source ?? null;
  const written = [
    ["shape", [shape && codeText(shape)]],
    ["source", [source && codeText(fileLine(source))]],
    ["op_name", [opName && codeText(opName)]],
  ];
  const rows = [
    ["opcode", [own?.opcode ?? kernel?.opcode ?? values[0]?.opcode]],
    ["step", [step === null ? null : stepButton(page, step)]],
    ...(hasValue ? [] : written),
    ["kernel", kernel ? kernelTexts({...fusion, ...kernel}) : []],
    ["async", pair ? pairTexts(page, pair, instruction) : []],
  ];
  return [detailsList(rows), detailsList([["findings", findingsOf(report, instruction)]])];
}

function rowOf(report, table, column, name) {
  return report.tables[table]?.rows.find(row => row[column] === name) ?? null;
}

function kernelTexts(kernel) {
  const seconds = numberOf(kernel.estimated_seconds);
  const bytes = numberOf(kernel.bytes);
  const flops = numberOf(kernel.flops);
  const times = numberOf(kernel.execution_count);
  const costs = [
      seconds === null ? null : `${formatSeconds(seconds)} est.${times > 1 ? ` \u00d7 ${formatScaled(times)}` : ""}`,
      bytes === null ? null : `${formatBytes(bytes)} accessed`,
      flops ? formatFlops(flops) : null,
      kernel.bottleneck && kernel.bottleneck !== "?" ? `limited by ${kernel.bottleneck}` : null,
  ];
  const fused = kernel.fused ? element("p", {class: "quiet", text: kernel.fused}) : null;
  return [element("p", {text: costs.filter(Boolean).join(", ")}), fused];
}

function pairTexts(page, pair, instruction) {
  const other = instruction === pair.instruction ? pair.done_instruction : pair.instruction;
  const exposed = numberOf(pair.exposed_seconds);
  const bytes = numberOf(pair.bytes);
  const parts = [
    pair.operation,
    bytes === null ? null : formatBytes(bytes),
    numberOf(pair.done) === null ? null : `in flight at steps ${stepRange(pair.start, pair.done)}`,
    pair.unoverlapped ? "overlaps no kernel" : `${countOf(numberOf(pair.kernels) ?? 0, "kernels")} overlap`,
    exposed ? `${formatSeconds(exposed)} exposed, est.` : null,
  ];
  return [parts.filter(Boolean).join(", "), other && instructionLink(page, other)];
}

function findingsOf(report, instruction) {
  const rows = report.tables.findings?.rows.filter(row => row.instruction === instruction) ?? [];
  return rows.slice(0, MOST_LINKS).map(findingText);
}

function findingText({severity, code, message}) {
  const tone = severity === "error" ? "alarm" : "waste";
  return element("p", {}, element("span", {class: tone, text: `${code} `}), message);
}

// What a source line has: its costs, its largest values, and its findings.
export function describeLine(page, source) {
  const {report} = page;
  const ofLine = table => report.tables[table]?.rows.filter(row => row.source === source) ?? [];
  const values = ofLine("buffers").sort((a, b) => b.bytes - a.bytes);
  const links = values.slice(0, MOST_LINKS).map(row => valueLink(page, row));
  const rest = values.length > MOST_LINKS ? moreText(values.length - MOST_LINKS) : null;
  const findings = ofLine("findings").slice(0, MOST_LINKS);
  const fusions = ofLine("fusions").map(row => instructionLink(page, row.fusion));
  const moreFusions = fusions.length > MOST_LINKS ? moreText(fusions.length - MOST_LINKS) : null;
  return [
    detailsList([["costs", [costsOfLine(ofLine("lines")[0])]], ["findings", findings.map(findingText)]]),
    detailsList([["values", [...links, rest]]]),
    detailsList([["fusions", [...fusions.slice(0, MOST_LINKS), moreFusions]]]),
  ];
}

function costsOfLine(row) {
  if (!row) return null;
  const seconds = numberOf(row.seconds);
  const [bytes, launches, peak] = [row.bytes, row.launches, row.peak_bytes].map(numberOf);
  const parts = [
    seconds === null ? null : `${formatSeconds(seconds)} est.`,
    bytes === null ? null : `${formatBytes(bytes)} accessed`,
    launches === null ? null : countOf(launches, "launches"),
    peak ? `${formatBytes(peak)} at the peak` : null,
  ];
  return parts.filter(Boolean).join(", ");
}

// Rows of `[term, children]`; a row without children is left out.
function detailsList(rows) {
  const filled = rows.map(([term, children]) => [term, children.filter(Boolean)]);
  const shown = filled.filter(([, children]) => children.length);
  const items = shown.flatMap(([term, children]) => [element("dt", {text: term}), element("dd", {}, ...children)]);
  return element("dl", {}, ...items);
}

function codeText(text) {
  return element("span", {class: "code", text});
}

function moreText(count) {
  return element("span", {class: "quiet", text: `${formatScaled(count)} more`});
}

function stepButton({store}, step) {
  const pin = () => store.set({step, isPinned: true});
  return element("button", {type: "button", class: "plain name", text: formatScaled(step), onclick: pin});
}

function instructionLink({store}, name) {
  const step = store.stepOf(name);
  return linkButton(name, step === null ? "" : formatScaled(step), () => store.show({instruction: name}));
}

function valueLink({store}, row) {
  return linkButton(row.value, formatBytes(row.bytes), () => store.show({value: row.value}));
}

// A name that shows what it names, and a remark.
function linkButton(name, remark, onclick) {
  const parts = [element("span", {class: "name", text: name}), element("span", {class: "quiet", text: ` ${remark}`})];
  return element("button", {type: "button", class: "plain code link", onclick}, ...parts);
}

function stepRange(start, end) {
  return `${formatScaled(start)}\u2013${formatScaled(end)}`;
}
