"""What priority fusion decided on the pairs of a module, by the dump that it wrote, which has the names of its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from hlo_cli.commands.fuse_gpu.fusing_pass import fusing_pass
from hlo_cli.commands.fuse_gpu.fusion_dump import FusionDump
from hlo_cli.commands.fuse_gpu.pair_names import is_selected
from hlo_cli.commands.fuse_gpu.pairs_table import SLOWER, PairRow, sorted_rows
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.source import Diagnostic

_FUSED: Final = "priority-fusion fused the producer into"
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
    left = rows if is_after else [row for row in rows if not row.reason.startswith(_FUSED)]
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
        note = Diagnostic("note", words + (f"; {last} is now {kernel}" if kernel != last else ""))
        return _Place(kernel, (note,), then)
    if (fusion := fusion_with(name, loaded.module)) is not None:
        return _Place(fusion, (Diagnostic("note", f"{name} is part of {fusion}"),))
    if (found := fusing_pass(loaded, name)) is not None:
        words = f"{found.name} fused {name}" + (f" into {found.fusion}" if found.fusion else "")
        return _Place(found.fusion or name, (Diagnostic("note", words),))
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
        return replace(row, reason=f"{_FUSED} {into[0]}")
    if verdict is None:
        is_copy = opcodes.COPY in (pair.producer.opcode, pair.consumer.opcode)
        return replace(row, reason=COPIED if is_copy else NOT_SEEN)
    return replace(
        row,
        reason=verdict.reason or SLOWER,
        fused_seconds=verdict.fused_seconds,
        unfused_seconds=verdict.unfused_seconds,
    )
