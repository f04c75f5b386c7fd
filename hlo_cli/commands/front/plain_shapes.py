"""Is a command line nothing but shapes and indices? Then it is answered without click, which takes half of the time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from hlo_cli.commands.shape.argument import is_plain_shape
from hlo_cli.source import HloError

_PATTERNS: Final = "[?*"  # what begins a pattern of files in a shell and in glob
ANSWERS: Final = {"layout": "hlo_cli.commands.layout.shape", "tile-index": "hlo_cli.commands.tile_index.answer"}
"""The commands that answer shapes: each has a function `plain_answer`, which is given them."""


def answered(words: Sequence[str]) -> int | None:
    """The exit code of `layout` or `tile-index` without options, or of shapes alone; None for other command lines.

    None for an error too: the command finds it again, and shows it.
    """
    if "HLO_ASCII" in os.environ or any(word.startswith("-") for word in words):
        return None
    command, shapes = (words[0], words[1:]) if words[0] in ANSWERS else ("layout", words)
    if not shapes or not is_plain_shape(shapes[0]) or (shapes is words and _may_match_files(words[0])):
        return None
    try:
        code: int | None = import_module(ANSWERS[command]).plain_answer(shapes)
    except HloError:
        return None
    return code


def _may_match_files(word: str) -> bool:
    """Whether a shape could be a pattern of files here: `f32[8]` is one of the file `f328`."""
    begin = word[: min((at for each in _PATTERNS if (at := word.find(each)) >= 0), default=len(word))]
    try:
        return not begin or "/" in word or any(name.startswith(begin) for name in os.listdir("."))
    except OSError:
        return True
