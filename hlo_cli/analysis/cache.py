"""Cache of analysis results per module.

Entries are held weakly by module: a cached result is freed with its module, so it must not refer to the module
itself.
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
    """Returns `analysis(module)`; computes it on the first call only.

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
