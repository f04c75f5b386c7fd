"""Caches of analysis results: of small ones per module, and of all within one report.

Entries per module are held weakly: a cached result is freed with its module, so it must not refer to the module
itself. Entries of a report may, as they are freed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from hlo_cli.ir.module import Module

Result = TypeVar("Result")
Given = ParamSpec("Given")

_RESULTS: Final[WeakKeyDictionary[Module, dict[Callable[[Module], object], object]]] = WeakKeyDictionary()


_KEPT: Final[ContextVar[dict[Hashable, tuple[object, ...]] | None]] = ContextVar("kept", default=None)


def cached_per_module(analysis: Callable[[Module], Result], module: Module) -> Result:
    """Returns `analysis(module)`; computes it on the first call only.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> def names(module): return [computation.name for computation in module.computations]
    >>> cached_per_module(names, module), cached_per_module(names, module) is cached_per_module(names, module)
    (['e'], True)
    """
    # By the function itself, so that two analyses cannot share an entry by a name.
    results = _RESULTS.setdefault(module, {})
    if analysis not in results:
        results[analysis] = analysis(module)
    return cast(Result, results[analysis])


@contextmanager
def sharing() -> Iterator[None]:
    """Within it, `computed_once` keeps every result, for a report of several analyses that need the same ones."""
    # The outer report keeps the results; an inner one would drop them at its end.
    if _KEPT.get() is not None:
        yield
        return
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def computed_once(analysis: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """Returns the result of an analysis; within `sharing`, the first result for the same arguments.

    Texts and numbers are the same if they are equal, other arguments only if they are identical.

    >>> def doubled(numbers): return [2 * number for number in numbers]
    >>> numbers = [1, 2]
    >>> computed_once(doubled, numbers) is computed_once(doubled, numbers)
    False
    >>> with sharing(): computed_once(doubled, numbers) is computed_once(doubled, numbers)
    True
    """
    kept = _KEPT.get()
    if kept is None:
        return analysis(*given, **named)
    key = _key(analysis, given, named)
    if key not in kept:
        kept[key] = (analysis(*given, **named), given, named)  # the arguments are kept, so that no other has their id
    return cast(Result, kept[key][0])


def known_result(analysis: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result | None:
    """Returns what `computed_once` has kept for these arguments; None without `sharing`, or if there is nothing.

    >>> known_result(sorted, "ba") is None
    True
    >>> with sharing(): computed_once(sorted, "ba"), known_result(sorted, "ba")
    (['a', 'b'], ['a', 'b'])
    """
    kept = (_KEPT.get() or {}).get(_key(analysis, given, named))
    return None if kept is None else cast(Result, kept[0])


def _key(analysis: object, given: tuple[object, ...], named: dict[str, object]) -> Hashable:
    return analysis, *map(_identity, given), *((name, _identity(value)) for name, value in sorted(named.items()))


def _identity(value: object) -> Hashable:
    # Modules and mappings are too large to hash. The tuple keeps an id apart from a number that is an argument.
    return value if isinstance(value, str | int | None) else (id(value),)
