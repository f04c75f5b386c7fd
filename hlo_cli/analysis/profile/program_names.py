"""The names of programs in a profile, and the program that ran a module."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.profile.profile import MeasuredProgram, Profile
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

MIN_SHARE: Final = 0.9
"""The smallest part of the operations that ran which the module of the same compilation has."""
_NAMED: Final = 3


def module_name(program: str) -> str:
    """The name of a module in that of a program, which may end in its id.

    >>> module_name("jit_step(2041036616644817336)")
    'jit_step'
    """
    return program.partition("(")[0]


def with_distinct_names(programs: Iterable[MeasuredProgram]) -> Mapping[MeasuredProgram, MeasuredProgram]:
    """Each program with its id in its name if another one has the same name.

    >>> first, second, third = (MeasuredProgram(id, name, None) for id, name in ((8, "f"), (9, "f"), (10, "g")))
    >>> [each.name for each in with_distinct_names([first, second, third]).values()]
    ['f(8)', 'f(9)', 'g']
    """
    distinct = list(dict.fromkeys(programs))
    names = [each.name for each in distinct]
    return {
        each: replace(each, name=f"{each.name}({each.id})")
        if each.id is not None and names.count(each.name) > 1
        else each
        for each in distinct
    }


def program_of(
    profile: Profile, module: Module, *, proto: bytes | None = None, id: int | None = None
) -> MeasuredProgram | None:
    """The program of a profile that ran a module, None if none has its name; HloError if several fit equally.

    Of several programs with that name, it is the one whose `proto` in the trace is that of the module, else the one
    with the most equal instructions; `id` decides between equal programs.
    """
    named = [each for each in profile.programs if module_name(each.name) == module.name]
    if len(named) > 1 and proto is not None:
        ids = {each.id for trace in profile.traces for each in trace.programs() if each.proto == proto}
        named = [each for each in named if each.id in ids] or named
    if len(named) > 1:
        named = _fitting(profile, module, named)
    if len(named) > 1:
        named = [each for each in named if each.id == id] or named
    if len(named) > 1:
        shown = ", ".join(each.name for each in named[:_NAMED])
        hint = "pass the module of the trace itself, such as TRACE#1"
        raise HloError(f"module {module.name} could be any of {len(named):,} programs: {shown}", hint=hint)
    return named[0] if named else None


def _fitting(profile: Profile, module: Module, programs: Sequence[MeasuredProgram]) -> list[MeasuredProgram]:
    """The programs that have most in common with a module."""
    names = {each.name for each in module.instructions}
    own = _instructions(module)
    ran: dict[MeasuredProgram, list[str]] = {each: [] for each in programs}
    for operation in profile.operations:
        if operation.program in ran:
            ran[operation.program].append(operation.name)
    fits = [(_part(ran[each], names), _common(own, each.module)) for each in programs]
    return [each for each, fit in zip(programs, fits, strict=True) if fit == max(fits)]


def _part(ran: Sequence[str], names: Collection[str]) -> float:
    return sum(name in names for name in ran) / len(ran) if ran else 0.0


def _common(own: Collection[tuple[str, str, str]], other: Module | None) -> float:
    """The part of the instructions of two modules that are in both; 0 if a module is missing."""
    found = set() if other is None else _instructions(other)
    return len(found.intersection(own)) / max(len(found.union(own)), 1)


def _instructions(module: Module) -> set[tuple[str, str, str]]:
    return {(each.name, each.opcode, each.shape.to_string(layout=False)) for each in module.instructions}
