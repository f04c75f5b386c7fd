"""Progress of a run on a terminal: what is expected, said before it starts, and the executed instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from hlo_cli.render.progress import counted

if TYPE_CHECKING:
    from hlo_cli.ir.module import Module

_OPERATIONS_PER_SECOND: Final = 1e8
"""Programs of the corpus run at 0.4 to 6 times this rate."""


def shown_progress(
    modules: Sequence[Module], *, runs: int = 1, quiet: bool = False
) -> AbstractContextManager[Callable[[int], None] | None]:
    """The function that shows progress while the modules run, each of them `runs` times; None without a terminal."""
    return counted("executed instructions", expect=lambda: expectation(modules, runs), quiet=quiet)


def expectation(modules: Sequence[Module], runs: int = 1) -> str:
    """What the runs take, in one sentence if that is more than a second, else nothing.

    >>> from hlo_cli import parse_module
    >>> expectation([parse_module("r = f32[20000,20000] negate(f32[20000,20000] a)")], 2)
    'Evaluating 8.0e+08 scalar operations, in about 8 s'
    >>> expectation([parse_module("r = f32[8] negate(f32[8] a)")])
    ''
    """
    from hlo_cli.analysis.evaluate.limits import estimate

    found = [estimate(module) for module in modules if not module.errors]
    operations = runs * sum(each.operations for each in found)
    seconds = operations / _OPERATIONS_PER_SECOND
    if seconds <= 1:
        return ""
    least = "at least " if any(each.is_bound for each in found) else "about "
    return f"Evaluating {operations:.1e} scalar operations, in {least}{seconds:,.0f} s"
