"""What did XLA:GPU decide, by the files next to a dump? For which GPU, in which pass, and why not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.fusion.mutable_graph import fusible_computations
from hlo_cli.analysis.fusion.unfused_pairs import (
    FusionOutcome,
    KernelPair,
    fusion_outcome,
    kernel_pairs,
    names_in_the_pass,
)
from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.gpu_devices import gpu_device, gpu_with
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.fuse.gpu_pairs import (
    ALL_CONSUMERS,
    SLOWER,
    PairRow,
    is_selected,
    next_pair,
    no_pair,
    pairs_table,
    reasons_table,
    seconds,
    sorted_rows,
)
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, partition_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import earlier_dumps, fusion_dump_of, pass_between
from hlo_cli.inputs.input import read_inputs, read_plain, target_texts
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusionProcess
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds, verb
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.fusion.gpu_decisions import kernels_of_dump

# --- the GPU of a dump ---
# The GPUs whose compiler decides: those of --chip, else the one that a dump was compiled for.


# fields of the GpuDeviceInfoProto that XLA dumps as *.gpu_target_config.pbtxt
_CORES: Final = re.compile(r"\bcore_count: (\d{1,9})\b")
_BANDWIDTH: Final = re.compile(r"\bmemory_bandwidth: (\d{1,18})\b")


def gpus_named(names: tuple[str, ...]) -> tuple[str, ...]:
    """The chips of --chip if they are GPUs, by their usual names; empty if one is not, HloError for unknown ones.

    >>> gpus_named(("NVIDIA H100 80GB HBM3", "b200")), gpus_named(("v5e",))
    (('h100', 'b200'), ())
    """
    chips = tuple(find_chip(name) for name in names)
    other = next((chip for chip in chips if chip.target != "gpu"), None)
    if other is None:
        return tuple(dict.fromkeys(chip.name for chip in chips))
    if len(chips) > 1:
        raise HloError(f"{other.name} is not a GPU", hint="--chip takes several chips if all of them are GPUs")
    return ()


def gpu_of_dump(loaded: Loaded, process: FusionProcess | None = None) -> str | None:
    """The GPU that a module was compiled for, by the figures that XLA wrote next to it; None if they are not known."""
    if process is not None and (gpu := gpu_with(process.core_count, process.memory_bandwidth)) is not None:
        return gpu
    texts = tuple(target_texts(loaded.input))
    for text in texts:
        cores, bandwidth = _CORES.search(text), _BANDWIDTH.search(text)
        if cores and bandwidth and (gpu := gpu_with(int(cores[1]), int(bandwidth[1]))) is not None:
            return gpu
    name = chip_in(texts)
    return name if name is not None and gpus_named((name,)) else None


def is_for_gpu(loaded: Loaded) -> bool:
    """Whether a module was compiled for a GPU, by its text, the name of its file, or the files next to it."""
    target = target_of(loaded.module)
    if target is not None:
        return target == "gpu" or (loaded.input.target or "").endswith("gpu")
    return (loaded.input.target or "").endswith("gpu") or gpu_of_dump(loaded) is not None


def is_dump_of(process: FusionProcess, chip: str) -> bool:
    """Whether XLA wrote its decisions while it compiled for this chip, by its memory and its cores."""
    device = gpu_device(chip)
    # a field that is missing in the dump is read as 0
    return process.memory_bandwidth == device.memory_bandwidth and process.core_count in (0, device.core_count)


def check_target(loaded: Loaded, chip: str) -> None:
    """Raises HloError for a GPU without figures, and for a module of a TPU, whose fusions and layouts no GPU has."""
    gpu_device(chip)
    if target_of(loaded.module) == "tpu":
        message = f"{chip} is a GPU, but the module was compiled for TPU"
        raise HloError(message, hint="use a module from before its fusion passes, or a dump compiled for a GPU")


def state_notes(loaded: Loaded, chip: str) -> Iterator[str]:
    """Notes on a chip without a compiler, and on a module that is not the input of XLA's fusion passes for it."""
    module = loaded.module
    if not gpu_device(chip).is_checked:
        yield f"the figures of {chip} are those of XLA's target file; no compiler for it was compared with"
    # without a backend_config of a GPU, a scheduled module counts as one of a CPU; the name of its file is surer
    if target_of(module) == "cpu" and not (loaded.input.target or "").endswith("gpu"):
        yield f"{chip} is a GPU, but the module was compiled for CPU"
    if module.is_scheduled:
        yield "the module is scheduled: XLA's fusion passes have run already"
    elif loaded.input.stage == "before_optimizations":
        yield "this is the program before optimization: XLA runs many passes before it fuses"
    yield from (note.message for note in partition_notes(loaded))


def chip_note(chip: str) -> str:
    """A note that a dump, not --chip, names the chip.

    >>> chip_note("h100")
    'the dump was compiled for h100; --chip NAME selects another GPU'
    """
    return f"the dump was compiled for {chip}; --chip NAME selects another GPU"


# --- what priority fusion wrote ---
# What priority fusion wrote about a module, in the file next to its dump.


FLAGS: Final = "--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=priority-fusion"
"""The flags with which XLA:GPU writes the file: jaxlib 0.10.2 does so only if priority-fusion is a dumped pass."""
_STAGE_AFTER_PASS: Final = "after_priority-fusion"


@dataclass(frozen=True, slots=True)
class FusionDump:
    """The decisions of the pass, and the file they are from."""

    process: FusionProcess
    path: str
    after: Module | None = None
    """The module right after the pass, from its per-pass dump; None without it."""


def fusion_dump(loaded: Loaded) -> FusionDump | None:
    """The decisions of priority fusion next to a dump, None without the file; HloError if it cannot be read."""
    input = loaded.input
    path = fusion_dump_of(input.path, input.dump) if input.path is not None and input.dump is not None else None
    if path is None:
        return None
    from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process

    return FusionDump(parse_fusion_process(read_plain(path)), path, _module_after(loaded))


def _module_after(loaded: Loaded) -> Module | None:
    """The module right after priority fusion, if its per-pass dump is next to the dump and can be read."""
    input = loaded.input
    if input.path is None or input.dump is None:
        return None
    with suppress(HloError, OSError):
        for path, stage in earlier_dumps(input.path, input.dump):
            if _STAGE_AFTER_PASS in stage:
                return next((read_input(each) for each in read_inputs([path])), None)
    return None


# --- the pass that fused ---
# Which compiler pass fused an instruction, by the per-pass dumps next to a dump.


@dataclass(frozen=True, slots=True)
class FusingPass:
    """The pass after which an instruction is not a kernel any more, and the fusion that has it since; "" if unknown."""

    name: str
    fusion: str


def _fusing_pass(loaded: Loaded, name: str) -> FusingPass | None:
    """The pass that fused an instruction, None if no dump of a pass has the instruction as a kernel.

    Reads the dumps of the latest passes first, and only those that have the name.
    """
    input = loaded.input
    if input.path is None or input.dump is None:
        return None
    later, stage = loaded.module, input.stage or ""
    # the last dump that still has the kernel is nearest to the pass that fused it
    for path, earlier in reversed(earlier_dumps(input.path, input.dump)):
        with suppress(HloError, OSError):
            for text in read_inputs([path]):
                # parsing is the cost here, and most passes have not changed the name
                if f"{name} = " not in text.source.text:
                    continue
                module = read_input(text)
                if (kernel := _kernel_named(module, name)) is not None:
                    return FusingPass(pass_between(earlier, stage).name, _fusion_with(later, kernel))
                later = module
        stage = earlier
    return None


def _kernel_named(module: Module, name: str) -> Instruction | None:
    """The instruction of this name if it is executed on its own."""
    return next(
        (each for computation in fusible_computations(module) if (each := computation.instruction(name)) is not None),
        None,
    )


def _fusion_with(module: Module, instruction: Instruction) -> str:
    """The fusion with an instruction of the same opcode, op_name, and shape, if there is only one."""
    same = Counter(
        fusion.name
        for fusion in module.instructions
        if fusion.opcode == opcodes.FUSION
        for called in fusion.called_computations
        for each in called.instructions
        if each.opcode == instruction.opcode
        and each.shape == instruction.shape
        and each.metadata.op_name == instruction.metadata.op_name
    )
    # passes rename what they fuse, and two candidates cannot be told apart
    return next(iter(same)) if len(same) == 1 else ""


# --- decisions on pairs ---
# What priority fusion decided on the pairs of a module, by the dump that it wrote, which has the names of its time.


_FUSED_INTO: Final = "priority-fusion fused the producer into"
NOT_SEEN: Final = "no decision found in the priority fusion dump"
COPIED: Final = "no decision found; the copy was inserted after fusion"


@dataclass(frozen=True, slots=True)
class Decisions:
    """Pairs that are not fused, those with most at stake first, and how many of the module the pass fused.

    `kernels` are those that the given names stand for, `names_in_pass` their names in the pass. `opaque` are the names
    in the pass of fusions of which the time is not modeled, such as Triton's; `names_now` are the names of the kernels
    by those in the pass.
    """

    rows: list[PairRow]
    fused: int
    kernels: tuple[str, ...]
    names_in_pass: tuple[str, ...]
    opaque: frozenset[str]
    names_now: Mapping[str, str]
    notes: tuple[Diagnostic, ...]


def decisions_of(
    loaded: Loaded, dump: FusionDump | None, *, names: Sequence[str] = (), within: Computation | None
) -> Decisions:
    """What the pass decided on the pairs of a module."""
    pairs = kernel_pairs(loaded.module)
    fates = None if dump is None else _Fates(fusion_outcome(dump.process), pairs, dump.after)
    places = [_place(name, fates, loaded) for name in names]
    chosen = tuple(place.kernel for place in places)
    rows = [
        _row_of(pair, fates)
        for pair in pairs
        if (within is None or pair.consumer.computation is within)
        and is_selected(chosen, pair.producer.name, pair.consumer.name)
    ]
    is_after = loaded.module.is_scheduled or bool(names)
    left = rows if is_after else [row for row in rows if not row.reason.startswith(_FUSED_INTO)]
    return Decisions(
        sorted_rows(left),
        len(rows) - len(left),
        chosen,
        tuple(place.name_then or _name_in_pass(place.kernel, fates) for place in places),
        _opaque(loaded.module, fates),
        {} if fates is None else fates.kernels,
        tuple(note for place in places for note in place.notes),
    )


def _opaque(module: Module, fates: _Fates | None) -> frozenset[str]:
    kernels = {each.name for each in module.instructions if each.opcode == opcodes.FUSION and _is_custom(each)}
    names = () if fates is None else fates.names.items()
    return frozenset(name for kernel, name in names if kernel.name in kernels)


def _is_custom(fusion: Instruction) -> bool:
    return fusion.attribute("kind") == "kCustom"


def _name_in_pass(kernel: str, fates: _Fates | None) -> str:
    if fates is None:
        return kernel
    return next((name for each, name in fates.names.items() if each.name == kernel), None) or kernel


@dataclass(frozen=True, slots=True)
class _Place:
    """The kernel that a name stands for, and what became of an instruction that is not a kernel any more.

    `name_then` is the name that it had in the pass, if it was a kernel there only.
    """

    kernel: str
    notes: tuple[Diagnostic, ...] = ()
    name_then: str | None = None


class _Fates:
    """What the pass decided, and the names that kernels had in it."""

    def __init__(self, outcome: FusionOutcome, pairs: Sequence[KernelPair], after: Module | None) -> None:
        self.outcome = outcome
        kernels = dict.fromkeys(kernel for pair in pairs for kernel in (pair.producer, pair.consumer))
        self.names = names_in_the_pass(outcome, kernels, after)
        self.kernels = {name: kernel.name for kernel, name in self.names.items()}

    def name_then(self, name: str) -> str | None:
        """The name in the pass, before which XLA adds `.0` to names; None if the pass did not see the instruction."""
        known_names = self.outcome.fused_into, self.outcome.verdicts
        # names without a number get .0 in the pass only
        return next((each for each in (name, f"{name}.0") if any(each in names for names in known_names)), None)

    def last_name(self, name: str) -> str:
        """The fusion of which an instruction became a part, or its own name."""
        visited = {name}
        # a fusion that takes in one more producer keeps its name, so that names can lead in a circle
        while (into := self.outcome.fused_into.get(name)) and into[0] not in visited:
            name = into[0]
            visited.add(name)
        return name


def _place(name: str, fates: _Fates | None, loaded: Loaded) -> _Place:
    """The kernel of a name in the module or, if it has none, in an earlier stage; HloError for an unknown name."""
    if any(computation.instruction(name) is not None for computation in fusible_computations(loaded.module)):
        return _Place(name)
    if fates is not None and (name_then := fates.name_then(name)) is not None:
        last = fates.last_name(name_then)
        kernel = fates.kernels.get(last, last)
        others = len(fates.outcome.fused_into.get(name_then, ())) - 1
        more = f" and {format_count(others, 'more fusions')}" if others > 0 else ""
        words = (
            f"priority-fusion fused {name} into {last}{more}" if last != name_then else f"priority-fusion kept {name}"
        )
        note = Diagnostic("note", words + (f"; {last} is now {kernel}" if kernel != last else ""))
        return _Place(kernel, (note,), name_then)
    if (fusion := fusion_with(name, loaded.module)) is not None:
        return _Place(fusion, (Diagnostic("note", f"{name} is part of {fusion}"),))
    if (fusing_pass := _fusing_pass(loaded, name)) is not None:
        words = f"{fusing_pass.name} fused {name}" + (f" into {fusing_pass.fusion}" if fusing_pass.fusion else "")
        return _Place(fusing_pass.fusion or name, (Diagnostic("note", words),))
    loaded.module.instruction(name)
    return _Place(name)


def fusion_with(name: str, module: Module) -> str | None:
    """The fusion whose body has an instruction of this name, or None."""
    bodies = {called: each.name for each in module.instructions for called in each.called_computations}
    homes = (body for body in module.computations if body.instruction(name) is not None)
    return next((bodies[body] for body in homes if body in bodies), None)


def _row_of(pair: KernelPair, fates: _Fates | None) -> PairRow:
    row = PairRow(
        pair.producer.name, pair.consumer.name, pair.consumer.computation.name, pair.saved_bytes, "", name_in_pass=None
    )
    if fates is None:
        return row
    name = fates.names.get(pair.producer)
    row = replace(row, name_in_pass=name)
    verdict = fates.outcome.verdicts.get(name) if name is not None else None
    if verdict is None and name is not None and (into := fates.outcome.fused_into.get(name)):
        return replace(row, reason=f"{_FUSED_INTO} {into[0]}")
    if verdict is None:
        # copy insertion runs after the fusion passes, so no decision on a copy can be expected
        is_copy = opcodes.COPY in (pair.producer.opcode, pair.consumer.opcode)
        return replace(row, reason=COPIED if is_copy else NOT_SEEN)
    return replace(
        row,
        reason=verdict.reason or SLOWER,
        fused_seconds=verdict.fused_seconds,
        unfused_seconds=verdict.unfused_seconds,
    )


# --- --why-not from a dump ---
# `hlo fuse DUMP --why-not` of a GPU module: XLA's own reasons, from what its priority fusion wrote.


_UNKNOWN: Final = "unknown"
_ROUNDING: Final = (
    2e-9  # chosen: eight ticks of a quarter nanosecond, as each time in a sum or difference is rounded by itself
)
"""Seconds by which sums of times that XLA printed differ from times in whole ticks."""
_BEFORE_FUSION: Final = "The module is from before fusion; the dump has no decision on a pair of its instructions"
_NAME_A_GPU: Final = "To compute the pairs of kernels that XLA leaves apart, name the GPU with --chip."


def report_of_dumped_why_not(
    loaded: Loaded,
    dump: FusionDump | None,
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """One row for each pair, those with most at stake first; without a dump, all reasons are unknown.

    `names` limit the rows to one instruction or one pair; they can be names from before the pass.
    """
    decisions = decisions_of(loaded, dump, names=names, within=within)
    if dump is not None:
        decisions = replace(decisions, rows=_with_kernels(decisions, dump, gpu_of_dump(loaded, dump.process)))
    rows, chosen = decisions.rows, decisions.kernels
    is_earlier = dump is not None and decisions.fused > 0 and not loaded.module.is_scheduled and not (rows or chosen)
    everything = pairs_table(rows)
    table = everything if where is None else rows_where(where, everything)
    parts: list[Part] = (
        [table]
        if table.rows
        else [Passage("nothing", (_NAME_A_GPU if is_earlier else _nothing(everything, chosen),)), table]
    )
    reasons = reasons_table(rows) if dump is not None and len(rows) > 1 else None
    return Report(
        "fuse",
        _BEFORE_FUSION if is_earlier else _pairs_answer(rows, chosen, has_reasons=dump is not None),
        numbers={
            "pairs": len(rows),
            "fused_pairs": decisions.fused,
            "decided_by": "priority-fusion" if dump is not None else _UNKNOWN,
            "decided_pairs": sum(row.reason not in ("", NOT_SEEN, COPIED) for row in rows),
        },
        parts=(*((reasons,) if reasons is not None else ()), *parts),
        next=_next_of_pairs(argument, rows, has_reasons=dump is not None),
        notes=(*decisions.notes, *_reason_notes(dump, decisions.fused), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _with_kernels(decisions: Decisions, dump: FusionDump, chip: str | None) -> list[PairRow]:
    """The rows with the times of their kernels, where these are what XLA estimated for the chip."""
    timed = {row.name_in_pass: row for row in decisions.rows if row.name_in_pass and row.fused_seconds is not None}
    names = timed.keys() - decisions.opaque
    module = module_before(dump.process) if chip is not None and names else None
    if chip is None or module is None:
        return decisions.rows
    kernels = {}
    for name, (saved, by_consumer) in kernels_of_dump(module, dump.process, chip, names).items():
        row = timed[name]
        assert row.fused_seconds is not None
        assert row.unfused_seconds is not None
        if is_same_time(seconds(saved), row.unfused_seconds - row.fused_seconds):
            kernels[name] = {decisions.names_now.get(user, user): times for user, times in by_consumer.items()}
    return [replace(row, kernels=kernels.get(row.name_in_pass or "", {}).get(row.consumer)) for row in decisions.rows]


def module_before(process: FusionProcess) -> Module | None:
    """The module before the pass, as its dump has it; None if it does not, or is truncated."""
    if not process.module_text or process.is_truncated:
        return None
    try:
        return parse_module(Source("hlo_module_before_fusion", process.module_text))
    except HloError:
        return None


def is_same_time(computed: float, printed: float) -> bool:
    """Whether a computed time is a sum or difference of times that XLA printed with few digits.

    >>> is_same_time(1e-6, 1.0000001e-6), is_same_time(1e-6, 1.1e-6)
    (True, False)
    """
    # the dump has microseconds as float32, of which text shows as few digits as identify it
    return abs(computed - printed) <= _ROUNDING + 1e-5 * abs(computed)


def _pairs_answer(rows: Sequence[PairRow], names: Sequence[str], *, has_reasons: bool) -> str:
    if not rows:
        if len(names) > 1 and len(set(names)) == 1:
            return f"Both are in one kernel, {names[0]}"
        return no_pair(names) if names else "No kernel reads the result of another kernel"
    words = f"{format_count(len(rows), 'producer–consumer pairs')} {verb(len(rows), 'is', 'are')} not fused"
    if not has_reasons:
        return f"{words}; XLA's reasons are not in the dump"
    if len(rows) == 1:
        return _one_answer(rows[0])
    (reason, number), *_ = Counter(row.reason for row in rows).most_common(1)
    words += f". Most common reason: {reason} ({number:,})"
    largest = max(row.saving_bytes for row in rows)
    return words + (f". Largest possible saving: {format_bytes(largest)}" if largest > 0 else "")


def _one_answer(row: PairRow) -> str:
    """The answer about a single pair."""
    words = f"{row.producer} is not fused into {row.consumer}: {row.reason}"
    if row.fused_seconds is None or row.unfused_seconds is None:
        return words
    return f"{words} ({format_seconds(row.fused_seconds)} instead of {format_seconds(row.unfused_seconds)})"


def _nothing(everything: Table, names: Sequence[str]) -> str:
    if everything.rows:
        return f"No matches among {format_count(len(everything.rows), 'pairs')}."
    return "No pairs have these names." if names else "All kernels read only parameters and constants."


def _reason_notes(dump: FusionDump | None, fused: int) -> Iterator[Diagnostic]:
    if dump is None:
        yield Diagnostic("note", f"to get XLA's reasons, compile with XLA_FLAGS='{FLAGS}'")
        yield Diagnostic(
            "note", "--chip NAME computes them for a GPU, --fusion-rules cpu shows those of the CPU compiler"
        )
        return
    if fused:
        yield Diagnostic("note", f"priority-fusion fused {format_count(fused, 'further pairs')}")
    yield from dump_notes(dump)


def dump_notes(dump: FusionDump) -> Iterator[Diagnostic]:
    """Notes on where the reasons are from, and what they mean."""
    yield Diagnostic("note", f"reasons and times are those that XLA wrote in {dump.path}")
    yield Diagnostic("note", ALL_CONSUMERS)
    if dump.process.is_truncated:
        yield Diagnostic("warning", f"{dump.path} is truncated; later decisions are missing")


def _next_of_pairs(argument: str, rows: Sequence[PairRow], *, has_reasons: bool) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    if has_reasons:
        return next_pair(argument, rows)
    return (f"hlo fuse {argument} --why-not --chip h100", f"hlo fuse {argument} --why-not --fusion-rules cpu")
