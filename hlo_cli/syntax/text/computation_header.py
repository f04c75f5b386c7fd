"""The headers of computations, and the beginning of a text: a module or a single instruction.

Mirrors `ParseComputation` and the dispatch of `HloParserImpl::Run` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re

from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shapes import read_shape

_PARAMETERS = r"\((?:[^()\n\"']++|\((?:[^()\n\"']++|\((?:[^()\n\"']++|\([^()\n\"']*+\))*+\))*+\))*+\)"
HEAD = re.compile(
    r"[ \n]*+((ENTRY )?%?([A-Za-z_][A-Za-z0-9_.\-]*+) "
    rf"(?:{_PARAMETERS} -> (?:[^{{}}\n\"']++|\{{[^{{}}\n\"'=]*+\}})++)?\{{)(?=\n[ \t\n]*+[^0-9: \t\n])"
)
STARTS_HEADER = re.compile(r"(?i:HloModule)\b(?![ \t]*+=)")
STARTS_MODULE = re.compile(
    STARTS_HEADER.pattern + r"|ENTRY\b|%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t\n\r]*+(?:\{|\()",
)


def read_head(scanner: Scanner) -> tuple[bool, str]:
    """Reads `ENTRY? name? (signature)? {` with any spacing."""
    is_entry = scanner.accept_word("ENTRY")
    if scanner.text[scanner.skip() : scanner.pos + 1] in (")", "]", "}"):
        raise scanner.error(f"unmatched '{scanner.text[scanner.pos]}'", scanner.pos)
    name = "" if scanner.at("{") or scanner.at("(") else scanner.name("the name of a computation")
    if scanner.at("("):
        scanner.balanced()
        scanner.expect("->", "after the parameters")
        read_shape(scanner)
    scanner.expect("{", "before the instructions")
    return is_entry, name
