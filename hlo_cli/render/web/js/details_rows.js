// The rows of the details: of values in memory, of the instruction, and of a source line.

import {element} from "./dom.js";
import {isInferred} from "./memory_groups.js";
import {numberOf} from "./store.js";
import {countOf, formatAddress, formatBytes, formatPercent, formatScaled, formatSeconds} from "./units.js";
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
  return [detailsList([["values", [text, ...links, rest > 0 ? moreText(rest) : null]]])];
}

function describeValue(page, row) {
  const {store, axis} = page;
  const peak = store.peakOf.get(row.space);
  const isOverPeak = row.start <= peak && peak <= row.end;
  const steps = `steps ${formatScaled(row.start)}\u2013${formatScaled(row.end)}, ${formatScaled(row.end - row.start + 1)} of ${formatScaled(axis.count)}`;
  const line = row.source ? fileLine(row.source) : isInferred(row) ? `${fileLine(row.origin)} (inferred)` : null;
  const own = [
    ["size", [sizeOf(row)]],
    ["memory", [`${row.space}, ${row.kind}${row.space === store.state.space ? "" : " "}`, spaceButton(page, row)]],
    ["live", [`${steps}${isOverPeak ? ", over the peak" : ""}`]],
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
  return `${formatScaled(row.allocation)}${numberOf(row.offset) === null ? "" : ` at offset ${formatAddress(row.offset)}`}`;
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
  return [...names.map(name => instructionLink(page, name)), count > names.length ? moreText(count - names.length) : null];
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
  const pair = rowOf(report, "pairs", "instruction", instruction) ?? rowOf(report, "pairs", "done_instruction", instruction);
  const hasValue = values.length === 1;
  const shape = own?.shape ?? null;
  const opName = own?.op_name ?? fusion?.op_name ?? pair?.op_name ?? null;
  const source = fusion?.source ?? kernel?.source ?? pair?.source ?? null;
  const rows = [
    ["opcode", [own?.opcode ?? kernel?.opcode ?? values[0]?.opcode]],
    ["step", [step === null ? null : stepButton(page, step)]],
    ...(hasValue ? [] : [["shape", [shape && codeText(shape)]], ["source", [source && codeText(fileLine(source))]], ["op_name", [opName && codeText(opName)]]]),
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
      flops ? `${formatScaled(flops)} flops` : null,
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
    numberOf(pair.done) === null ? null : `in flight at steps ${formatScaled(pair.start)}\u2013${formatScaled(pair.done)}`,
    pair.exposed ? "exposed: no kernel overlaps" : `${countOf(numberOf(pair.kernels) ?? 0, "kernels")} overlap`,
    exposed ? `${formatSeconds(exposed)} exposed, est.` : null,
  ];
  return [parts.filter(Boolean).join(", "), other && instructionLink(page, other)];
}

function findingsOf(report, instruction) {
  const rows = report.tables.findings?.rows.filter(row => row.instruction === instruction) ?? [];
  return rows.slice(0, MOST_LINKS).map(row => element("p", {}, element("span", {class: row.severity === "error" ? "alarm" : "waste", text: `${row.code} `}), row.message));
}

// What a source line has: its values, kernels, and findings.
export function describeLine(page, source) {
  const {report, store} = page;
  const count = (table, noun) => {
    const rows = report.tables[table]?.rows.filter(row => row.source === source) ?? [];
    return rows.length ? [countOf(rows.length, noun)] : [];
  };
  const values = report.tables.buffers?.rows.filter(row => row.source === source) ?? [];
  const largest = [...values].sort((a, b) => b.bytes - a.bytes).slice(0, MOST_LINKS);
  const search = () => store.set({query: fileLine(source)});
  return [
    detailsList([
      ["values", [...count("buffers", "values"), ...largest.map(row => valueLink(page, row))]],
      ["fusions", count("fusions", "fusions")],
      ["findings", count("findings", "findings")],
    ]),
    element("div", {}, element("button", {type: "button", text: "search for this line", onclick: search})),
  ];
}

// Rows of `[term, children]`; a row without children is left out.
function detailsList(rows) {
  const shown = rows.map(([term, children]) => [term, children.filter(Boolean)]).filter(([, children]) => children.length);
  return element("dl", {}, ...shown.flatMap(([term, children]) => [element("dt", {text: term}), element("dd", {}, ...children)]));
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
  const place = step === null ? null : element("span", {class: "quiet", text: ` ${formatScaled(step)}`});
  const show = () => store.show({instruction: name});
  return element("button", {type: "button", class: "plain code link", onclick: show}, element("span", {class: "name", text: name}), place);
}

function valueLink({store}, row) {
  const size = element("span", {class: "quiet", text: ` ${formatBytes(row.bytes)}`});
  const show = () => store.show({value: row.value});
  return element("button", {type: "button", class: "plain code link", onclick: show}, element("span", {class: "name", text: row.value}), size);
}
