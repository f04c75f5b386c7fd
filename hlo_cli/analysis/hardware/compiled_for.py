"""The chip that a module was compiled for, by the texts that compilers write about their target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.tpus import LIBTPU_VERSIONS
from hlo_cli.lazy_regex import lazy_regex

_VERSION: Final = lazy_regex(r"\bversion: TPU_VERSION_(\w+)")
_VARIANT: Final = lazy_regex(r'\bvariant: "(\w*)"')
_DEVICE: Final = lazy_regex(r'\bdevice_description_str: "([^"\n]{0,200})"')


def chip_in(texts: Iterable[str]) -> str | None:
    """The name of the chip in the first text that names a target; None if none does, or it is not known.

    Mirrors `target_arguments.txt` of libtpu, and `GpuTargetConfigProto` of xla/stream_executor.

    >>> chip_in(['version: TPU_VERSION_VIPERFISH  variant: "lite"'])
    'v5e'
    """
    for text in texts:
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
