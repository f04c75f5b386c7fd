"""What does a command line mean whose first word is no command? An input's likely question, or an error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from shlex import quote
from typing import Final

from hlo_cli.commands.front.stdin import is_redirected
from hlo_cli.commands.shape.argument import is_hlo_text, is_named_element, is_sharding_text
from hlo_cli.inputs.files import exists, is_file, paths_matching
from hlo_cli.inputs.forms import is_remote
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.type_names import xla_type
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.unknown_choice import choice_hint
from hlo_cli.source import HloError, did_you_mean

# --- an input without a command ---
# Command lines that name an input and no command: the command that answers the most likely question about it.


_OPCODE_AND_PARENTHESIS = lazy_regex(r"[ \t\n=][a-z][a-z0-9\-]*+\(")
_NUMBERED = lazy_regex(r"(.+)#[1-9][0-9]*+")
_OVERVIEW: Final = "overview"
"""The command that answers the likely question about a dump: what is in it."""
_MODULE_FORMATS: Final = ("hlo", "pb")
"""Formats and extensions of files that only `parse` writes: modules as texts and protos."""
_OUTPUT: Final = ("-o", "--output")
_LONGEST_WORD = 60
"""Characters of a text with spaces that may be a mistyped command or file; a longer one is a pasted text."""


def with_command(arguments: Sequence[str], commands: Container[str]) -> list[str]:
    """The command line, completed with a command if it names none but an input: `overview`, or `layout` for a shape.

    A trace implies `profile`, a shape with a sharding `shard`, and an option that only `parse` has implies that.

    >>> with_command(["f32[8,128]", "--draw"], ("parse", "layout"))
    ['layout', 'f32[8,128]', '--draw']
    >>> with_command(["parse", "f32[8,128]"], ("parse", "layout"))
    ['parse', 'f32[8,128]']
    >>> with_command(["f32[8,128]", "{replicated}"], ("parse", "layout", "shard"))
    ['shard', 'f32[8,128]', '{replicated}']
    """
    typed = list(arguments)
    if not typed or typed[0] in commands:
        return typed
    if not _is_option(typed[0]):
        if len(typed) > 1 and is_sharding_text(typed[1]) and is_hlo_text(typed[0]):
            return ["shard", *typed]
        implied = _command_for(typed[0])
        if implied is None:
            return typed
        _check_order(typed, commands)
        return _with_options([*implied, *typed[1:]])
    words = [(index, word) for index, word in enumerate(typed) if not _is_option(word)]
    if any(word in commands for _, word in words):
        return typed
    for index, word in words:
        if (implied := _command_for(word)) is not None:
            return _with_options([implied[0], *typed[:index], *implied[1:], *typed[index + 1 :]])
    return _with_options([_OVERVIEW, *typed]) if is_redirected() else typed


def _check_order(typed: Sequence[str], commands: Container[str]) -> None:
    """Raises HloError for a command after its input.

    >>> _check_order(["dump/", "memspace"], ("parse", "memspace"))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: 'memspace' is after its input
      help: run `hlo memspace dump/`
    """
    if len(typed) > 1 and typed[1] in commands and not exists(typed[1]):
        line = " ".join(map(quote, (typed[1], typed[0], *typed[2:])))
        raise HloError(f"'{typed[1]}' is after its input", hint=f"run `hlo {line}`")


def _with_options(line: list[str]) -> list[str]:
    """The line with `parse` in place of `overview` for several inputs, and for options and formats of `parse` alone.

    >>> _with_options(["overview", "dump/", "--tree"]), _with_options(["overview", "dump/", "--json"])
    (['parse', 'dump/', '--tree'], ['overview', 'dump/', '--json'])
    >>> _with_options(["overview", "dump/", "--no-such-option"])
    ['overview', 'dump/', '--no-such-option']
    """
    if line[0] != _OVERVIEW:
        return line
    inputs = [word for before, word in pairwise(line) if before not in _OUTPUT and exists(word)]
    options = [word.partition("=")[0] for word in line[1:] if _is_option(word)]
    is_plain = len(inputs) <= 1
    if is_plain and options:
        from hlo_cli.commands.overview.command import options_of_parse_alone

        words = (word.rpartition("=")[2] for word in line[1:] if word not in inputs)
        # An option of neither is an error of the command that was meant.
        of_parse = options_of_parse_alone()
        is_plain = of_parse.isdisjoint(options) and not any(word.endswith(_MODULE_FORMATS) for word in words)
    return line if is_plain else ["parse", *line[1:]]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _command_for(word: str) -> list[str] | None:
    """The words that stand for one input: a command and its arguments; None for a word that is no input."""
    if word == "-" or exists(word) or _matches_files(word):
        from hlo_cli.read_traces import is_named_trace

        with suppress(HloError):  # of an archive or a URL that cannot be read: the command says why
            return ["profile" if is_named_trace(word) else _OVERVIEW, word]
        return [_OVERVIEW, word]
    if is_hlo_text(word) and not {"[", "(", "<"}.isdisjoint(word):
        return ["parse", "--explain", word] if _OPCODE_AND_PARENTHESIS.search(word) else ["layout", word]
    dump, colon, name = word.rpartition(":")
    if colon and name and exists(dump):
        return ["layout", word] if is_named_element(name) else ["parse", dump, "--explain", name]
    if (numbered := _NUMBERED.fullmatch(word)) and is_file(numbered[1]):
        return [_OVERVIEW, word]
    if _is_pasted(word):
        sys.stdin = io.TextIOWrapper(io.BytesIO(word.encode("utf-8", "surrogateescape")))
        return ["parse", "-"]
    return None


def _matches_files(word: str) -> bool:
    import glob

    from hlo_cli.inputs.input import LONGEST_PATTERN

    if len(word) > LONGEST_PATTERN or not glob.has_magic(word):
        return False
    if is_remote(word):  # the command asks the server
        return True
    elsewhere = paths_matching(word)
    return bool(elsewhere) if elsewhere is not None else next(glob.iglob(word, recursive=True), None) is not None


def _is_pasted(word: str) -> bool:
    """Whether an argument is a text, not a word: a layout, a sharding, a line of a log, an error message."""
    return word.startswith("{") or "\n" in word or (len(word) > _LONGEST_WORD and " " in word)


# --- a word that is nothing ---
# A first word that is no command and no input: the error that names the command that was probably meant.


_FILE = lazy_regex(r".*[./\\][\w.\-]*+")
_RULE = lazy_regex(r"(?i)HLO[0-9]++")
_SYNONYMS: Final = {
    "overview DUMP": "dump explore info inspect load module open show stat stats summarize summary",
    "parse DUMP": "cat print read text",
    "parse DUMP --explain NAME": "describe explain instruction",
    "parse DUMP --where EXPR": "filter find grep list query search",
    "parse DUMP --tree": "calls loops tree",
    "layout SHAPE": "shape shapes layouts",
    "layout DUMP": "pad padding waste",
    "tile-index SHAPE INDEX": "address element index offset tile tiles",
    "memspace DUMP": "alloc buffer buffers hbm mem oom peak ram usage vmem",
    "memspace DUMP --oom FILE": "out-of-memory resource_exhausted",
    "schedule DUMP": "collectives latency overlap timeline trace",
    "fuse DUMP": "flops fusions kernel kernels ops roofline",
    "shard DUMP": "mesh partition partitioning partitions replicated sharding shardings shards spmd",
    "shard DUMP --comms": "axes comm comms communication network",
    "graph DUMP": "dag dataflow dot draw graph graphviz svg viz",
    "run DUMP": "compute eval evaluate execute interpret interpreter simulate",
    "run OLD --against NEW": "equal equivalent isolate same verify-numerics",
    "run DUMP --probe nan": "inf nan nans overflow",
    "diff OLD NEW": "changes cmp compare delta",
    "report DUMP -o report.html": "dashboard export html overview page pages publish send share web website",
    "lint DUMP": "analyze audit check doctor validate verify warnings",
}
"""The command line for each word that others use for it."""


def unknown_word_error(word: str, commands: Iterable[str]) -> HloError:
    """The error for a first word that is no command and no input.

    >>> error = unknown_word_error("compare", ("parse", "diff"))
    >>> error.diagnostic.message, error.diagnostic.hint
    ("unknown command 'compare'", 'run `hlo diff OLD NEW`')
    """
    from hlo_cli.inputs.input import glob_paths

    glob_paths(word)  # raises its error for a pattern that matches no file
    type_name = word if word in PRIMITIVE_TYPES else xla_type(word)
    if _FILE.fullmatch(word) and type_name is None:
        return _missing_file(word)
    hint = f"for a shape of this type, run `hlo layout '{type_name}[8,128]'`" if type_name else None
    hint = hint or _hint_for(word, tuple(commands))
    if hint and not hint.startswith("did you mean"):
        return HloError(f"unknown command '{word}'", hint=hint)
    # a word that only resembles a command may as well be a file that is missing
    listing = "run `hlo --help` to list all commands; `hlo help dump` shows how to create a dump"
    return HloError(f"'{word}' is not a command, a file, or a directory", hint=hint or listing)


def _missing_file(path: str) -> HloError:
    from hlo_cli.inputs.files import missing

    error = missing(path)
    if error.diagnostic.hint:
        return error
    return HloError(error.diagnostic.message, hint="`hlo help dump` shows how to create a dump")


def _hint_for(word: str, commands: tuple[str, ...]) -> str:
    if _is_topic(word):
        return f"run `hlo help {word}` to read this topic"
    lower = word.lower()
    if lower in commands:
        return did_you_mean(lower) or ""
    if (line := next((line for line, words in _SYNONYMS.items() if lower in words.split()), None)) is not None:
        return f"run `hlo {line}`"
    if _RULE.fullmatch(word):
        return f"run `hlo lint --explain {word.upper()}`"
    hint = choice_hint("command", word, commands) if word[:1].isalpha() else None
    if hint is not None and hint.startswith("did you mean"):
        return hint
    return _fact_about(word) or ""


def _fact_about(word: str) -> str | None:
    """The command for a name from a dump or from the documents: an opcode, a chip, a term."""
    from hlo_cli.analysis.hardware.chips import find_chip
    from hlo_cli.ir.operations import is_known

    if is_known(word):
        return f"to list these instructions, run `hlo parse DUMP --where 'opcode == {word}'`"
    with suppress(HloError):
        find_chip(word)
        return "run `hlo help chips` to list the data of all chips"
    if _is_term(word):
        return f"run `hlo help glossary {quote(word)}`"
    return None


def _is_topic(name: str) -> bool:
    """Whether `hlo help` has a page of this name."""
    return name.replace("-", "").isalpha() and _page(name) is not None


def _is_term(word: str) -> bool:
    return f"- **{word.lower()}**" in (_page("glossary") or "")


def _page(name: str) -> str | None:
    from pkgutil import get_data

    with suppress(OSError):
        data = get_data("hlo_cli.commands.help", os.path.join("topics", f"{name}.md"))
        return None if data is None else data.decode("utf-8")
    return None
