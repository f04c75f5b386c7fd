"""A finding: what a rule says of one place of a module. Rules make it, and every renderer reads it as it is."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic

_LENGTH: Final = 16
"""Characters of a fingerprint."""


@dataclass(frozen=True, slots=True)
class Finding(Diagnostic):
    """A diagnostic of a rule, with what is known of its instruction, or of its computation.

    Names, and what the metadata says of the user's program, are read once, when a rule makes it: with an excerpt of its
    text it outlives the module, and goes from one process to another. `structure` is what stays the same when
    instructions have other names, numbers and lines; `expectation` is what a team stated, where that is what is not
    met; `nth` counts findings of one fingerprint.

    >>> finding = Finding("error", "nothing waits for s", code="HLO060", instruction="s", computation="e")
    >>> finding.name, finding.where
    ('e/s', '-:e/s')
    """

    _: KW_ONLY
    op_name: str | None = None
    location: str | None = None
    expectation: str | None = None
    structure: str = ""
    nth: int = 1

    @property
    def path(self) -> str:
        """The file as the user named it."""
        return self.source.name if self.source is not None and self.source.name else "-"

    @property
    def where(self) -> str:
        """The place as compilers write it; where there is no text to point into, as of a proto, by name."""
        place = self.position
        if place is not None:
            return f"{self.path}:{place.line}:{place.column}"
        return f"{self.path}:{self.name}" if self.name else self.path

    @property
    def named_message(self) -> str:
        """The message, after the name of what it is about where no place in a text tells."""
        return f"{self.name}: {self.message}" if self.name and self.position is None else self.message

    @property
    def fingerprint(self) -> str:
        """By what the finding is known again: the rule and the structure, so text and proto of a module agree."""
        from hashlib import sha256  # loads all of OpenSSL, which a clean module need not wait for

        known = f"{self.code}\n{self.structure}"
        return sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]

    @property
    def identity(self) -> str:
        """The fingerprint, with a number if it is not the first of its kind."""
        return self.fingerprint if self.nth == 1 else f"{self.fingerprint}:{self.nth}"
