"""Which ways from line to line code goes: two tests that go the same tell the same bugs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
Arcs = set[tuple[str, int, int]]


def arcs(folders: Sequence[str], run: Callable[[], Result]) -> tuple[Result, Arcs]:
    """What a function returns, and its ways from line to line in the code of folders such as `lint`."""
    found: Arcs = set()
    within = tuple(f"{os.sep}{folder}{os.sep}" for folder in folders)

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        name, last = frame.f_code.co_filename, frame.f_lineno
        if not any(folder in name for folder in within):
            return None

        def step(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal last
            if event == "line":
                found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    sys.settrace(enter)
    try:
        return run(), found
    finally:
        sys.settrace(None)
