"""A command line of hlo run in this process, as if in a folder and an environment of its own: a fresh one takes longer."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from hlo_cli.analysis.cache import sharing
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.source import Source
from hlo_cli.syntax.text import parser
from hlo_cli.syntax.text.build import Infer

Answer = tuple[str, str, int]
"""What a command line writes to standard output and to standard error, and its exit code."""


def run(
    arguments: Sequence[str], *, folder: Path, settings: Mapping[str, str], cleared: Collection[str] = ()
) -> Answer:
    """What `hlo ARGUMENT…` answers, with these variables of the environment and without those that are cleared."""
    out, err, empty = _stream(), _stream(), _stream()
    with surroundings(folder, settings, cleared), redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", empty):
        code = main(list(arguments), standalone=False)
    return _written(out), _written(err), code


def pipe_of(line: str) -> tuple[str, str] | None:
    """A command line of hlo, and the line of a shell that reads what it writes; None for all but such a pipe.

    >>> pipe_of("hlo parse x --where 'a | b' | cut -f 1 | head")
    ("hlo parse x --where 'a | b' ", ' cut -f 1 | head')
    >>> pipe_of("hlo parse x --format pb | hlo parse -"), pipe_of("hlo parse x > y | cat"), pipe_of("hlo parse x")
    (None, None, None)
    """
    plain = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), line)
    first, bar, _ = plain.partition("|")
    if (
        not bar
        or _FOR_A_SHELL.search(first)
        or not re.match(r"(\w+=\S* )*hlo ", plain)
        or "hlo " in plain[len(first) :]
    ):
        return None
    return line[: len(first)], line[len(first) + 1 :]


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_FOR_A_SHELL = re.compile(r"[&;<>()$`\\*?~#\n]")
"""What a shell understands outside quotes, besides pipes."""


def through(text: str, line: str, *, folder: Path, settings: Mapping[str, str]) -> str:
    """What a shell writes that reads a text from standard input."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, **settings},
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    return done.stdout.decode()


_KEPT_CHARACTERS = 2_000_000
"""Texts of modules that are kept together: ten large dumps, whose results take a few hundred MB."""


@contextmanager
def modules_kept() -> Iterator[None]:
    """Within it, a text is read once, and what is computed of its module too, as far as there is memory.

    For questions about files that no test changes: what a module knows of the files next to it is kept as well.
    """
    kept: dict[tuple[str, str, str, Infer | None], Module] = {}
    read = parser._parse

    def read_once(source: Source, infer: Infer | None) -> Module:
        key = (os.getcwd(), source.name, source.text, infer)
        if key not in kept:
            if sum(len(text) for _, _, text, _ in kept) > _KEPT_CHARACTERS:
                kept.clear()
                results.close()
                results.enter_context(sharing())
            kept[key] = read(source, infer)
        return kept[key]

    with ExitStack() as results, patch.object(parser, "_parse", read_once):
        results.enter_context(sharing())
        yield


@contextmanager
def surroundings(folder: Path, settings: Mapping[str, str], cleared: Collection[str]) -> Iterator[None]:
    """A folder and an environment."""
    before = Path.cwd()
    with patch.dict(os.environ, settings):
        for name in cleared:
            os.environ.pop(name, None)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
