"""Options that count like the TPU compiler: padded sizes, and the estimates of kernels.

Not part of XLA's public source; compared with libtpu 0.0.51: flops, transcendentals, and bytes are equal to the last
bit except for sorts, SparseCore calls, and collectives in fusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.cost.cost import CostOptions
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.source import HloError

TABLE_ALIGNMENT: Final[Mapping[str, int]] = MappingProxyType(
    {"v2": 1024, "v3": 1024, "v4": 512, "v4-core": 512, "v5e": 512, "v5p": 32, "v6e": 32, "7x": 32}
)
"""Alignment in bytes of tuple tables, by TPU generation."""


def tpu_rules(chip: str, *, float32: bool = False) -> CostOptions:
    """Options of the compiler for a TPU; HloError for other chips.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> root = parse_module("r = f32[3]{0:T(128)} negate(f32[3]{0:T(128)} a)").entry.root
    >>> cost_of(root).bytes_accessed, cost_of(root, rules=tpu_rules("v5e")).bytes_accessed
    (24, 1024)
    """
    name = find_chip(chip).name
    if name not in TABLE_ALIGNMENT:
        raise HloError(f"{name} is no TPU; the rules are known for {', '.join(TABLE_ALIGNMENT)}")
    return CostOptions(
        float32=float32, minus_one=float32, known_calls=True, padded=True, table_alignment=TABLE_ALIGNMENT[name]
    )
