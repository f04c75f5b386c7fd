"""`hlo fuse DUMP --why-not` of a GPU module: XLA's own reasons, from what its priority fusion wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.fusion.graph import fusible_computations
from hlo_cli.analysis.fusion.kernel_pairs import KernelPair, kernel_pairs
from hlo_cli.analysis.fusion.priority_fusion import FusionOutcome, FusionVerdict, fusion_outcome, names_in_the_pass
from hlo_cli.commands.fuse.fusing_pass import fusing_pass
from hlo_cli.commands.fuse.fusion_dump import FLAGS, FusionDump
from hlo_cli.commands.fuse.why_not import is_selected, no_pair
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

_SLOWER: Final = "XLA estimates that fusing takes longer"
_FUSED: Final = "priority-fusion fused the producer into"
_UNKNOWN: Final = "unknown"
_NOT_SEEN: Final = "no decision found in the priority fusion dump"
_COPY: Final = "no decision found; the copy was inserted after fusion"
_USUAL_BANDWIDTH: Final = 1e12
"""Bytes per second; compares bytes with XLA's times if the dump has no bandwidth. Only the order of rows needs it."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """A pair, the name of its producer in the pass, and what XLA decided, both None if the dump does not have it."""

    pair: KernelPair
    name: str | None
    verdict: FusionVerdict | None
    reason: str


def report_of_gpu_why_not(
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
    pairs = kernel_pairs(loaded.module)
    fates = None if dump is None else _Fates(fusion_outcome(dump.process), pairs, dump.after)
    places = [_place(name, fates, loaded) for name in names]
    chosen = tuple(place.kernel for place in places)
    decisions = [
        _decision(pair, fates)
        for pair in pairs
        if (within is None or pair.consumer.computation is within)
        and is_selected(chosen, pair.producer.name, pair.consumer.name)
    ]
    bandwidth = (dump.process.memory_bandwidth if dump is not None else 0) or _USUAL_BANDWIDTH
    decisions.sort(key=lambda each: (-_stake(each, bandwidth), each.pair.producer.name, each.pair.consumer.name))
    has_times = any(each.verdict is not None and each.verdict.fused_seconds is not None for each in decisions)
    columns = _columns(has_times=has_times, has_reasons=dump is not None)
    everything = Table("pairs", columns, tuple(map(_row, decisions)), noun="pairs")
    table = everything if where is None else rows_where(where, everything)
    parts: list[Part] = [table] if table.rows else [Passage("nothing", (_nothing(everything, chosen),)), table]
    return Report(
        "fuse",
        _answer(decisions, chosen, has_reasons=dump is not None),
        numbers={
            "pairs": len(decisions),
            "decided_by": "priority-fusion" if dump is not None else _UNKNOWN,
            "decided_pairs": sum(each.verdict is not None for each in decisions),
        },
        parts=(*(_reasons(decisions) if dump is not None and len(decisions) > 1 else ()), *parts),
        next=_next(argument, has_reasons=dump is not None),
        notes=(*(note for place in places for note in place.notes), *_notes(dump), *notes_of(loaded)),
        input=input_facts(loaded),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The kernel that a name stands for, and what became of an instruction that is not a kernel any more."""

    kernel: str
    notes: tuple[Diagnostic, ...] = ()


class _Fates:
    """What the pass decided, and the names that kernels had in it."""

    def __init__(self, outcome: FusionOutcome, pairs: Sequence[KernelPair], after: Module | None) -> None:
        self.outcome = outcome
        kernels = dict.fromkeys(kernel for pair in pairs for kernel in (pair.producer, pair.consumer))
        self.names = names_in_the_pass(outcome, kernels, after)
        self.kernels = {name: kernel.name for kernel, name in self.names.items()}

    def name_then(self, name: str) -> str | None:
        """The name in the pass, before which XLA adds `.0` to names; None if the pass did not see the instruction."""
        seen = self.outcome.fused_into, self.outcome.verdicts
        return next((each for each in (name, f"{name}.0") if any(each in names for names in seen)), None)

    def last_name(self, name: str) -> str:
        """The fusion of which an instruction became a part, or its own name."""
        seen = {name}
        while (into := self.outcome.fused_into.get(name)) and into[0] not in seen:
            name = into[0]
            seen.add(name)
        return name


def _place(name: str, fates: _Fates | None, loaded: Loaded) -> _Place:
    """The kernel of a name in the module or, if it has none, in an earlier stage; HloError for an unknown name."""
    if any(computation.instruction(name) is not None for computation in fusible_computations(loaded.module)):
        return _Place(name)
    if fates is not None and (then := fates.name_then(name)) is not None:
        last = fates.last_name(then)
        kernel = fates.kernels.get(last, last)
        others = len(fates.outcome.fused_into.get(then, ())) - 1
        more = f" and {format_count(others, 'more fusions')}" if others > 0 else ""
        words = f"priority-fusion fused {name} into {last}{more}" if last != then else f"priority-fusion kept {name}"
        return _Place(kernel, (Diagnostic("note", words + (f"; {last} is now {kernel}" if kernel != last else "")),))
    if (fusion := _fusion_with(name, loaded.module)) is not None:
        return _Place(fusion, (Diagnostic("note", f"{name} is part of {fusion}"),))
    if (found := fusing_pass(loaded, name)) is not None:
        words = f"{found.name} fused {name}" + (f" into {found.fusion}" if found.fusion else "")
        return _Place(found.fusion or name, (Diagnostic("note", words),))
    loaded.module.instruction(name)
    return _Place(name)


def _fusion_with(name: str, module: Module) -> str | None:
    """The fusion whose body has an instruction of this name, or None."""
    bodies = {called: each.name for each in module.instructions for called in each.called_computations}
    homes = (body for body in module.computations if body.instruction(name) is not None)
    return next((bodies[body] for body in homes if body in bodies), None)


def _reasons(decisions: Sequence[_Decision]) -> tuple[Table, ...]:
    """Each reason in full, with its number of pairs and the largest saving."""
    groups: dict[str, list[int]] = {}
    for each in decisions:
        groups.setdefault(each.reason, []).append(each.pair.saved_bytes)
    columns = (
        Column("pairs", "pairs", "count"),
        Column("largest_saving_bytes", "largest", "bytes"),
        Column("reason", "XLA's reason"),
    )
    ordered = sorted(groups.items(), key=lambda group: (-max(group[1]), group[0]))
    rows = tuple((len(sizes), max(sizes), reason) for reason, sizes in ordered)
    return (Table("reasons", columns, rows, noun="reasons", main=False, limit=0),)


def _decision(pair: KernelPair, fates: _Fates | None) -> _Decision:
    if fates is None:
        return _Decision(pair, None, None, _UNKNOWN)
    name = fates.names.get(pair.producer)
    verdict = fates.outcome.verdicts.get(name) if name is not None else None
    if verdict is None and name is not None and (into := fates.outcome.fused_into.get(name)):
        return _Decision(pair, name, None, f"{_FUSED} {into[0]}")
    if verdict is None:
        is_copy = opcodes.COPY in (pair.producer.opcode, pair.consumer.opcode)
        return _Decision(pair, name, None, _COPY if is_copy else _NOT_SEEN)
    return _Decision(pair, name, verdict, verdict.reason or _SLOWER)


def _stake(decision: _Decision, bandwidth: float) -> float:
    """The seconds that one kernel would save: by XLA's estimate, else those that the memory traffic takes."""
    saved = decision.verdict.saved_seconds if decision.verdict is not None else None
    return decision.pair.saved_bytes / bandwidth if saved is None else saved


def _columns(*, has_times: bool, has_reasons: bool) -> tuple[Column, ...]:
    return (
        Column("possible_saving_bytes", "saving", "bytes", role="saving"),
        Column("unfused_seconds", "separate", "seconds", person=has_times),
        Column("fused_seconds", "fused", "seconds", like="unfused_seconds", person=has_times),
        Column("producer", "producer", "name", role="name"),
        Column("consumer", "consumer", "name", role="name"),
        Column("reason", "XLA's reason", person=has_reasons),
        Column("name_in_pass", "in the pass", "name", from_width=120, person=has_reasons),
        Column("computation", "computation", "name", from_width=120),
    )


def _row(decision: _Decision) -> Row:
    pair, verdict = decision.pair, decision.verdict
    return (
        pair.saved_bytes,
        verdict.unfused_seconds if verdict is not None else None,
        verdict.fused_seconds if verdict is not None else None,
        pair.producer.name,
        pair.consumer.name,
        UNKNOWN if decision.reason == _UNKNOWN else decision.reason,
        decision.name,
        pair.consumer.computation.name,
    )


def _answer(decisions: Sequence[_Decision], names: Sequence[str], *, has_reasons: bool) -> str:
    if not decisions:
        if len(names) > 1 and len(set(names)) == 1:
            return f"Both are in one kernel, {names[0]}"
        return no_pair(names) if names else "No kernel reads the result of another kernel"
    verb = "is" if len(decisions) == 1 else "are"
    words = f"{format_count(len(decisions), 'producer–consumer pairs')} {verb} not fused"
    if not has_reasons:
        return f"{words}; XLA's reasons are not in the dump"
    if len(decisions) == 1:
        return _one(decisions[0])
    (reason, number), *_ = Counter(each.reason for each in decisions).most_common(1)
    words += f". Most common reason: {reason} ({number:,})"
    largest = max(each.pair.saved_bytes for each in decisions)
    return words + (f". Largest possible saving: {format_bytes(largest)}" if largest > 0 else "")


def _one(decision: _Decision) -> str:
    """The answer about a single pair."""
    words = f"{decision.pair.producer.name} is not fused into {decision.pair.consumer.name}: {decision.reason}"
    verdict = decision.verdict
    if verdict is None or verdict.fused_seconds is None or verdict.unfused_seconds is None:
        return words
    return f"{words} ({format_seconds(verdict.fused_seconds)} instead of {format_seconds(verdict.unfused_seconds)})"


def _nothing(everything: Table, names: Sequence[str]) -> str:
    if everything.rows:
        return f"No matches among {format_count(len(everything.rows), 'pairs')}."
    return "No pairs have these names." if names else "All kernels read only parameters and constants."


def _notes(dump: FusionDump | None) -> Iterator[Diagnostic]:
    if dump is None:
        yield Diagnostic("note", f"to get XLA's reasons, compile with XLA_FLAGS='{FLAGS}'")
        yield Diagnostic(
            "note", "--chip NAME computes them for a GPU, --fusion-rules cpu shows those of the CPU compiler"
        )
        return
    yield Diagnostic("note", f"reasons and times are those that XLA wrote in {dump.path}")
    yield Diagnostic(
        "note",
        "XLA fuses a producer into all of its consumers or into none: a reason can be that of another consumer, and "
        "times include all of them",
    )
    if dump.process.is_truncated:
        yield Diagnostic("warning", f"{dump.path} is truncated; later decisions are missing")


def _next(argument: str, *, has_reasons: bool) -> tuple[str, ...]:
    if has_reasons or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} --why-not --fusion-rules cpu",)
