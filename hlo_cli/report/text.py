"""Words with a meaning attached to some of them, and paragraphs of such words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from hlo_cli.dataclass import dataclass

Role = Literal["plain", "strong", "quiet", "name", "waste", "alarm", "saving", "even", "odd"]
"""Why a piece of text stands out: `name` can be typed back into a command, `alarm` is an error, a peak or
something removed, `even` and `odd` are neighbours in a figure."""


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text in one role.

    >>> Run("fusion.2", "name").text
    'fusion.2'
    """

    text: str
    role: Role = "plain"


Line: TypeAlias = tuple[Run, ...]
Text: TypeAlias = str | tuple[str | Run, ...]
"""What prose is given as: one string, or strings and runs in a row."""


def line_of(text: Text) -> Line:
    """The runs of a text, plain where no role was given.

    >>> line_of((Run("fusion.2", "name"), " takes 352 KiB"))
    (Run(text='fusion.2', role='name'), Run(text=' takes 352 KiB', role='plain'))
    """
    if isinstance(text, str):
        return (Run(text),)
    return tuple(Run(part) if isinstance(part, str) else part for part in text)


def plain_text(line: Iterable[Run]) -> str:
    """The characters of a line, without the roles.

    >>> plain_text((Run("a", "name"), Run(" b")))
    'a b'
    """
    return "".join(run.text for run in line)


@dataclass(frozen=True, slots=True)
class Passage:
    """Prose for a person: what the numbers mean, or what to do. One text a paragraph, each begins a line.

    `is_answer` says that the prose is what was asked for, so that a pipe gets it too.

    >>> Passage("advice", ("copy.12 copies it into that order four steps later.",)).name
    'advice'
    """

    kind: ClassVar[Literal["passage"]] = "passage"
    name: str
    paragraphs: tuple[Text, ...]
    title: str = ""
    is_answer: bool = False

    def as_table(self) -> None:
        """Nothing: prose has no rows."""
