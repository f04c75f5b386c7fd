"""Errors of calls, libraries, and the system below a program: real wording with numbers of our own, and the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli.commands.pasted.answer import _report_of
from hlo_cli.inputs.pasted.envelopes import PastedTextError
from hlo_cli.inputs.pasted.read import read_text
from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_files.library_errors import LIBRARY_RULES
from hlo_cli.syntax.compiler_files.python_errors import PYTHON_RULES
from hlo_cli.syntax.compiler_files.runtime_errors import RUNTIME_RULES

TEXTS = Path(__file__).parent / "data" / "pasted" / "calls.txt"
"""Texts, each alone as it is pasted, after a line with the first line of the answer."""
ANSWERS = [
    (text, words)
    for words, _, text in (each.partition("\n") for each in TEXTS.read_text(encoding="utf-8").split("=== ")[1:])
]


def answer_to(text: str) -> str:
    with pytest.raises(PastedTextError) as caught:
        read_text(text, "-")
    return _report_of(caught.value.pasted).answer


@pytest.mark.parametrize(("text", "words"), ANSWERS)
def test_an_error_is_answered_with_its_numbers(text: str, words: str) -> None:
    assert answer_to(text) == words


def test_lines_may_be_wrapped_after_a_traceback() -> None:
    text, words = ANSWERS[0]
    wrapped = text.replace("ndim to", "ndim\n  to")
    assert answer_to(f'Traceback (most recent call last):\n  File "/a/jax/b.py", line 3, in f\n{wrapped}\n') == words


@pytest.mark.parametrize("rules", [PYTHON_RULES, LIBRARY_RULES, RUNTIME_RULES])
def test_every_rule_says_what_to_do(rules: tuple[tuple[str, ErrorRule], ...]) -> None:
    assert all(rule.violated for _, rule in rules)
    assert all(rule.fix for _, rule in rules)


@pytest.mark.parametrize("words", ["loading libdevice took 3 s", "shapes of x and y (mismatch)", "Gloo is installed"])
def test_words_alone_are_no_error(words: str) -> None:
    with pytest.raises(HloError) as caught:
        read_text(f"log: {words}", "-")
    if isinstance(caught.value, PastedTextError):
        pasted = caught.value.pasted
        with pytest.raises(HloError, match="no HLO found"):
            _report_of(pasted)
