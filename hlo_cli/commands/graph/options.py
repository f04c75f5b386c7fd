"""Options of `hlo graph`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Which part of the module to show; names are those of the command's parameters."""

    computation: str | None = None
    around: str | None = None
    depth: int = 2
    chip: str | None = None
    chip_file: str | None = None
    open: bool = False
