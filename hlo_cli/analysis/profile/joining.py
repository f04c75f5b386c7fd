"""The instruction of a timed operation: its name in the module of its program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hlo_cli.analysis.profile.occurrences import Occurrences, OperationKey
from hlo_cli.analysis.profile.profile import MeasuredProgram
from hlo_cli.analysis.profile.program_names import MIN_SHARE, module_name, with_distinct_names
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import TracedProgram
from hlo_cli.lazy_regex import lazy_regex

Pair: TypeAlias = tuple[int | None, str]
"""Id and name of a program."""
NO_PROGRAM: Final[Pair] = (None, "")
_IN_KERNELS: Final = lazy_regex(r"[.\-]")
_DUPLICATES: Final = " and its duplicate(s)"


@dataclass(frozen=True, slots=True)
class GivenModule:
    """A module of a dump, with the id of its program if its file name has it."""

    id: int | None
    module: Module


@dataclass(frozen=True, slots=True)
class Programs:
    """The program of each pair of id and name, and what is to be said of modules that were refused."""

    by_pair: Mapping[Pair, MeasuredProgram]
    notes: tuple[str, ...] = ()

    def of(self, key: OperationKey) -> MeasuredProgram | None:
        """The program that a key names."""
        return self.by_pair.get((key.program, key.module))


def programs_of(
    keys: Iterable[OperationKey],
    traced: Sequence[TracedProgram],
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule] = (),
) -> Programs:
    """The programs that keys name: in the trace, else in a dump that has nine of ten of their operations.

    Of a program that several keys name in different ways, there is one. Those that no key names are not read. Programs
    of one name have their ids in their names, such as `jit_f(8)`.
    """
    found: dict[Pair, MeasuredProgram] = {}
    read: dict[TracedProgram, MeasuredProgram] = {}
    names, notes = InstructionNames(), []
    traced_by_id, traced_by_name = _indexed(traced)
    given_by_name: dict[str, list[GivenModule]] = {}
    for each in given:
        given_by_name.setdefault(each.module.name, []).append(each)
    ops: dict[Pair, set[str]] = {}
    for key in keys:
        if (key.program, key.module) != NO_PROGRAM:
            ops.setdefault((key.program, key.module), set()).update((key.op,) if key.op else ())
    unnamed = _unnamed(ops)
    for pair, named in unnamed.items():
        ops[named] |= ops.pop(pair)
    for (id, name), own in ops.items():
        of_name = traced_by_name.get(name, ())
        program = _traced(id, of_name, traced_by_id)
        module = None if program is None else read_module(program)
        if program is not None and module is not None:
            found[id, name] = read.setdefault(program, MeasuredProgram(program.id, name or module.name, module))
            continue
        if program is not None:
            notes.append(f"the module of {program.name} in the trace cannot be read; give a dump of it")
        chosen, share = _given(id, own, given_by_name.get(name, ()) if name else given, names)
        if chosen is not None and share < MIN_SHARE:
            notes.append(
                f"{chosen.name} of the dump has only {round(100 * share)}% of the operations that ran; not used"
            )
            chosen = None
        found[id, name] = MeasuredProgram(id, name, chosen)
    found |= {pair: found[named] for pair, named in unnamed.items()}
    labeled = with_distinct_names(found.values())
    return Programs({pair: labeled[program] for pair, program in found.items()}, tuple(notes))


def _unnamed(pairs: Collection[Pair]) -> Mapping[Pair, Pair]:
    """The pairs without a name whose id only one named pair has, with that."""
    of_id: dict[int, list[Pair]] = {}
    for id, name in pairs:
        if id is not None and name:
            of_id.setdefault(id, []).append((id, name))
    return {(id, ""): named[0] for id, named in of_id.items() if len(named) == 1 and (id, "") in pairs}


def _indexed(
    traced: Iterable[TracedProgram],
) -> tuple[Mapping[int, TracedProgram], Mapping[str, Sequence[TracedProgram]]]:
    """The first program of each id, and the programs of each name."""
    by_id: dict[int, TracedProgram] = {}
    by_name: dict[str, list[TracedProgram]] = {}
    for each in traced:
        by_id.setdefault(each.id, each)
        by_name.setdefault(module_name(each.name), []).append(each)
    return by_id, by_name


def _traced(id: int | None, named: Sequence[TracedProgram], by_id: Mapping[int, TracedProgram]) -> TracedProgram | None:
    """The program in the trace with an id, or the only one of a name if it has no id."""
    if id is None:
        return named[0] if len(named) == 1 else None
    return next((each for each in named if each.id == id), by_id.get(id))


def _given(
    id: int | None, ops: Collection[str], named: Sequence[GivenModule], names: InstructionNames
) -> tuple[Module | None, float]:
    """The module of a dump for a program, and the part of the operations that it has.

    It is that with its id, else that of its name with the most operations: on TPUs dumps have other ids.
    """
    same = [each for each in named if each.id is not None and each.id == id] or named
    best: tuple[Module | None, float] = (None, 0.0)
    for each in same:
        share = sum(names.find(each.module, op) is not None for op in ops) / len(ops) if ops else 1.0
        if best[0] is None or share > best[1]:
            best = each.module, share
    return best


def join_kernels(
    rows: Occurrences,
    traced: Sequence[TracedProgram],
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule],
) -> Occurrences:
    """Rows whose kernels name their instruction, if the trace has no annotations: the last resort.

    The kernels that XLA makes have the name of their fusion, with `_` for `.` and `-`. Kernels of libraries stay alone.
    """
    if any(key.op for key in rows.keys):
        return rows
    read = [(each.id, read_module(each)) for each in traced]
    in_trace: list[tuple[int | None, Module]] = [(id, module) for id, module in read if module is not None]
    modules = in_trace or [(each.id, each.module) for each in given]
    found: dict[str, list[tuple[int | None, str, str]]] = {}
    for id, module in modules:
        for instruction in module.instructions:
            kernel = _IN_KERNELS.sub("_", instruction.name)
            found.setdefault(kernel, []).append((id, module.name, instruction.name))
    keys = []
    for key in rows.keys:
        of_key = found.get(kernel_name(key.kernel), ())
        named = [each for each in of_key if key.program in (None, each[0]) and key.module in ("", each[1])]
        keys.append(OperationKey(*named[0], key.kernel) if len(named) == 1 else key)
    return replace(rows, keys=keys)


def kernel_name(kernel: str) -> str:
    """The name of a kernel without what compilers and profilers add.

    >>> kernel_name("loop_add_fusion_3.kd"), kernel_name("gemm(float*, int) [clone .kd]")
    ('loop_add_fusion_3', 'gemm')
    """
    return kernel.partition(" [clone")[0].partition("(")[0].removesuffix(".kd").strip()


class InstructionNames:
    """The instructions of programs by the names that traces use."""

    def __init__(self) -> None:
        self._by_name: dict[Module, Mapping[str, Instruction]] = {}

    def find(self, module: Module, name: str) -> Instruction | None:
        """The instruction that a trace means by a name; None if the module has none of it.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
        >>> InstructionNames().find(module, "%p and its duplicate(s)"), InstructionNames().find(module, "q")
        (<parameter p>, None)
        """
        if module not in self._by_name:
            self._by_name[module] = {instruction.name: instruction for instruction in module.instructions}
        return self._by_name[module].get(name.removesuffix(_DUPLICATES).removeprefix("%"))
