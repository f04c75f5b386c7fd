"""Options of `hlo report`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The chip to judge by, and whether to show the page in a browser; names are those of the command's parameters."""

    chip: str | None = None
    chip_file: str | None = None
    open: bool = False
    jobs: int | None = None
