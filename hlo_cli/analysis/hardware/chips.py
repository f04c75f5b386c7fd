"""The chips that are known, and how to find one by its name."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.hardware.amd_and_intel import AMD_AND_INTEL_GPUS
from hlo_cli.analysis.hardware.chip import Capacity, Chip, by_name, plain_name
from hlo_cli.analysis.hardware.nvidia import NVIDIA_GPUS
from hlo_cli.analysis.hardware.tpus import TPUS
from hlo_cli.source import HloError, nearest

__all__ = ["CHIPS", "Capacity", "Chip", "find_chip"]

CHIPS: Final = (*TPUS, *NVIDIA_GPUS, *AMD_AND_INTEL_GPUS)


def find_chip(name: str) -> Chip:
    """The chip of this name, however it is written; HloError with the nearest name, or all that it may mean.

    >>> find_chip("TPU v5 lite").name, find_chip("NVIDIA H100 80GB HBM3").name
    ('v5e', 'h100')
    >>> find_chip("v5")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: v5 may be v5e or v5p
    """
    word, chips = plain_name(name), by_name(CHIPS)
    if (chip := chips.get(word)) is not None:
        return chip
    longer = dict.fromkeys(chip.name for known, chip in chips.items() if word and known.startswith(word))
    shortest = min(longer, key=len, default="")
    if not all(plain_name(each).startswith(plain_name(shortest)) for each in longer):
        raise HloError(f"{name} may be {' or '.join(longer)}")
    near = next(iter(longer), None) or nearest(word, chips)
    hint = f"did you mean {chips[plain_name(near)].name}?" if near else None
    raise HloError(f"no chip is called {name}; known are {', '.join(chip.name for chip in CHIPS)}", hint=hint)
