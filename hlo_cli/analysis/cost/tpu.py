"""How the TPU compiler counts costs: with the padded sizes of arrays, and the estimates that kernels carry.

Not in XLA's public source. Found by comparison with what libtpu 0.0.51 says: flops, transcendentals and bytes are the
same to the last bit, but for sorts, calls of a SparseCore, and collectives that run inside of fusions.
"""

from __future__ import annotations

from hlo_cli.analysis.cost.cost import CostOptions
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.source import HloError


def tpu_rules(chip: str, *, float32: bool = False) -> CostOptions:
    """The rules of the compiler for this TPU; HloError for other chips.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> root = parse_module("r = f32[3]{0:T(128)} negate(f32[3]{0:T(128)} a)").entry.root
    >>> cost_of(root).bytes_accessed, cost_of(root, rules=tpu_rules("v5e")).bytes_accessed
    (24, 1024)
    """
    found = find_chip(chip)
    if found.tpu is None:
        tpus = ", ".join(chip.name for chip in known_chips() if chip.tpu is not None)
        raise HloError(f"{found.name} is no TPU; the rules are known for {tpus}")
    granule = found.tpu.table_granule
    return CostOptions(float32=float32, minus_one=float32, known_calls=True, padded=True, table_alignment=granule)
