"""Fields of other versions of XLA in a text, which are skipped, and the note on them."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic, Source, Span

_MOST_NAMED: Final = 10
"""The most fields that the note names."""
_MOST_COUNTED: Final = 1000


@dataclass(slots=True, eq=False)
class UnknownFields:
    """Counts unknown fields by message and name; `last` is the offset of the last one.

    >>> unknown = UnknownFields(Source("m.pbtxt", "format: DENSE"))
    >>> unknown.add("LayoutProto", "format", 0)
    >>> unknown.notes()[0].message
    'unknown fields skipped: LayoutProto.format'
    """

    source: Source
    last: int = -1
    _first: int = -1
    _times: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, name: str, at: int) -> None:
        """Counts a field of a kind of message."""
        name = f"{kind}.{name}"
        if name in self._times or len(self._times) < _MOST_COUNTED:
            self._times[name] = self._times.get(name, 0) + 1
        self.last = at
        if self._first < 0:
            self._first = at

    def notes(self) -> tuple[Diagnostic, ...]:
        """One note on all of them, at the first; none if there are none."""
        if not self._times:
            return ()
        names = [name if times == 1 else f"{name} ({times} times)" for name, times in self._times.items()]
        more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        message = f"unknown fields skipped: {', '.join(names[:_MOST_NAMED])}{more}"
        return (Diagnostic("note", message, self.source, Span(self._first, self._first + 1), code="unknown-field"),)
