"""What can users set: which rules run, how strict they are, and the smallest sizes to report?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Severity

When = Literal["auto", "always", "never"]
Kind = Literal["codes", "severity", "severities", "when", "flag", "count", "bytes", "fraction", "chip"]


@dataclass(frozen=True, slots=True)
class LintSettings:
    """Every setting with its default; `MEANINGS` describes them.

    >>> LintSettings(min_padding_bytes=1 << 20).max_padding_fraction
    0.5
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_severity: Severity = "note"
    severity: Mapping[str, Severity] = field(default_factory=lambda: MappingProxyType({}))
    strict: bool = False
    layout_sensitive: When = "auto"
    allow_mixed_precision: When = "auto"
    replica_count: int | None = None
    num_partitions: int | None = None
    # Half: more padding than data.
    max_padding_fraction: float = 0.5
    # 64 KiB take 0.08 us at v5e's 819 GB/s; less is hard to see in a profile. Chosen, not measured.
    min_padding_bytes: int = 64 * 1024
    min_copy_bytes: int = 64 * 1024
    chip: str | None = None
    max_peak_bytes: int | None = None
    # An eighth of v5e's 16 GiB; chosen.
    min_value_bytes: int = 2 * 1024**3
    # 1 MiB takes 1.3 us at 819 GB/s; chosen, not measured.
    min_donation_bytes: int = 1024**2
    # A hundredth of the memory is no reason to change a program; chosen.
    min_donation_fraction: float = 0.01
    min_argument_bytes: int = 1024**2
    min_constant_bytes: int = 1024**2
    min_prefetch_bytes: int = 1024**2
    # 256 KiB take 0.3 us of v5e's memory and 3 us over one link of v5p (90 GB/s); chosen, not measured.
    min_kernel_bytes: int = 256 * 1024
    min_transfer_bytes: int = 256 * 1024
    # Two or three are left apart by a combiner's limits, too; chosen.
    min_combinable_count: int = 4
    # 0.4% of 16 GiB on each device; chosen.
    min_replicated_bytes: int = 64 * 1024**2
    # bf16 has 8 significant bits: 256 + 1 rounds to 256, so longer sums of equal elements stop growing.
    min_accumulated_elements: int = 256


MEANINGS: Final[Mapping[str, tuple[Kind, str]]] = MappingProxyType(
    {
        "select": ("codes", "rules or groups to run, such as HLO1 or HLO101; empty: all default rules"),
        "ignore": ("codes", "rules or groups to skip"),
        "min_severity": ("severity", "lowest severity to report: error, warning, or note"),
        "severity": ("severities", "severity overrides by rule"),
        "strict": ("flag", "also report input that XLA's parser rejects (HLO002)"),
        "layout_sensitive": (
            "when",
            "check that layouts match where data is passed through; auto: in scheduled modules",
        ),
        "allow_mixed_precision": ("when", "allow mixed float types; auto: in modules optimized for TPU"),
        "replica_count": ("count", "number of replicas, if the header does not set it"),
        "num_partitions": ("count", "number of partitions, if the header does not set it"),
        "max_padding_fraction": ("fraction", "HLO101, HLO104, HLO802: largest allowed fraction of padding"),
        "min_padding_bytes": ("bytes", "HLO101, HLO104, HLO802: smallest padding to report"),
        "min_copy_bytes": ("bytes", "HLO102, HLO103, HLO105, HLO106, HLO204: smallest copy to report"),
        "chip": ("chip", "target chip, such as v5e (HLO104, HLO201, HLO701, HLO705)"),
        "max_peak_bytes": ("bytes", "HLO201: main memory limit, overriding that of the chip"),
        "min_value_bytes": ("bytes", "HLO202: smallest temporary to report"),
        "min_donation_bytes": ("bytes", "HLO203: smallest argument to report, with all of its arrays"),
        "min_donation_fraction": (
            "fraction",
            "HLO203: smallest total saving to report, as a fraction of the main memory used",
        ),
        "min_argument_bytes": ("bytes", "HLO206: smallest unused argument to report"),
        "min_constant_bytes": ("bytes", "HLO205: smallest constant to report"),
        "min_prefetch_bytes": ("bytes", "HLO207–HLO209, HLO401, HLO402: smallest on-device transfer to report"),
        "min_kernel_bytes": (
            "bytes",
            "HLO301–HLO305, HLO707, HLO801, HLO803, HLO804: smallest array between kernels to report",
        ),
        "min_transfer_bytes": ("bytes", "HLO4xx, HLO5xx: smallest transfer to report; HLO508 reports smaller ones"),
        "min_combinable_count": ("count", "HLO508: smallest number of combinable collectives to report"),
        "min_replicated_bytes": ("bytes", "HLO504: smallest replicated argument to report; HLO510: saving"),
        "min_accumulated_elements": (
            "count",
            "HLO703: smallest number of elements accumulated in a narrow type to report",
        ),
    }
)
"""The kind of value and the meaning of each setting."""
