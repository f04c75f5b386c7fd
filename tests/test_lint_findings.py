"""What each rule says of the text that breaks it: places, messages, hints, and what is wasted, as in `data/lint_findings.txt`."""

from __future__ import annotations

import pytest

from lint_findings import NAMED, kept, told


@pytest.mark.parametrize("name", NAMED)
def test_all_that_is_said_of_a_case(name: str) -> None:
    assert told(name, NAMED[name]) == kept()[name]


def test_every_case_is_kept_and_no_other() -> None:
    assert list(kept()) == list(NAMED)
