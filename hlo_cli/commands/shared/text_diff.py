"""The line diff of two modules as text: the effect of a transformation on a dump."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.module import Module
from hlo_cli.report.diff import Diff, line_diff

_INSTRUCTION: Final = re.compile(r" +(?:ROOT )?%?([^\s=]+) = ")
_COMPUTATION: Final = re.compile(r"(?:ENTRY )?%?([^\s(]+) (?:\(.*)?\{$")


def module_diff(old: Module, new: Module, *, old_name: str, new_name: str) -> Diff:
    """The diff of the canonical texts of two modules; instructions and computations are matched by name.

    >>> from hlo_cli import parse_module
    >>> old, new = (parse_module(f"HloModule m  ENTRY e {{ ROOT p = f32[{n}] parameter(0) }}") for n in (8, 9))
    >>> for hunk in module_diff(old, new, old_name="a", new_name="b").hunks:
    ...     for line in hunk.lines: print(line.sign, line.text)
      HloModule m
    <BLANKLINE>
    ~ ENTRY %e (p: f32[9]) -> f32[9] {
    ~   ROOT %p = f32[9]{0} parameter(0)
      }
    <BLANKLINE>
    """
    return line_diff(
        "changed_lines", _lines(old), _lines(new), key=_name, heading=_computation, old_name=old_name, new_name=new_name
    )


def _lines(module: Module) -> list[str]:
    return "".join(module.chunks()).removesuffix("\n").split("\n")


def _name(line: str) -> str | None:
    """The name that a line defines: of an instruction or, with a mark, of a computation."""
    found = _INSTRUCTION.match(line)
    if found is not None:
        return found[1]
    name = _computation(line)
    return None if name is None else f"{name} {{"


def _computation(line: str) -> str | None:
    found = _COMPUTATION.match(line)
    return None if found is None else found[1]
