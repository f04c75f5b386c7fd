"""How much chips can calculate and move in a second: of a known chip, or of one from a file.

All numbers are of one device as XLA counts them, as in `chip.py`. Flops are peaks of dense products, without sparsity;
links count one direction, all together, and so does the way to the host.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.rates import ChipSpec, Rate

__all__ = ["ChipSpec", "Rate", "chip_spec"]


def chip_spec(chip: str, own: Mapping[str, ChipSpec] | None = None) -> ChipSpec:
    """The throughput of a chip, however its name is written; `own` goes before what is known here.

    >>> chip_spec("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    known = find_chip(chip)
    return own[known.name] if own and known.name in own else known.spec
