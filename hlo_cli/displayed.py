"""Values that notebooks and rich show as reports instead of their `repr`, and whose tables are records.

Such values are made in every part of the package; what is shown of them is the concern of one part above all others,
`hlo_cli.notebook`. It is found by its name on use, so that no value depends on how it is shown, and costs nothing
where nothing is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Generic, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

if TYPE_CHECKING:
    Record: TypeAlias = dict[str, bool | int | float | str | None]

_T = TypeVar("_T")
_C = TypeVar("_C")
_HOME = "hlo_cli.notebook"


class _Bundles(Protocol):
    def bundle(self, value: object, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, str]:
        """The displays of a value by media type."""

    def renderable(self, value: object) -> object:
        """What rich prints."""


class _Records(Protocol):
    def records(self, value: object, table: str | None) -> list[Record]:
        """The rows of a table of a value."""


class _Errors(Protocol):
    def lines_of(self, error: BaseException) -> list[str]:
        """The lines of an error."""


class _Printer(Protocol):
    """The printer of IPython."""

    def text(self, text: str) -> None:
        """Prints a text."""


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


class Tabular(Displayed):
    """A displayed value with a table."""

    __slots__ = ()

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


class Results(tuple[_T, ...], Tabular, Generic[_T, _C]):
    """A tuple of results with the `context` that they were found in, so that they can be shown; slices have it too."""

    context: _C

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Prints the text in IPython, which otherwise prefers its own text of tuples to the bundle."""
        shown = self._repr_mimebundle_(include=("text/plain",))
        printer.text("(...)" if cycle else shown.get("text/plain", repr(tuple(self))))

    @classmethod
    def of(cls, items: Iterable[_T], context: _C) -> Self:
        """The results found in `context`."""
        made = cls(items)
        made.context = context
        return made

    @overload
    def __getitem__(self, index: SupportsIndex) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice) -> _T | Self:
        if isinstance(index, slice):
            return self.of(tuple(self)[index], self.context)
        return super().__getitem__(index)


def error_lines(error: BaseException) -> list[str]:
    """The lines that notebooks show of an HloError."""
    return cast(_Errors, _notebook()).lines_of(error)


def _notebook() -> object:
    from importlib import import_module

    return import_module(_HOME)
