"""Expressions that are compiled late: each compiles, and copies and pickles answer as the first does."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import FunctionType

import pytest

from hlo_cli.lazy_regex import lazy_regex
from test_architecture import MODULES

MAKER = "hlo_cli.inputs.pasted.kinds"
"""Has none of its own, and makes those of the modules that import `words`."""
LAZY = sorted(
    module
    for module, path in MODULES.items()
    if module != MAKER
    and re.search(
        rf"from hlo_cli.lazy_regex import lazy_regex$|from {MAKER} import .*\bwords$", path.read_text("utf-8"), re.M
    )
)


def expressions_in(value: object) -> Iterator[re.Pattern[str]]:
    """The lazy expressions in a value, also in collections at any depth and in defaults of functions."""
    if isinstance(value, type(lazy_regex(""))):
        yield value
    elif isinstance(value, Mapping):
        yield from expressions_in((*value.keys(), *value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from expressions_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from expressions_in([getattr(value, each.name) for each in fields(value)])
    elif isinstance(value, FunctionType):
        yield from expressions_in(value.__defaults__)


@pytest.mark.parametrize("module", LAZY)
def test_every_expression_compiles(module: str) -> None:
    found = list(expressions_in(list(vars(import_module(module)).values())))
    assert found, "no expression is checked"
    assert all(expression.pattern for expression in found)


def test_expressions_in_collections_are_found() -> None:
    first, second, third = (lazy_regex(letter) for letter in "abc")
    assert list(expressions_in((first, {"x": [second], third: 1}))) == [first, third, second]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_answer(again: object) -> None:
    digits = lazy_regex("[a-z]+", re.IGNORECASE)
    assert callable(again)
    assert again(digits).fullmatch("Ab") is not None
    assert digits.fullmatch("Ab") is not None
    assert again(digits).fullmatch("7") is None


def test_what_is_no_name_of_a_pattern_is_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = lazy_regex("a").nothing_like_it  # type: ignore[attr-defined]
