"""Options that count like the TPU compiler: padded sizes, and the estimates of kernels.

Not part of XLA's public source; compared with libtpu 0.0.51: flops, transcendentals, and bytes are equal to the last
bit except for sorts, SparseCore calls, and collectives in fusions.
"""

from __future__ import annotations

from hlo_cli.analysis.cost.cost import CostOptions
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.source import HloError


def tpu_rules(chip: str, *, float32: bool = False) -> CostOptions:
    """Options of the compiler for a TPU; HloError for other chips.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> root = parse_module("r = f32[3]{0:T(128)} negate(f32[3]{0:T(128)} a)").entry.root
    >>> cost_of(root).bytes_accessed, cost_of(root, rules=tpu_rules("v5e")).bytes_accessed
    (24, 1024)
    """
    found = find_chip(chip)
    if found.tpu is None:
        tpus = ", ".join(chip.name for chip in known_chips() if chip.tpu is not None)
        raise HloError(f"'{found.name}' is not a TPU", hint=f"available: {tpus}")
    granule = found.tpu.table_granule
    return CostOptions(float32=float32, minus_one=float32, known_calls=True, padded=True, table_alignment=granule)
