// Kernels: what each costs, what limits it, and the line it comes from.

import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {inferredTone, lineOfRow} from "./words.js";

const OF_FUSION = ["source", "op_name", "fused", "hero"];

export function drawKernelsSection({body, key}, {report, store}) {
  const {kernels, fusions} = report.tables;
  if (!kernels) return;
  const rows = rowsOfKernels(kernels, fusions);
  const described = {columns: [...(fusions ? fusions.columns : []), ...kernels.columns]};
  const own = row => ({instruction: row.instruction, source: lineOfRow(row)});
  const sort = rows.some(row => typeof row.estimated_seconds === "number") ? "total_seconds" : "total_bytes";
  const columns = columnsOf(described, wantedOfKernels(rows));
  body.append(createTable(store, {name: "kernels", section: key, noun: "kernels", rows, own, sort, columns}));
}

// What a fusion is known for is merged by name; a kernel without a source line has that of its fusion.
function rowsOfKernels(kernels, fusions) {
  const byName = new Map((fusions ? fusions.rows : []).map(row => [row.fusion, row]));
  return kernels.rows
    .filter(row => row.kernel_kind !== "transfer")
    .map(row => {
      const fusion = byName.get(row.instruction) || {};
      const merged = {...row};
      for (const name of OF_FUSION) merged[name] = row[name] ?? fusion[name] ?? null;
      if (row.estimated_seconds !== undefined) merged.total_seconds ??= timesOf(row.estimated_seconds, row);
      return merged;
    });
}

// A cost of all executions; unknown if either part is.
function timesOf(cost, row) {
  const times = row.execution_count ?? 1;
  return typeof cost === "number" && typeof times === "number" ? cost * times : "?";
}

// Costs are those of all launches in an execution, as in the other tables; beside the cost in whose order rows are
// stands that of one launch, where kernels have several.
function wantedOfKernels(rows) {
  const repeats = rows.some(row => row.execution_count !== 1);
  const timed = rows.some(row => row.total_seconds !== undefined);
  const all = "of all launches in one execution";
  const ranked = {total: true, bar: true, lowBar: true, hint: timed ? `estimated, ${all}` : all};
  const single = {label: "per launch", low: true, unsummed: true, hint: "of one launch"};
  const tone = () => "quiet";
  const savingTone = row => (row.total_saved_bytes < 0 ? "waste" : "saving");
  const bound = row => (row.bottleneck === "memory" ? "waste" : null);
  const bytes = {name: "total_bytes", label: "accessed", total: true, hint: all};
  return [
    {name: "instruction", label: "kernel", isLink: true},
    timed && {...ranked, name: "total_seconds", label: "est. time", unit: "seconds", value: row => row.total_seconds},
    timed && repeats && {...single, name: "estimated_seconds", unit: "seconds"},
    timed ? {...bytes, low: true} : {...ranked, ...bytes},
    !timed && repeats && {...single, name: "bytes"},
    repeats && {name: "execution_count", label: "launches", low: true, total: true},
    {name: "total_saved_bytes", label: "saved", low: true, unsummed: true, tone: savingTone, hint: all},
    {name: "total_flops", label: "flops", unit: "flops", low: true, optional: true, hint: all},
    {name: "bottleneck", label: "bottleneck", low: true, tone: bound},
    {name: "source", label: "source line", value: lineOfRow, tone: inferredTone},
    {name: "computes", label: "computes", value: computes, low: true, isCode: true, most: 38, isList: true, tone},
  ].filter(Boolean);
}

// The fused operations, the main ones first; else the function that is called, or the operation itself.
function computes(row) {
  if (!row.fused) return row.details || row.opcode;
  const heroes = new Set((row.hero || "").split(", "));
  const isMain = item => heroes.has(item.slice(0, item.lastIndexOf(" ")));
  const items = row.fused.split(", ");
  return [...items.filter(isMain), ...items.filter(item => !isMain(item))].join(", ");
}
