"""The chip that a dump was compiled for, by the files that the compiler wrote next to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.tpus import LIBTPU_VERSIONS
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.inputs.compiler_files import read_plain
from hlo_cli.inputs.input import Input
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

_VERSION: Final = lazy_regex(r"\bversion: TPU_VERSION_(\w+)")
_VARIANT: Final = lazy_regex(r'\bvariant: "(\w*)"')
_DEVICE: Final = lazy_regex(r'\bdevice_description_str: "([^"\n]{0,200})"')
_ENDINGS: Final = ("", ".gz", ".xz", ".bz2", ".zst")
_MAX_BYTES: Final = 1 << 20


def chip_of_dump(loaded: Loaded) -> str | None:
    """The name of the chip in the compiler's target arguments; None if there are none, or it is not known.

    Mirrors the files `target_arguments.txt` of libtpu, and `gpu_target_config.pbtxt` of xla/service/dump.cc.
    """
    for text in _texts(loaded.input):
        if version := _VERSION.search(text):
            variant = _VARIANT.search(text)
            return LIBTPU_VERSIONS.get((version[1], variant[1] if variant else ""))
        if device := _DEVICE.search(text):
            return _gpu_named(device[1])
    return None


def _gpu_named(description: str) -> str | None:
    """The GPU whose name is the longest that a description contains.

    >>> _gpu_named("NVIDIA H100 80GB HBM3"), _gpu_named("H100 SXM"), _gpu_named("unknown")
    ('h100', 'h100', None)
    """
    words = frozenset(description.lower().replace("-", " ").split())
    found = [chip.name for chip in known_chips() if chip.target == "gpu" and chip.name in words]
    return max(found, key=len, default=None)


def _texts(dump: Input) -> Iterator[str]:
    """The texts of the files with the target next to a dump, which begin like the dump's file."""
    if dump.path is None or dump.dump is None:
        return
    folder, name = os.path.split(dump.path)
    stage = f"{dump.target}_{dump.stage}" if dump.target else dump.dump.stage
    before, found, _ = name.partition(stage)
    for kind in ("target_arguments.txt", "gpu_target_config.pbtxt") if found else ():
        for ending in _ENDINGS:
            place = os.path.join(folder, before + kind + ending)
            if os.path.isfile(place):
                with suppress(HloError):
                    yield read_plain(place, maximum_bytes=_MAX_BYTES).text
