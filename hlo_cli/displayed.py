"""Values that notebooks and rich show as reports instead of their `repr`, and their tables as records; tuples of them.

Such values are made in every part of the package; what is shown of them is the concern of one part above all others,
`hlo_cli.notebook`. It is found by its name on use, so that no value depends on how it is shown, and costs nothing
where nothing is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Generic, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

from hlo_cli.dataclass import brief, listing
from hlo_cli.source import missing

if TYPE_CHECKING:
    Record: TypeAlias = dict[str, bool | int | float | str | None]

_T = TypeVar("_T")
_C = TypeVar("_C")
_D = TypeVar("_D")
_HOME = "hlo_cli.notebook"
_LIBRARY_HOME = "hlo_cli.library"


class _Bundles(Protocol):
    def bundle(self, value: object, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, str]:
        """The displays of a value by media type."""

    def renderable(self, value: object) -> object:
        """What rich prints."""

    def write_page(self, value: object, path: str) -> None:
        """Writes the page of a value."""


class _Records(Protocol):
    def records(self, value: object, table: str | None) -> list[Record]:
        """The rows of a table of a value."""


class _Library(Protocol):
    """What values are asked by method, or made of texts, by parts above all others."""

    def where(self, module: object, expression: str) -> Sequence[object]:
        """The instructions that match."""

    def to_networkx(self, module: object, computation: object) -> object:
        """The dataflow as a graph."""

    def parse_shape(self, text: str) -> object:
        """The shape in a text."""

    def sharding_of(self, text: str, *, rank: int | None = None) -> object:
        """The sharding in a text."""


class _Printer(Protocol):
    """The printer of IPython."""

    def text(self, text: str) -> None:
        """Prints a text."""


def no_attribute(value: object, name: str, answers: Mapping[str, str]) -> AttributeError:
    """The error of an attribute that a value does not have; of one that an analysis answers, with how to ask it.

    >>> str(no_attribute(1.5, "flops", {"flops": "hlo_cli.cost_analysis(module)"}))
    "'float' object has no attribute 'flops'; use hlo_cli.cost_analysis(module)"
    """
    message = f"{type(value).__name__!r} object has no attribute {name!r}"
    answer = answers.get(name)
    return AttributeError(message if answer is None else f"{message}; use {answer}", name=name, obj=value)


def no_attribute_of_all(values: object, name: str, first: object, place: str) -> AttributeError:
    """The error of an attribute of a collection; of one that its items have, with how to ask one of them.

    >>> str(no_attribute_of_all((1.5, 2.5), "real", 1.5, "[0]"))
    "'tuple' object has no attribute 'real'; each item has: use x[0].real"
    """
    has_it = not name.startswith("_") and name in dir(first)  # asking for it could start an analysis
    error = no_attribute(values, name, {})
    return AttributeError(f"{error}; each item has: use x{place}.{name}", name=name, obj=values) if has_it else error


class Displayed:
    """A value that notebooks and rich show as a report."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        return cast(_Bundles, _notebook()).bundle(self, include, exclude)

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_(include=("text/html",)).get("text/html", "")

    def __rich__(self) -> object:
        return cast(_Bundles, _notebook()).renderable(self)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Writes what notebooks show of it as a page of its own, with all rows; of a module, as `hlo report` does.

        The page needs no network and no other file. HloError if the file cannot be written.
        """
        cast(_Bundles, _notebook()).write_page(self, str(path))


class Tabular(Displayed):
    """A displayed value with a table, which `print` shows unless the value has a text of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return self._repr_mimebundle_(include=("text/plain",)).get("text/plain", repr(self))

    def to_records(self, table: str | None = None) -> list[Record]:
        """The rows of its main table, or of another one, as dicts; their keys are the columns of the JSON output.

        Cells are bool, int, float, or str, and None if a number is unknown or does not apply, so that
        `pandas.DataFrame(value.to_records())` has the right types. HloError if there is no table of that name; it
        lists the names.

        >>> from hlo_cli import kernels_of, parse_module
        >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
        >>> [(record["instruction"], record["bytes"]) for record in kernels_of(parse_module(text)).to_records()]
        [('n', 16)]
        """
        return cast(_Records, _notebook()).records(self, table)


# --- tuples and mappings of values ---
# They are what Python's own are, but for their `repr`, which is brief, and for names, which select their items.


class Items(tuple[_T, ...]):
    """A tuple whose `repr` counts what does not fit.

    >>> Items(name * 90 for name in "abcde") == tuple(name * 90 for name in "abcde"), Items("abc")
    (True, ('a', 'b', 'c'))
    >>> repr(Items(name * 90 for name in "abcde"))[-20:]
    "bbbbbbb', … 5 items)"
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise no_attribute_of_all(self, name, next(iter(self), None), "[0]")

    def __repr__(self) -> str:
        return brief(tuple(self))


class WithItems:
    """A dataclass whose tuples are `Items`, and whose dicts of instructions are `ByInstruction`.

    >>> from hlo_cli import analyze_overlap, parse_module
    >>> overlap = analyze_overlap(parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }"))
    >>> overlap.positions["p"], type(overlap.sequence).__name__
    (0, 'Items')
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(self, name)
            if type(value) is tuple:
                object.__setattr__(self, name, Items(value))
            elif type(value) is dict and not isinstance(next(iter(value), ""), str):
                object.__setattr__(self, name, ByInstruction(value))


class NamedItems(Items[_T]):
    """Items about instructions, which their names select too; KeyError, with the nearest name, if there is none.

    >>> from hlo_cli import matmuls_of, parse_module
    >>> dot = "dot(f32[2,3] a, f32[3] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> matmuls = matmuls_of(parse_module(f"r = f32[2] {dot}"))
    >>> matmuls["r"] is matmuls[0], "r" in matmuls, "a" in matmuls
    (True, True, False)
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex | str) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[_T, ...]: ...

    def __getitem__(self, index: SupportsIndex | slice | str) -> _T | tuple[_T, ...]:
        if isinstance(index, str):
            return _named(self, index, "result for the instruction")
        return super().__getitem__(index)

    def __contains__(self, item: object) -> bool:
        return _has_name(self, item) if isinstance(item, str) else super().__contains__(item)


class Results(NamedItems[_T], Tabular, Generic[_T, _C]):
    """A tuple of results with the `context` that they were found in, so that they can be shown; slices have it too."""

    context: _C

    def __repr__(self) -> str:
        return listing(f"{type(self).__name__}(", ")", (("", item) for item in self), len(self))

    def __str__(self) -> str:
        return repr(self)  # as of any tuple

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Prints the text in IPython, which otherwise prefers its own text of tuples to the bundle."""
        shown = self._repr_mimebundle_(include=("text/plain",))
        printer.text("(...)" if cycle else shown.get("text/plain", repr(self)))

    @classmethod
    def of(cls, items: Iterable[_T], context: _C) -> Self:
        """The results found in `context`."""
        made = cls(items)
        made.context = context
        return made

    @overload
    def __getitem__(self, index: SupportsIndex | str) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice | str) -> _T | Self:
        if isinstance(index, slice):
            return self.of(tuple(self)[index], self.context)
        return super().__getitem__(index)


class ByInstruction(dict[_T, _D]):
    """A dict of instructions that also takes their names; KeyError, with the nearest name, if there is none.

    >>> from hlo_cli import cost_analysis, parse_module
    >>> costs = cost_analysis(parse_module("r = f32[4] add(f32[4] a, f32[4] b)"))
    >>> costs["r"].flops, "r" in costs, "s" in costs
    (4, True, False)
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getitem__(self, key: _T | str) -> _D: ...

    else:

        def __getattr__(self, name):
            item = next(iter(self.items()), (None, None))
            raise no_attribute_of_all(self, name, item[1], f"[{_name_of(item[0])!r}]")

    def __missing__(self, name: object) -> _D:
        if not isinstance(name, str):
            raise KeyError(name)
        return self[_named(self, name, "instruction")]

    def __contains__(self, name: object) -> bool:
        return (
            super().__contains__(name) if not isinstance(name, str) else name.removeprefix("%") in map(_name_of, self)
        )

    def __repr__(self) -> str:
        return brief(dict(self))


def _named(items: Iterable[_T], name: str, noun: str) -> _T:
    listed = list(items)
    named = [item for item in listed if _name_of(item) == name.removeprefix("%")]
    if not named:
        raise missing(noun, name, filter(None, map(_name_of, listed)))
    return next(filter(_is_of_entry, named), named[0])  # as Module.instruction: computations may share names


def _has_name(items: Iterable[object], name: str) -> bool:
    return name.removeprefix("%") in map(_name_of, items)


def _name_of(item: object) -> str | None:
    """The name of an item, or that of the instruction that it is about; None if it has none."""
    own_name = getattr(getattr(item, "instruction", item), "name", None)
    return own_name if isinstance(own_name, str) else None


def _is_of_entry(item: object) -> bool:
    computation = getattr(getattr(item, "instruction", item), "computation", None)
    return bool(getattr(computation, "is_entry", False))


def library() -> _Library:
    """What answers the questions that values are asked by method, and reads the texts given in place of values."""
    return cast(_Library, _part(_LIBRARY_HOME))


def _notebook() -> object:
    return _part(_HOME)


def _part(name: str) -> object:
    from importlib import import_module

    return import_module(name)
