"""Regular expressions in filters: as Python's `re` answers, in time that no pattern and no text decides."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_cli import cli
from hlo_cli.analysis.query.patterns import expression_matcher

_ATOMS = st.sampled_from(
    [*"abcé_ \n", ".", r"\w", r"\W", r"\d", r"\s", r"\S", r"\.", r"\n", r"\x61", r"\u00e9", r"\101", r"\0", "[ab]", "[^a]",
     "[]a]", "[a-c_]", r"[\w-]", r"[^\n]", "{", "}", "a{", "{}", "[[]", r"\\", "(?#a)", "(?i:A)", "(?a:\\w)", "(?-s:.)"]
)  # fmt: skip
_ANCHORS = st.sampled_from(["^", "$", r"\A", r"\Z", r"\b", r"\B", "(?m:^)", "(?m:$)"])
_REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{2,}?", "{0}", "{,}"])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        inner.map(lambda part: f"(?:{part})"),
        inner.map(lambda part: f"({part})"),
        st.tuples(inner, _REPEATS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(_ATOMS, _REPEATS).map(lambda pair: f"{pair[0]}{pair[1]}"),
        inner.map(lambda part: f"{part}|"),
    )


PATTERNS = st.recursive(st.one_of(_ATOMS, _ANCHORS), _combined, max_leaves=8)
TEXTS = st.text(alphabet="aabbcAé_ .{}\n-1\\", max_size=12)


@settings(max_examples=300)
@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from(["", "", "(?i)", "(?m)", "(?a)"]))
def test_every_answer_is_that_of_re(pattern: str, texts: list[str], flags: str) -> None:
    pattern = flags + pattern
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what `[[]` may mean one day
            expected = re.compile(pattern, re.DOTALL)
    except re.error:
        return  # such as a repeat of an anchor
    matches = expression_matcher(pattern)
    for text in ("", *texts):
        assert matches(text) == (expected.search(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"(a)\1", "back-references"),
        (r"(?P<x>a)(?P=x)", "back-references"),
        (r"(a)?(?(1)b|c)", "back-references"),
        ("a(?=b)", "lookarounds"),
        ("a(?!b)", "lookarounds"),
        ("(?<=a)b", "lookarounds"),
        ("(?<!a)b", "lookarounds"),
        ("(?>a*)b", "atomic groups"),
        ("a*+b", "possessive repeats"),
        ("(?x) a", "flags (?x)"),
    ],
)
def test_what_no_automaton_can_do_is_refused(pattern: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    with pytest.raises(ValueError, match=re.escape(f"{what} are")):
        expression_matcher(pattern)
    (tmp_path / "m.hlo").write_text("r = f32[] negate(f32[] a)")
    assert cli.main(["parse", str(tmp_path / "m.hlo"), "--where", f'op_name ~ "{pattern}"'], standalone=False) == 2
    assert f"error: {what} are not supported (unbounded matching time)" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "pattern",
    [
        ".*.*.*x",
        ".*a.*a.*a.*a.*x",
        "a*a*a*a*a*x",
        "(a?){40}x",
        "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaaaaaaaaaaax",
        "(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)(a|b|ab)x",
        "a{1,200}a{1,200}x",
        "(.|a)*[^b]{20}b$",
        "(a|b)*a(a|b){12}c",
    ],
)
def test_no_pattern_takes_more_than_the_length_of_the_text(pattern: str) -> None:
    matches = expression_matcher(pattern)
    for text in ("a" * 20_000, "ab" * 10_000, "aaab" * 5000 + "y"):
        began = time.process_time()
        assert not matches(text)
        assert time.process_time() - began < 5  # 0.01 to 0.3 s; `re` takes days for most


def test_the_pattern_of_the_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(f'r = f32[] negate(f32[] a), metadata={{op_name="{"a" * 3000}"}}')
    (tmp_path / "e.txt").write_text('expect = ["count(op_name ~ \\".*.*.*x\\") == 0"]\n')
    began = time.process_time()
    assert cli.main(["parse", str(tmp_path / "m.hlo"), "--where", 'op_name ~ ".*.*.*x"'], standalone=False) == 0
    assert cli.main(["lint", str(tmp_path / "m.hlo"), "--expect", str(tmp_path / "e.txt")], standalone=False) == 0
    assert time.process_time() - began < 5


@pytest.mark.parametrize("pattern", ["a{2000}", "(a{100}){20}", "a{99999999999999999999}"])
def test_large_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(OverflowError):
        expression_matcher(pattern)
