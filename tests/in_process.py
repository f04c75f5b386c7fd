"""A command line of hlo run in this process, as if in a folder and an environment of its own: a fresh one takes longer."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from hlo_cli.cli import main

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
