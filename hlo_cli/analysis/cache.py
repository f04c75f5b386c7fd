"""What an analysis says of a module, found once: several others begin with it.

Results live as long as the module they are of, and outside of it; they must not hold it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from hlo_cli.ir.module import Module

Result = TypeVar("Result")

_RESULTS: Final[WeakKeyDictionary[Module, dict[Callable[[Module], object], object]]] = WeakKeyDictionary()


def cached_per_module(analysis: Callable[[Module], Result], module: Module) -> Result:
    """What an analysis says of a module, which is asked the first time alone.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> def names(module): return [computation.name for computation in module.computations]
    >>> cached_per_module(names, module), cached_per_module(names, module) is cached_per_module(names, module)
    (['e'], True)
    """
    results = _RESULTS.setdefault(module, {})
    if analysis not in results:
        results[analysis] = analysis(module)
    return cast(Result, results[analysis])
