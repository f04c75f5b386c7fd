"""The modules in a text: a dump is read at once, anything else is recognized first."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from hlo_cli.inputs.logs import EmbeddedModule, find_modules

_HEAD: Final = 1 << 16
_BEGINNING: Final = 1 << 12
_WIDEST: Final = 400
_LONGEST_HEADER: Final = 1 << 20
_STARTS: Final = ("", "/", "E")
"""How a line after a complete line begins, besides spaces."""
# Words that open a block in C++ and Python as a name does in HLO.
_KEYWORDS = r"(?:if|for|while|switch|namespace|else|do|try|extern|struct|class|return|with|catch|union|enum|in|let)\b"
AFTER_BLOCK: Final = re.compile(
    r"\n\}[^\n]*+\n\s*+(?=\S)(?!%|ENTRY\b|HloModule\b|ROOT\b|\}|//|/\*|\*\*\* |(?:File|Function)Names"
    rf"|FileLocations|StackFrames|(?!{_KEYWORDS})[\w.\-]++ ?(?:\([^\n]*->|\([\w.\-]++: |\{{[ \t]*+$)"
    r"|[\w.\-]++ = (?:\(|[a-z]\w*+\[)|[IWEFD]\d{4,8} \d\d:|\[?\d{4}-\d\d-\d\d[T ])",
    re.MULTILINE,
)
"""The end of a computation and what is not HLO after it: another language, prose, or a fence."""
ODD_CHARACTERS: Final = re.compile(
    r"^[^\"\n]*?[\x1b\u00a0\u00ad\u2007\u200b-\u200f\u202f\u2060\u2502\ufeff]", re.MULTILINE
)
"""A color code, a space of typography, or an invisible character outside of strings, where HLO has none of them."""


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


def is_cut_header(text: str) -> bool:
    """Whether a text is the first line of a module and ends inside of a bracket of it.

    >>> is_cut_header("HloModule m, entry_computation_layout={(f32[8]{0}, f32[4"), is_cut_header("HloModule m, x={1}")
    (True, False)
    """
    if not text.startswith("HloModule ") or len(text) > _LONGEST_HEADER:
        return False
    line = text.rstrip()
    return (
        "\n" not in line and " = " not in line and line.count("{") + line.count("(") > line.count("}") + line.count(")")
    )


def has_odd_characters(text: str) -> bool:
    """Whether a text has colors or characters of documents outside of strings; cheap for a plain dump.

    >>> [has_odd_characters(each) for each in ("a = \\x1b[36mf32[8] add(b)", 'a = f32[] add(b), x="\\x1b[1m"')]
    [True, False]
    """
    if "\x1b" not in text and text.isascii():
        return False
    return ODD_CHARACTERS.search(text) is not None


def _is_dump(text: str) -> bool:
    """Whether a text begins with a module in the lines that XLA prints."""
    return text.startswith("HloModule ") and "\n" in text[:_HEAD] and ") -&gt; " not in text[:_HEAD]


def _may_be_wrapped(text: str) -> bool:
    """Whether a terminal may have broken lines: a line follows one of the longest and does not look like HLO."""
    lines = text[:_BEGINNING].split("\n")
    width = max(map(len, lines))
    if width > _WIDEST:
        return False
    return any(len(one) == width and other[:1] not in _STARTS and other[:2] != "  " for one, other in pairwise(lines))
