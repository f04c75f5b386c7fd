"""`load`: from a path to a module in one call."""

from __future__ import annotations

import os

from hlo_cli.inputs.input import choose_one, read_inputs
from hlo_cli.ir.module import Module
from hlo_cli.syntax.read import read_module


def load(path: str | os.PathLike[str], *, stage: str | None = None, module: str | None = None) -> Module:
    """The module in a file, in a directory that `--xla_dump_to` wrote, or on standard input, which is `-`.

    Of several stages the newest is taken, of several modules the largest; `stage` and `module` choose by name, or by a
    part of it. Raises HloError for what cannot be read.

    >>> load("/no/such/dump")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: there is no folder /no/such
    """
    chosen = choose_one(read_inputs([os.fspath(path)], stage=stage, module=module))
    return read_module(chosen.source, chosen.proto)
