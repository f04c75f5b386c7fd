"""A finding: the diagnostic of a rule at one place of a module, made by rules and read by all renderers."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Displayed
from hlo_cli.source import Diagnostic

_LENGTH: Final = 16
"""Characters of a fingerprint."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a finding shares with others: those of the same `pattern` have one cause, such as a copy in each layer.

    `value` identifies the array that several rules may report, empty if there is none. `message` is that of the
    finding without the numbers of layers; `wider` are those for findings with different messages, the last one for all
    of the pattern. `place` is the line or the argument, if these do not name it.
    """

    pattern: str
    value: str = ""
    message: str = ""
    wider: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """The kernel in a profile that a finding is about: its module, its name, and its seconds per step or run."""

    module: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Finding(Diagnostic, Displayed):
    """A diagnostic of a rule, with facts about its instruction or computation.

    Names and metadata are read once, when a rule makes it: with an excerpt of its text, it outlives the module and can
    be sent to another process. `structure` is the identity that does not change when instructions are renamed,
    renumbered, or moved; `expectation` is the team's assertion that failed, if any; `nth` counts findings with the
    same fingerprint.

    `cost_bytes` are the bytes that it wastes in all `executions` of the instruction, None for a finding that is not
    about efficiency; `executions` is None if a trip count is unknown: then that loop counts as one iteration. `seconds`
    is how long moving them takes. `scope` and `argument` are where the value comes from; `location` is inferred from
    other instructions if `is_inferred`. `key` is what `--by` sums up: the key for all layers and for this one, and
    whether it is inferred. `measured` is the kernel that runs the instruction, if a profile was given.

    >>> finding = Finding("error", "no done found for s", code="HLO060", instruction="s", computation="e")
    >>> finding.name, finding.where
    ('e/s', '-:e/s')
    """

    _: KW_ONLY
    op_name: str | None = None
    location: str | None = None
    expectation: str | None = None
    structure: str = ""
    nth: int = 1
    cost_bytes: int | None = None
    executions: int | None = 1
    seconds: float | None = None
    cause: Cause | None = None
    scope: str = ""
    argument: str = ""
    key: tuple[str, str, bool] | None = None
    is_inferred: bool = False
    measured: MeasuredKernel | None = None

    @property
    def path(self) -> str:
        """The file as the user named it."""
        return self.source.name if self.source is not None and self.source.name else "-"

    @property
    def where(self) -> str:
        """The position as `file:line:column`, or the name if there is no text, such as for a proto."""
        place = self.position
        if place is not None:
            return f"{self.path}:{place.line}:{place.column}"
        return f"{self.path}:{self.name}" if self.name else self.path

    @property
    def named_message(self) -> str:
        """The message, preceded by the name of the instruction if there is no position in a text."""
        return f"{self.name}: {self.message}" if self.name and self.position is None else self.message

    @property
    def rank(self) -> tuple[int, float, float, int]:
        """The order of findings: errors, warnings about correctness, which have no cost, costs, and other notes.

        Among them, those on kernels that take most measured time come first.

        >>> large, small = Finding("note", "", cost_bytes=8), Finding("warning", "", cost_bytes=7)
        >>> other = Finding("note", "")
        >>> large.rank < small.rank < other.rank
        True
        """
        measured = -self.measured.seconds if self.measured is not None else 0.0
        if self.severity == "error" or self.cost_bytes is None:
            return ({"error": 0, "warning": 1, "note": 3}[self.severity], measured, 0.0, 0)
        return (2, measured, -(self.seconds or 0.0), -self.cost_bytes)

    @property
    def fingerprint(self) -> str:
        """A hash of the rule and the structure, the same for text and proto of a module."""
        from hashlib import sha256  # loads all of OpenSSL, which a clean module does not need

        known = f"{self.code}\n{self.structure}"
        return sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]

    @property
    def identity(self) -> str:
        """The fingerprint, with a number if it is not the first of its kind."""
        return self.fingerprint if self.nth == 1 else f"{self.fingerprint}:{self.nth}"
