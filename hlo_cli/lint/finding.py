"""Findings: what a rule has to say about one place of a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import Span

Place: TypeAlias = Instruction | Computation | None
"""What a finding is about; None is the module."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do about it.

    `span` is the part of the text that is meant, where that is not the whole instruction. `subject` is what stays the
    same when names change, for findings about the module: an index, a channel.

    >>> Finding("97% of fusion.2 is padding", hint="order {1,0} takes 352 KiB").message
    '97% of fusion.2 is padding'
    """

    message: str
    at: Place = None
    span: Span | None = None
    hint: str | None = None
    subject: str = ""

    @property
    def place(self) -> Span | None:
        """Where it stands in the text, None where the module was not read from text."""
        if self.span is not None or self.at is None:
            return self.span
        return self.at.span if isinstance(self.at, Instruction) else _head_of(self.at)


def _head_of(computation: Computation) -> Span | None:
    """The name of a computation alone: the whole of it is too much to underline."""
    span = computation.span
    return None if span is None else Span(span.start, span.start + len(computation.name))
