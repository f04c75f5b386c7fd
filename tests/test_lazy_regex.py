"""Expressions that are compiled late: each compiles, and copies and pickles answer as the first does."""

from __future__ import annotations

import copy
import pickle
import re
from importlib import import_module

import pytest

from hlo_cli.lazy_regex import lazy_regex
from test_architecture import MODULES, imports_of

LAZY = sorted(
    module
    for module, path in MODULES.items()
    if any(found.module == "hlo_cli.lazy_regex" for found in imports_of(path))
)


@pytest.mark.parametrize("module", LAZY)
def test_every_expression_compiles(module: str) -> None:
    names = [name for name, value in vars(import_module(module)).items() if isinstance(value, type(lazy_regex("")))]
    assert all(getattr(import_module(module), name).pattern for name in names)


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
