"""Peak rates of chips, known or read from a file.

All numbers are per device as XLA counts them, as in `chip.py`. FLOP/s are peaks of dense matmuls without sparsity.
Link rates are the sum of all links in one direction; the rate to the host is in one direction too.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.rates import ChipSpec, Rate

__all__ = ["ChipSpec", "Rate", "chip_spec"]


def chip_spec(chip: str, own: Mapping[str, ChipSpec] | None = None) -> ChipSpec:
    """Returns the specification of a chip by any of its names; `own` takes precedence over the known ones.

    >>> chip_spec("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    known = find_chip(chip)
    return own[known.name] if own and known.name in own else known.spec
