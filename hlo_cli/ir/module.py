"""Modules: everything one dump says. Mirrors xla/hlo/ir/hlo_module.h."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.metadata import SourceLocation, StackFrames
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import Diagnostic, HloError, Source, nearest

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry of `input_output_alias`: this element of the result overwrites that element of a parameter."""

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a closer look at a module's text found: errors, and notes about what was kept as text."""

    errors: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()


@dataclass(eq=False, repr=False)
class Module:
    """A parsed module: header, computations, and what the reader had to say about the text.

    `header` keeps every header attribute as text in its order; those that analyses need have fields of their own.
    `stack_tables` is the text of the tables behind it. What costs time and is rarely asked for is read when it is.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> module.name, module.entry.name, module.instruction_count
    ('m', 'e', 1)
    """

    name: str
    computations: tuple[Computation, ...]
    entry: Computation
    source: Source
    header: tuple[Attribute, ...] = ()
    is_scheduled: bool = False
    input_output_alias: tuple[Alias, ...] = ()
    stack_tables: str = ""
    read_stack_tables: Callable[[str], StackFrames] | None = None
    read_errors: tuple[Diagnostic, ...] = ()
    check: Callable[[Module], Findings] | None = None

    @cached_property
    def stack_frames(self) -> StackFrames:
        """The tables behind the header, which say where in the user's program instructions come from."""
        return self.read_stack_tables(self.stack_tables) if self.read_stack_tables is not None else StackFrames()

    @cached_property
    def _findings(self) -> Findings:
        return self.check(self) if self.check is not None else Findings()

    @cached_property
    def errors(self) -> tuple[Diagnostic, ...]:
        """What could not be read, in the order of the text; attributes are looked through on first use."""
        found = dict.fromkeys((*self.read_errors, *self._findings.errors))
        return tuple(sorted(found, key=lambda d: d.span.start if d.span else 0))

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """What was kept as text because XLA's grammar as we know it does not have it, looked for on first use."""
        return self._findings.notes

    @property
    def instructions(self) -> Iterator[Instruction]:
        """The instructions of all computations, in the order of the text."""
        for computation in self.computations:
            yield from computation.instructions

    @property
    def instruction_count(self) -> int:
        """Number of instructions in all computations."""
        return sum(len(computation.instructions) for computation in self.computations)

    def computation(self, name: str) -> Computation:
        """The computation of this name, with or without a leading %; HloError if there is none."""
        return self._named(name, {c.name: c for c in self.computations}, "computation")

    def instruction(self, name: str) -> Instruction:
        """The instruction of this name, the entry's first if several computations have it; HloError if none has."""
        if (found := self.entry.instruction(name)) is not None:
            return found
        return self._named(name, {i.name: i for i in reversed(list(self.instructions))}, "instruction")

    def location(self, instruction: Instruction) -> SourceLocation | None:
        """The innermost place in the user's program that an instruction comes from, if the text says."""
        metadata = instruction.metadata
        if stack := self.stack_frames.stack(metadata.stack_frame_id):
            return stack[0]
        return SourceLocation(metadata.source_file, metadata.source_line) if metadata.source_file else None

    def to_string(self) -> str:
        """The module as canonical HLO text, which XLA reads as the same module."""
        from hlo_cli.ir.printer import print_module

        return print_module(self)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.computations)} computations>"

    def _named(self, name: str, named: dict[str, _T], what: str) -> _T:
        name = name.removeprefix("%")
        if name in named:
            return named[name]
        close = nearest(name, named)
        raise HloError(f"no {what} {name} in {self.name}", hint=f"did you mean {close}?" if close else None)
