"""Text with roles attached to some of its words, and paragraphs of such text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from hlo_cli.dataclass import dataclass

Role = Literal["plain", "strong", "quiet", "name", "waste", "alarm", "saving", "even", "odd"]
"""The role of a piece of text: `name` is a name that commands accept, `alarm` is an error, a peak, or
something removed, `even` and `odd` are neighbors in a figure."""


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
"""Prose: one string, or a sequence of strings and runs."""


def line_of(text: Text) -> Line:
    """The runs of a text, in the role `plain` by default.

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
    """Prose for people, such as explanations or advice. Each text is a paragraph.

    With `is_answer`, the prose is the requested result and is written to pipes too.

    >>> Passage("advice", ("copy.12 copies it into that order four steps later.",)).name
    'advice'
    """

    kind: ClassVar[Literal["passage"]] = "passage"
    name: str
    paragraphs: tuple[Text, ...]
    title: str = ""
    is_answer: bool = False

    def as_table(self) -> None:
        """None: prose has no rows."""
