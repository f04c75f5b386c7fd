"""Where a message with HLO in it begins in a text: alone, or after an error, a prompt, or the mark of a code block."""

from __future__ import annotations

from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.proto_text.tokens import BLANK, START

_LOOKED_AT: Final = 1 << 16
"""The most characters from which a text is recognized."""
_SHORTEST_FULL_LINE: Final = 60
"""The fewest characters after which terminals and logs break a line."""

_FIELD: Final = r"\"?[A-Za-z0-9_]++\"?\s*+"
_HEAD: Final = lazy_regex(
    rf"{START}(?:\{{{BLANK})?+"
    rf"(?:{_FIELD}(?::|[{{<]{BLANK}(?:{_FIELD}[:{{<\[]|[}}>]))|[}}>]{BLANK}(?:{_FIELD}[:{{<]|\}}|>\s))"
)
_EVIDENCE: Final = lazy_regex(
    r"\b(?:(?:computations|instructions|hlo_?[mM]odule)\"?\s*+:?\s*+(?:\[\s*+)?+[{<]|opcode\"?\s*+:\s*+[\"'])"
)
_INSIDE: Final = lazy_regex(
    r"""(?<![\w"'.])(?:(?:hlo|hlo_module|computations|instructions)\s*+:?\s*+\{\s*+(?=(?:hlo_module|name|id|opcode|computations|instructions)\s*+[:{])"""
    r"""|name\s*+:\s*+"[^"\n]*+"\s*+(?=(?:entry_computation_name|computations|instructions|opcode)\s*+[:{]))"""
)


def find_proto_text(text: str) -> int | None:
    """The offset at which a message with HLO in it, or part of one, begins; None if a text has none near its start.

    >>> find_proto_text('error at: hlo { hlo_module { name: "m" } }'), find_proto_text("e { p = f32[] parameter(0) }")
    (10, None)
    """
    if _EVIDENCE.search(text, 0, _LOOKED_AT) is None:
        return None
    if _HEAD.match(text, 0, _LOOKED_AT) is not None:
        return 0
    found = _INSIDE.search(text, 0, _LOOKED_AT)
    return None if found is None else found.start()


def looks_like_proto_text(text: str) -> bool:
    """Whether a message with HLO in it, or part of one, begins in the first 64 KiB of a text.

    >>> looks_like_proto_text('computations { name: "e" }'), looks_like_proto_text("name: deploy")
    (True, False)
    """
    return find_proto_text(text) is not None


def unwrapped(text: str) -> str:
    """A message on one line that was broken into lines of equal length, as one line; other texts unchanged.

    >>> unwrapped("x" * 80 + "\\n" + "y" * 7) == "x" * 80 + "y" * 7
    True
    """
    width = text.find("\n")
    if width < _SHORTEST_FULL_LINE:
        return text
    lines = text.rstrip().split("\n")
    is_wrapped = len(lines[-1]) <= width and all(len(line) == width for line in lines[:-1])
    return "".join(lines) if is_wrapped and len(lines) > 1 else text
