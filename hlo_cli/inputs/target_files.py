"""The files with the compiler's target next to a dump."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from hlo_cli.inputs.compiler_files import read_plain
from hlo_cli.inputs.dumps import present_file
from hlo_cli.inputs.input import Input
from hlo_cli.source import HloError

_KINDS: Final = ("target_arguments.txt", "gpu_target_config.pbtxt")
_MAX_BYTES: Final = 1 << 20


def target_texts(dump: Input) -> Iterator[str]:
    """The texts of the files with the target, which begin like the dump's file; none for what is not from a directory.

    Mirrors `target_arguments.txt` of libtpu, and `gpu_target_config.pbtxt` of xla/service/dump.cc.

    >>> from hlo_cli import parse_module
    >>> list(target_texts(Input(parse_module("ROOT r = f32[2] negate(f32[2] a)").source, None)))
    []
    """
    if dump.path is None or dump.dump is None:
        return
    folder, name = os.path.split(dump.path)
    stage = f"{dump.target}_{dump.stage}" if dump.target else dump.dump.stage
    before, found, _ = name.partition(stage)
    for kind in _KINDS if found else ():
        if (path := present_file(os.path.join(folder, before + kind))) is not None:
            with suppress(HloError):
                yield read_plain(path, maximum_bytes=_MAX_BYTES).text
