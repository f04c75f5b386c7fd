"""The two sides of a unified diff."""

from __future__ import annotations

from hlo_cli.lazy_regex import lazy_regex

_HEADER = lazy_regex(r"(?:diff |index |--- |\+\+\+ |@@ |\\ No newline|(?:old|new|deleted|similarity|rename) )")


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
