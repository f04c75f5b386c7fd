"""Options of `hlo report`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The chip to judge by, whether to show the page in a browser, and whether each of many modules has a page.

    Names are those of the command's parameters.
    """

    chip: str | None = None
    chip_file: str | None = None
    open: bool = False
    each: bool = False
    jobs: int | None = None
    profile: str | None = None

    def check_chip(self) -> None:
        """Raises HloError for an unknown chip or an unreadable file, before any module is read."""
        from hlo_cli.commands.options.chips import chosen_throughput

        chosen_throughput(self.chip, self.chip_file)
