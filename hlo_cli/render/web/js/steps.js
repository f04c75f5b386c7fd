// Where an instruction is in the schedule.

const stepsOfReport = new WeakMap();

// The first step at which an instruction runs, null if it has none.
export function stepOfInstruction(report, name) {
  let steps = stepsOfReport.get(report);
  if (!steps) {
    steps = new Map();
    for (const row of report.tables.steps ? report.tables.steps.rows : []) {
      if (row.instruction && !steps.has(row.instruction)) steps.set(row.instruction, row.step);
    }
    stepsOfReport.set(report, steps);
  }
  return steps.has(name) ? steps.get(name) : null;
}

// The changes of the state when an instruction is chosen: it is selected, and its step is pinned.
export function chosenInstruction(report, instruction, source = null, value = null) {
  const selected = {instruction, value, source};
  const step = stepOfInstruction(report, instruction);
  return step === null ? {selected} : {selected, step, isPinned: true};
}
