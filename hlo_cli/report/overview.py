"""What stands at the head of a report: its subject, a verdict for each question, what to do first, and the sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import ClassVar, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Cell

Tone: TypeAlias = Literal["good", "warning", "bad", "neutral"]
Certainty: TypeAlias = Literal["", "computed", "at most", "at least"]
"""How sure it is that a change saves what it costs today; empty without a cost."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of a limit is used, such as of the capacity of a memory; the limit is None if it is unknown.

    >>> Gauge("HBM", 3, 4).limit_bytes
    4
    """

    name: str
    used_bytes: int
    limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one question: a headline of a few words, a sentence with details, and gauges.

    `section` is the key of the section with the numbers behind it. `brief` is the headline next to gauges, which show
    its numbers; empty if the headline has none of them.

    >>> Verdict("Memory", "good", "Fits v5e", section="memory").tone
    'good'
    """

    title: str
    tone: Tone
    headline: str
    sentence: str = ""
    _: KW_ONLY
    section: str
    gauges: tuple[Gauge, ...] = ()
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: what is wrong, the change that helps, and what it costs until then.

    `seconds` is the time per execution, None if it is unknown, as without a chip; it is measured if `is_measured`.
    `certainty` states how sure the saving is: computed with the change applied; at most the cost today, if the compiler
    then has nothing to do instead; or at least that, if it is the cost of one iteration of a loop whose trip count is
    unknown. `source` is the line of the program, `instruction` an example in the dump,
    and `code` the rule that found it.

    >>> Action("w is copied", cost_bytes=2048, seconds=2e-6).cost_bytes
    2048
    """

    message: str
    fix: str = ""
    _: KW_ONLY
    cost_bytes: int | None = None
    seconds: float | None = None
    is_measured: bool = False
    certainty: Certainty = ""
    source: str = ""
    instruction: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page: its title, one sentence, and the names of the parts of the report that belong to it.

    A section without parts states in its sentence that there is nothing to show.

    >>> Section("padding", "Padding", "No padding: no layout is tiled.").parts
    ()
    """

    key: str
    title: str
    sentence: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The head of a page: a title, a line of facts, verdicts, and sections.

    `actions` are what to do first, the most expensive one first; the section `first` lists them.

    >>> overview = Overview("overview", "jit_step on TPU v5e", "4,619 instructions", (), ())
    >>> overview.data["title"]
    'jit_step on TPU v5e'
    """

    kind: ClassVar[Literal["overview"]] = "overview"
    name: str
    title: str
    details: str
    verdicts: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    actions: tuple[Action, ...] = ()

    def as_table(self) -> None:
        """An overview has no rows."""
        return

    @property
    def data(self) -> Mapping[str, Cell]:
        """Everything, for programs and for pages."""
        return {
            "title": self.title,
            "details": self.details,
            "verdicts": tuple(map(_verdict, self.verdicts)),
            "actions": tuple(map(_action, self.actions)),
            "sections": tuple(map(_section, self.sections)),
        }


def _verdict(verdict: Verdict) -> Mapping[str, Cell]:
    gauges = (
        {"name": gauge.name, "used_bytes": gauge.used_bytes, "limit_bytes": gauge.limit_bytes}
        for gauge in verdict.gauges
    )
    return {
        "title": verdict.title,
        "tone": verdict.tone,
        "headline": verdict.headline,
        "sentence": verdict.sentence,
        "section": verdict.section,
        "gauges": tuple(gauges),
    }


def _action(action: Action) -> Mapping[str, Cell]:
    return {
        "message": action.message,
        "fix": action.fix or None,
        "cost_bytes": action.cost_bytes,
        "seconds": action.seconds,
        "is_measured": action.is_measured,
        "certainty": action.certainty or None,
        "source": action.source or None,
        "instruction": action.instruction or None,
        "code": action.code or None,
    }


def _section(section: Section) -> Mapping[str, Cell]:
    return {"key": section.key, "title": section.title, "sentence": section.sentence, "parts": section.parts}
