"""Settings: which rules run, how strict they are, and from which size on they speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from hlo_cli.source import Severity

When = Literal["auto", "always", "never"]
Kind = Literal["codes", "severity", "severities", "when", "flag", "count", "bytes", "fraction"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default; what each is for stands in `MEANINGS`.

    >>> Settings(padding_bytes=1 << 20).padding_fraction
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
        "padding_fraction": ("fraction", "HLO101: how much of a buffer may be padding"),
        "padding_bytes": ("bytes", "HLO101: how many bytes of padding are worth a word"),
        "copy_bytes": ("bytes", "HLO102: how large a copy is worth a word"),
    }
)
"""What kind of value each setting takes, and what it is for."""
