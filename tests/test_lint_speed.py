"""What linting takes grows with the size of a module, whatever it is that is large."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from large_modules import LARGE, nested
from timing import is_linear, soon

EVERYTHING = LintSettings(select=("ALL",))

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("large", LARGE, ids=lambda large: large.__name__)
def test_all_rules_take_no_more_than_their_share_of_a_larger_module(large: Callable[[int], str]) -> None:
    def work(count: int) -> Callable[[], object]:
        module = parse_module(large(count))
        return lambda: lint_module(module, EVERYTHING)

    assert is_linear(work, 500, 3000)


def test_calls_as_deep_as_any_are_looked_through() -> None:
    with soon(30):
        lint_module(parse_module(nested(8000)), EVERYTHING)
