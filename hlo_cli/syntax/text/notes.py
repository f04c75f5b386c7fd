"""Notes on a text: one for each distinct problem, with its count and its first span, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic, Source, Span

MAX_NOTES: Final = 1000
"""The most distinct problems; further ones are only counted."""

_LONGEST: Final = 300
"""The most characters of a note; names and shapes may have any length."""

_MOST_HINTS: Final = 100
"""The most notes with suggestions, as finding them is slow."""


def _no_hint() -> None:
    return None


@dataclass(slots=True)
class Notes:
    """Collects notes on one source.

    >>> notes = Notes(Source("m.hlo", "frob"))
    >>> notes.add("opcode", "unknown opcode frob", Span(0, 4))
    >>> notes.add("opcode", "unknown opcode frob", Span(9, 13))
    >>> [note.message for note in notes.diagnostics()]
    ['unknown opcode frob (2 times)']
    """

    source: Source
    _seen: dict[tuple[str, str], tuple[Span, int]] = field(default_factory=dict)
    _hints: dict[tuple[str, str], str] = field(default_factory=dict)
    _unseen: tuple[Span, int] | None = None

    def add(
        self, code: str, message: str, span: Span, times: int = 1, *, hint: Callable[[], str | None] = _no_hint
    ) -> None:
        """Counts a problem; the span of the first one is kept. Only the first few problems get their hint."""
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        if len(self._seen) >= MAX_NOTES and (code, message) not in self._seen:
            first, before = self._unseen or (span, 0)
            self._unseen = first, before + times
            return
        if (code, message) not in self._seen and len(self._seen) < _MOST_HINTS and (meant := hint()) is not None:
            self._hints[code, message] = meant
        first, before = self._seen.get((code, message), (span, 0))
        self._seen[code, message] = first, before + times

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """A diagnostic for each distinct problem, in the order of the text."""
        found = [
            Diagnostic("note", _times(message, times), self.source, span, self._hints.get((code, message)), code)
            for (code, message), (span, times) in self._seen.items()
        ]
        if self._unseen is not None:
            span, times = self._unseen
            message = f"showing {MAX_NOTES:,} distinct notes; {times:,} more omitted"
            found.append(Diagnostic("note", message, self.source, span, code="left-out"))
        return tuple(sorted(found, key=lambda note: note.span.start if note.span else 0))


def _times(message: str, times: int) -> str:
    return f"{message} ({times} times)" if times > 1 else message
