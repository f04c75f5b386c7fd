"""Notes on a text: one for each distinct thing, with how often it was seen and where first, and not too many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hlo_cli.source import Diagnostic, Source, Span

MAX_NOTES: Final = 1000
"""Further distinct things are only counted."""

_LONGEST: Final = 300
"""Notes are cut off behind so many characters; names and shapes may be of any length."""


@dataclass(slots=True)
class Notes:
    """Collects notes on one source.

    >>> notes = Notes(Source("m.hlo", "frob"))
    >>> notes.add("opcode", "opcode frob is not known", Span(0, 4))
    >>> notes.add("opcode", "opcode frob is not known", Span(9, 13))
    >>> [note.message for note in notes.diagnostics()]
    ['opcode frob is not known, 2 times']
    """

    source: Source
    _seen: dict[tuple[str, str], tuple[Span, int]] = field(default_factory=dict)
    _unseen: tuple[Span, int] | None = None

    def add(self, code: str, message: str, span: Span, times: int = 1) -> None:
        """Count a thing; the place of the first one is kept."""
        if len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        if len(self._seen) >= MAX_NOTES and (code, message) not in self._seen:
            first, before = self._unseen or (span, 0)
            self._unseen = first, before + times
            return
        first, before = self._seen.get((code, message), (span, 0))
        self._seen[code, message] = first, before + times

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """A diagnostic for each distinct thing, in the order of the text."""
        found = [
            Diagnostic("note", message + (f", {times} times" if times > 1 else ""), self.source, span, code=code)
            for (code, message), (span, times) in self._seen.items()
        ]
        if self._unseen is not None:
            span, times = self._unseen
            message = f"only {MAX_NOTES:,} different notes are kept; {times:,} more are left out"
            found.append(Diagnostic("note", message, self.source, span, code="left-out"))
        return tuple(sorted(found, key=lambda note: note.span.start if note.span else 0))
