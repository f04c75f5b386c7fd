"""What can be said of a text that is not recognized? The shapes, sizes, instructions, and statuses that it mentions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from shlex import quote
from typing import Final

from hlo_cli.commands.prints.shape_text import bytes_of_shape
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.read import mentions_in
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from_tuples
from hlo_cli.syntax.byte_sizes import parse_size

_MOST: Final = 200  # a log may mention thousands; the first are near what it is about
_NOUNS: Final = {
    "shape": "shapes",
    "sharding": "shardings",
    "replica-groups": "lists of replica groups",
    "size": "sizes",
    "status": "statuses",
    "instruction": "instructions",
}


NOT_RECOGNIZED: Final = "Not recognized"
"""How the answer to a text begins of which only parts are understood."""


def mentions_report(pasted: PastedText) -> Report:
    """The report on what a text mentions, each once, in its order, with the bytes of shapes."""
    mentions = list(islice(dict.fromkeys(mentions_in(pasted.text)), _MOST))
    columns = (
        Column("kind", "kind", of=lambda kind, words: kind),
        Column("mention", "mention", role="name", of=lambda kind, words: words),
        Column("bytes", "size", "bytes", of=_bytes),
    )
    return text_report(
        pasted,
        f"{NOT_RECOGNIZED}; the text mentions {', '.join(_summary(mentions))}",
        tables=(Table("mentions", columns, rows_from_tuples(columns, mentions), noun="mentions", limit=12),),
        numbers={"mentions": len(mentions)},
        next=tuple(_next(mentions)),
    )


def _bytes(kind: str, words: str) -> int | None:
    """The bytes of a shape or a size; None of other words.

    >>> _bytes("shape", "f32[8]"), _bytes("size", "1,024 MiB"), _bytes("status", "INTERNAL")
    (32, 1073741824, None)
    """
    match kind:
        case "shape":
            return bytes_of_shape(words)
        case "size":
            return parse_size(words.replace(",", "").removesuffix("bytes"))
    return None


def _summary(mentions: list[tuple[str, str]]) -> Iterator[str]:
    """How many of each kind, the largest shape with its bytes, and the only one of the others."""
    for kind, noun in _NOUNS.items():
        words = [each for found, each in mentions if found == kind]
        if not words:
            continue
        sizes = [(size, each) for each in words if kind == "shape" and (size := bytes_of_shape(each)) is not None]
        if sizes:
            size, largest = max(sizes)
            most = "" if len(words) == 1 else "the largest "
            count = "the shape " if len(words) == 1 else f"{format_count(len(words), noun)}, "
            yield f"{count}{most}{largest} ({format_bytes(size)})"
        elif len(words) == 1:
            yield f"{'' if kind in ('size', 'status') else f'the {noun[:-1]} '}{words[0]}"
        else:
            yield f"{format_count(len(words), noun)} ({', '.join(words[:2])}{', …' if len(words) > 2 else ''})"


def _next(mentions: list[tuple[str, str]]) -> Iterator[str]:
    """A command for the first of each kind."""
    first = dict[str, str]()
    for kind, words in mentions:
        first.setdefault(kind, words)
    if shape := first.get("shape"):
        yield f"hlo layout {quote(shape)}"
    if instruction := first.get("instruction"):
        yield f"hlo parse DUMP --explain {quote(instruction)}"
    if "size" in first and "shape" not in first:
        yield "hlo memspace DUMP"
    if "status" in first:
        yield "hlo help dump"
