"""The modules in a text: a dump is read at once, anything else is recognized first."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from hlo_cli.inputs.logs import (
    AFTER_BLOCK,
    BEGINNING,
    HEAD,
    WIDEST,
    EmbeddedModule,
    find_modules,
    has_odd_characters,
    is_cut_header,
)

_STARTS: Final = ("", "/", "E")
"""How a line after a complete line begins, besides spaces."""


def modules_in_text(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules and parts of modules in a text; `name` is that of its file.

    PastedTextError for a text that is not a module and can be explained, HloError for one without HLO.

    >>> [found] = modules_in_text("It fails at a = f32[] add(b, c) today.", "-")
    >>> found.text.strip()
    'a = f32[] add(b, c)'
    """
    if _is_dump(text) and not (
        _may_be_wrapped(text) or has_odd_characters(text) or AFTER_BLOCK.search(text) or is_cut_header(text)
    ):
        return find_modules(text)
    from hlo_cli.inputs.pasted.read import read_text  # most texts are dumps

    return read_text(text, name)


def _is_dump(text: str) -> bool:
    """Whether a text begins with a module in the lines that XLA prints."""
    return text.startswith("HloModule ") and "\n" in text[:HEAD] and ") -&gt; " not in text[:HEAD]


def _may_be_wrapped(text: str) -> bool:
    """Whether a terminal may have broken lines: a line follows one of the longest and does not look like HLO."""
    lines = text[:BEGINNING].split("\n")
    width = max(map(len, lines))
    if width > WIDEST:
        return False
    return any(len(one) == width and other[:1] not in _STARTS and other[:2] != "  " for one, other in pairwise(lines))
