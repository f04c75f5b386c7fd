"""How much known chips can calculate and move in a second, with the public source of every number.

All numbers are of one device as XLA counts them, as in `chips.py`: one core of TPU v2, v3 and 7x, one die of an AMD
MI250, else a whole chip. Flops are peaks of dense products, without sparsity; links count one direction, all together,
and so does the way to the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.gpu_rates import GPUS
from hlo_cli.analysis.hardware.rates import ChipSpec, Rate
from hlo_cli.analysis.hardware.tpu_rates import TPUS

__all__ = ["THROUGHPUTS", "ChipSpec", "Rate", "chip_spec"]

THROUGHPUTS: Final[Mapping[str, ChipSpec]] = MappingProxyType(
    {each.chip: replace(each, cache_bytes=find_chip(each.chip).fast_bytes) for each in (*TPUS, *GPUS)}
)
"""What every chip of `CHIPS` can do."""


def chip_spec(chip: str, own: Mapping[str, ChipSpec] | None = None) -> ChipSpec:
    """The throughput of a chip, however its name is written; `own` goes before what is known here.

    >>> chip_spec("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    name = find_chip(chip).name
    return own[name] if own and name in own else THROUGHPUTS[name]
