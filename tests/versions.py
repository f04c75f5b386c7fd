"""Which jaxlib is the witness: what it says differs between versions, and each expectation says for which it holds."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import pytest


def _version() -> tuple[int, ...]:
    try:
        return tuple(map(int, re.findall(r"[0-9]+", version("jaxlib"))[:3]))
    except PackageNotFoundError:
        return (0,)


JAXLIB: Final = _version()
"""The version of jaxlib, (0,) without one."""
IS_NEWER_XLA: Final = JAXLIB >= (0, 11)
"""Whether XLA is newer than that of jaxlib 0.10.2, the oldest version that the tests ask."""
needs_newer_xla: Final = pytest.mark.skipif(not IS_NEWER_XLA, reason="requires jaxlib 0.11 or newer")


DEAD_CODE: Final = (
    "since jaxlib 0.11, XLA:CPU removes dead instructions after buffer assignment, before it writes the text"
)
"""Why positions and live ranges differ: they are those of a module that no dump has."""


def needs_older_xla(reason: str) -> pytest.MarkDecorator:
    """Marks an expectation that holds for jaxlib 0.10.2 alone, for the reason given."""
    return pytest.mark.skipif(IS_NEWER_XLA, reason=reason)
