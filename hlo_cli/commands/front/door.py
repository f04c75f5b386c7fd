"""Command lines that name an input and no command: the command that answers the most likely question about it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Container, Sequence

from hlo_cli.commands.front.stdin import is_redirected
from hlo_cli.commands.shared.shape_argument import is_hlo_text, is_named_element, is_sharding_text
from hlo_cli.lazy_regex import lazy_regex

_OPERATION = lazy_regex(r"[ \t\n=][a-z][a-z0-9\-]*+\(")
_NUMBERED = lazy_regex(r"(.+)#[1-9][0-9]*+")
_LONGEST_WORD = 60
"""Characters of a text with spaces that may be a mistyped command or file; a longer one is a pasted text."""


def with_command(arguments: Sequence[str], commands: Container[str]) -> list[str]:
    """The command line, completed with a command if it names none but an input: `parse`, or `layout` for a shape.

    A shape with a sharding implies `shard`.

    >>> with_command(["f32[8,128]", "--draw"], ("parse", "layout"))
    ['layout', 'f32[8,128]', '--draw']
    >>> with_command(["parse", "f32[8,128]"], ("parse", "layout"))
    ['parse', 'f32[8,128]']
    >>> with_command(["f32[8,128]", "{replicated}"], ("parse", "layout", "shard"))
    ['shard', 'f32[8,128]', '{replicated}']
    """
    given = list(arguments)
    if not given or given[0] in commands:
        return given
    if not _is_option(given[0]):
        if len(given) > 1 and is_sharding_text(given[1]) and is_hlo_text(given[0]):
            return ["shard", *given]
        implied = _command_for(given[0])
        return given if implied is None else [*implied, *given[1:]]
    words = [(at, word) for at, word in enumerate(given) if not _is_option(word)]
    if any(word in commands for _, word in words):
        return given
    for at, word in words:
        if (implied := _command_for(word)) is not None:
            return [implied[0], *given[:at], *implied[1:], *given[at + 1 :]]
    return ["parse", *given] if is_redirected() else given


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _command_for(word: str) -> list[str] | None:
    """The words that stand for one input: a command and its arguments; None for a word that is no input."""
    if word == "-" or os.path.exists(word) or _matches_files(word):
        return ["parse", word]
    if is_hlo_text(word) and not {"[", "(", "<"}.isdisjoint(word):
        return ["parse", "--explain", word] if _OPERATION.search(word) else ["layout", word]
    dump, colon, name = word.rpartition(":")
    if colon and name and os.path.exists(dump):
        return ["layout", word] if is_named_element(name) else ["parse", dump, "--explain", name]
    if (numbered := _NUMBERED.fullmatch(word)) and os.path.isfile(numbered[1]):
        return ["parse", word]
    if _is_pasted(word):
        sys.stdin = io.TextIOWrapper(io.BytesIO(word.encode("utf-8", "surrogateescape")))
        return ["parse", "-"]
    return None


def _matches_files(word: str) -> bool:
    import glob

    from hlo_cli.inputs.input import LONGEST_PATTERN

    if len(word) > LONGEST_PATTERN or not glob.has_magic(word):
        return False
    return next(glob.iglob(word, recursive=True), None) is not None


def _is_pasted(word: str) -> bool:
    """Whether an argument is a text, not a word: a layout, a sharding, a line of a log, an error message."""
    return word.startswith("{") or "\n" in word or (len(word) > _LONGEST_WORD and " " in word)
