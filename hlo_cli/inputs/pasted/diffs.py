"""The two sides of a unified diff."""

from __future__ import annotations

import re

from hlo_cli.lazy_regex import lazy_regex

_CHANGED = lazy_regex(r"^([+-])[ \t]*+(?:ROOT )?+%?[A-Za-z_][\w.\-]*+ = \(?[a-z]\w*+\[", re.MULTILINE)
_HUNK = lazy_regex(r"^(?:diff --git |@@ -\d|\+\+\+ )", re.MULTILINE)
_HEADER = lazy_regex(r"(?:diff |index |--- |\+\+\+ |@@ |\\ No newline|(?:old|new|deleted|similarity|rename) )")


def is_diff(text: str) -> bool:
    r"""Whether a text is a unified diff, with headers or only with marked lines.

    >>> is_diff("-a = f32[] add(b, c)\n+a = f32[] multiply(b, c)"), is_diff("- one\n- two"), is_diff("@@ -1 +1 @@")
    (True, False, True)
    """
    if _HUNK.search(text):
        return True
    return {match[1] for match in _CHANGED.finditer(text)} == {"+", "-"}


def sides_of(diff: str) -> tuple[str, str]:
    r"""The old and the new text of a diff; the lines of the other side are blank, so that line numbers stay.

    >>> sides_of("@@ -1 +1 @@\n-a = f32[] add(b, c)\n+a = f32[] multiply(b, c)\n d")
    ('\na = f32[] add(b, c)\n\nd', '\n\na = f32[] multiply(b, c)\nd')
    """
    old, new = list[str](), list[str]()
    for line in diff.split("\n"):
        mark, rest = line[:1], line[1:]
        if _HEADER.match(line):
            mark, rest = " ", ""
        elif mark not in "+- ":
            mark, rest = " ", line
        old.append("" if mark == "+" else rest)
        new.append("" if mark == "-" else rest)
    return "\n".join(old), "\n".join(new)
