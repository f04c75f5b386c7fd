"""Settings: which rules run, how strict they are, and the smallest sizes to report."""

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

    >>> LintSettings(padding_bytes=1 << 20).padding_fraction
    0.5
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    least_severity: Severity = "note"
    severity: Mapping[str, Severity] = field(default_factory=lambda: MappingProxyType({}))
    strict: bool = False
    layout_sensitive: When = "auto"
    mixed_precision: When = "auto"
    replica_count: int | None = None
    num_partitions: int | None = None
    padding_fraction: float = 0.5
    padding_bytes: int = 64 * 1024
    copy_bytes: int = 64 * 1024
    chip: str | None = None
    peak_limit: int | None = None
    value_bytes: int = 2 * 1024**3
    donation_bytes: int = 1024**2
    donation_fraction: float = 0.01
    argument_bytes: int = 1024**2
    constant_bytes: int = 1024**2
    prefetch_bytes: int = 1024**2
    kernel_bytes: int = 256 * 1024
    transfer_bytes: int = 256 * 1024
    combined_count: int = 4
    replicated_bytes: int = 64 * 1024**2
    summed_elements: int = 256


MEANINGS: Final[Mapping[str, tuple[Kind, str]]] = MappingProxyType(
    {
        "select": ("codes", "rules to run, as HLO1 or HLO101; none means all that are on by default"),
        "ignore": ("codes", "rules not to run"),
        "least_severity": ("severity", "the mildest findings to show: error, warning or note"),
        "severity": ("severities", "another severity for some rules"),
        "strict": ("flag", "HLO002 as well: what XLA's own parser rejects"),
        "layout_sensitive": ("when", "compare layouts where data only moves through; auto: in scheduled modules"),
        "mixed_precision": ("when", "take all float types for one; auto: in what the TPU compiler has optimized"),
        "replica_count": ("count", "how many replicas run the module, where its header does not say"),
        "num_partitions": ("count", "how many partitions there are, where the header does not say"),
        "padding_fraction": ("fraction", "HLO101, HLO104: how much of a buffer may be padding"),
        "padding_bytes": ("bytes", "HLO101, HLO104: how many bytes of padding are worth a word"),
        "copy_bytes": ("bytes", "HLO102, HLO103, HLO105, HLO106, HLO204: how large a copy is worth a word"),
        "chip": (
            "chip",
            "the chip that the module is for, as v5e: for HLO104, HLO701, HLO705 and as the limit of HLO201",
        ),
        "peak_limit": ("bytes", "HLO201: how much main memory the module may take, in place of the chip's"),
        "value_bytes": ("bytes", "HLO202: how large a single value may be"),
        "donation_bytes": ("bytes", "HLO203: how large an argument is worth giving away"),
        "donation_fraction": ("fraction", "HLO203: how much of the memory taken such arguments are together"),
        "argument_bytes": ("bytes", "HLO206: how large an argument that nobody reads is worth a word"),
        "constant_bytes": ("bytes", "HLO205: how large a constant may be"),
        "prefetch_bytes": (
            "bytes",
            "HLO207 to HLO209, HLO401, HLO402: how large a move within a device is worth a word",
        ),
        "kernel_bytes": ("bytes", "HLO301 to HLO305, HLO707: how much that goes through memory is worth a word"),
        "transfer_bytes": (
            "bytes",
            "HLO4 and HLO5: how large a transfer, to devices or the host, is worth a word",
        ),
        "combined_count": ("count", "HLO508: how many small collectives could be one before it is worth a word"),
        "replicated_bytes": ("bytes", "HLO504: how large a value that all devices hold may be"),
        "summed_elements": ("count", "HLO703: how many elements may be summed in a narrow type"),
    }
)
"""The kind of value and the meaning of each setting."""
