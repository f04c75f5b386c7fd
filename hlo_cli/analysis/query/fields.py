"""Fields that conditions and computed numbers can use: their kinds, and functions that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import Call, Comparison, Field, Where
from hlo_cli.source import did_you_mean, nearest

T = TypeVar("T")
MEASURED: Final = frozenset(
    ("time", "self_time", "mean_time", "calls", "achieved_bandwidth", "achieved_flops", "roofline_fraction")
)
"""Fields of measured operations, which only `hlo profile` has."""
Kind = Literal["text", "name", "names", "shape", "count", "bytes", "share", "seconds", "flag", "attribute"]
FieldValue: TypeAlias = "str | int | float | bool | tuple[str, ...] | AtLeast | None"
Predicate = Callable[[T], "bool | None"]
"""Test of an object; None if the result is unknown."""

PLURALS: Final = {f"{name}s": name for name in ("kernel", "product", "convolution", "collective", "host_transfer")}
"""Flags that can be written in the plural, as in `count(kernels)`."""
NUMBERS: Final = ("count", "bytes", "share", "seconds")


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Kind of a field and the function that reads it; None for an object without the field.

    `check` raises HloError for a comparison that can never be true, or always is.
    """

    kind: Kind
    read: Callable[[T], FieldValue]
    check: Callable[[Where, Comparison], None] | None = None


@dataclass(frozen=True, slots=True)
class Fields(Generic[T]):
    """Fields and functions that can be used for one kind of object.

    `places` are fields with elements, such as `dims[0]`; `attribute` returns readers for other names; `others` are such
    names, for suggestions.
    """

    readers: Mapping[str, Reader[T]]
    places: Mapping[str, Callable[[str], Reader[T] | None]] = field(default_factory=dict)
    attribute: Callable[[str], Reader[T] | None] = lambda name: None
    others: tuple[str, ...] = ()
    functions: Mapping[str, Callable[[Where, Call], Predicate[T]]] = field(default_factory=dict)

    def find(self, where: Where, asked: Field) -> Reader[T]:
        """Reader of a field; HloError with the nearest name if there is none."""
        if asked.place is None:
            name = PLURALS.get(asked.name, asked.name)
            if (reader := self.readers.get(name) or self.attribute(asked.name)) is not None:
                return reader
        elif (taken := self.places.get(asked.name)) is not None:
            if (reader := taken(asked.place)) is not None:
                return reader
            raise where.error(f"{asked.name} has no {asked.place}", asked.span)
        known = (*self.readers, *self.others)
        close = next((name for name in known if name.startswith(asked.name)), None) or nearest(asked.name, known)
        hint = did_you_mean(close) if close != asked.name else None
        if "-" in asked.name and asked.name.partition("-")[0] in self.readers:
            hint = "write spaces around -"
        elif asked.name in MEASURED:
            hint = "only `hlo profile TRACE` has measured fields"
        raise where.error(f"unknown field '{asked}'", asked.span, hint or self._available())

    def _available(self) -> str:
        """The hint for an unknown field: the columns of a table, or where the fields of instructions are listed."""
        if self.places or not self.readers:
            return "see `hlo help where` for all fields"
        return f"available: {', '.join(self.readers)}"
