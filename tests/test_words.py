"""The words of every visible text: no private terms, American spelling, options and rules in one form."""

from __future__ import annotations

import re
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate

import pytest

from visible_texts import PROJECT_FILES, ROOT, Text, texts_in_code, texts_in_files, texts_of_rules

BANNED: dict[str, str] = {
    r"\balive\b|\blives\b|\blife\b|\bdies\b": "live range, live",
    r"\bflying\b|(?<!in )(?<!in-)\bflights?\b": "in flight, async interval",
    r"\bslots?\b": "linear index, position",
    r"\bwait(s|ed)? for\b|\bwaits\b(?! until)": "exposed, wait time",
    r"\b(?<!unknown )wires?\b": "link, interconnect",
    r"\bbeside\b": "next to, concurrent",
    r"\bbehind\b": "after",
    r"\blies\b|\bstands\b|\bstood\b": "is, is stored",
    r"\bcut (by|short|into)\b": "tile, truncated",
    r"\bgoe?s? (with|together)\b": "requires, can be used with",
    r"\b(is|are) about\b": "requires",
    r"\bnobody\b|\bneither\b|\bnor\b|\bis none\b|\bare none\b": "not, no",
    r"\bnot known\b": "unknown",
    r"(?<=\w )odd\b|\bodd(?= \w)": "unusual",
    r"fit to ship|costs too much|worth a word|for ever\b": "a plain term",
    r"\btold\b|\btells?\b|\bsaid\b|\bsays\b|\btellings?\b|\basks\b|\bwants\b": "reports, shows",
    r"\b[Mm]end(s|ed)?\b": "fix",
    r"\blooked? through\b": "checked",
    r"\bleft out\b|\bleave out\b": "omitted, remove",
    r"whole or not at all|written whole": "atomically",
    r"\bas written\b|\bwritten out\b|\bwritten short\b": "given, expanded",
    r"\brespel\w+|\bspelled\b|\bspellings?\b": "form",
    r"\btaken? apart\b": "explained, decoded",
    r"\bmildest\b": "lowest",
    r"\bhanded (over|on)\b|\bgiven away\b": "passed, donated",
    r"\bkeeps? .{0,30}\binside\b": "avoids memory traffic",
    r"\bother way round\b|\bturn(s|ed) (it|that) round\b": "reverse",
    r"\bthis is true of\b|\bis true of\b": "matches",
    r"\bnumbered through\b": "numbered consecutively",
    r"\bmust go\b": "exceeds the limit by",
    r"\bneighbours\b": "producer–consumer pairs",
    r"\bwhich (chip|order|module|rules)\b.*\?": "a fact, not a question",
    r"\bis no (?!longer|more|less)[a-z]": "is not a",
    r"\bthere (is|are) no\b": "not found, unknown",
    r"; did you mean": "a help line",
    r"(?<!such )(?<!counted )\bas (\d|--|HLO\d|[a-z_]+=)": "such as",
    r"\b[Mm]oved (bytes|data)\b": "bytes accessed",
    r"\bcounts? as\b.*\bnot\b.*\bcounts?\b": "one idea a sentence",
}
"""Patterns that no visible text matches, and what is written instead."""

NOT_MISSPELLED = (
    *("atleast", "passtime", "numberin"),  # classes, and a function of the pages
    *("cpoy", "mutliply", "memroy"),  # names that suggestions correct
    *("subtile", "subtiles"),  # a tile in a tile
    *("CANCELLED", "writeable"),  # a code of statuses, and a flag of numpy
    *("CANCELL", "hsa", "ond", "ure", "vailable"),  # in patterns: parts of words, and ROCm's runtime
    *("totalling", "beginns", "compiletime"),  # of XLA's errors, a column of rocprof, and a metric of PyTorch/XLA
)
SPELLED = (*PROJECT_FILES, "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".ci/run")


@cache
def texts() -> list[Text]:
    """Every visible text."""
    return [*texts_in_code(), *texts_of_rules(), *texts_in_files()]


def banned_in(visible: Iterable[Text]) -> Iterator[tuple[str, str, Text]]:
    """The banned patterns that texts match, what they match, and the texts; each pattern passes over all of them once.

    >>> [(found, text.line) for _, found, text in banned_in([Text("a", 1, "live"), Text("a", 2, "alive")])]
    [('alive', 2)]
    """
    visible = list(visible)
    ends = list(accumulate(len(text.text) + 1 for text in visible))
    joined = "\n".join(text.text for text in visible)
    for pattern in BANNED:
        for found in re.finditer(pattern, joined):
            yield pattern, found[0], visible[bisect_right(ends, found.start())]


@pytest.mark.code
def test_no_text_has_a_banned_phrase() -> None:
    found = [f"{text}\n    {said!r}: write {BANNED[pattern]}" for pattern, said, text in banned_in(texts())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["alive", "it is about 3", "an odd one", "which chip is it?", "a wire"])
def test_banned_phrases_are_found_at_both_ends_of_a_text(text: str) -> None:
    around = [Text("a", line, each) for line, each in enumerate(["live", text, "in"])]
    assert [each.line for _, _, each in banned_in(around)] == [1]
    assert [each.line for _, _, each in banned_in([Text("a", 0, "in"), Text("a", 1, "flight")])] == [1]


HASHES = "*/message_index.txt"
"""Rows of hashes, some of which are near to a word."""


def test_spelling() -> None:
    pytest.importorskip("codespell_lib")
    command = [sys.executable, "-m", "codespell_lib", "--builtin", "clear,rare,en-GB_to_en-US"]
    done = subprocess.run(
        [*command, "--ignore-words-list", ",".join(NOT_MISSPELLED), "--skip", HASHES, "hlo_cli", *SPELLED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stdout


if __name__ == "__main__":
    for pattern, said, text in banned_in(texts()):
        if len(sys.argv) < 2 or any(part in text.path for part in sys.argv[1:]):
            print(f"{text}\n    {said!r}: write {BANNED[pattern]}")
