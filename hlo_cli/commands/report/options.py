"""Options of `hlo report`."""

from __future__ import annotations

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option, chosen_throughput
from hlo_cli.commands.options.declaring import OUTPUT, each_option, flag, jobs_option, option, timeout_option
from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The chip to judge by, whether to show the page in a browser, and whether each of many modules has a page."""

    open: bool = flag("--open", group=OUTPUT, is_common=True, help="Show the page in a web browser.")
    chip: str | None = chip_option("Estimate times and check memory for this chip")
    chip_file: str | None = chip_file_option()
    profile: str | None = option(
        "--profile",
        "TRACE",
        group="Time estimates",
        is_common=True,
        complete=completion.files,
        help="Show the times that a profiler measured in TRACE.",
    )
    each: bool = each_option("Write one row per module, and pages with -o (the default for several).")
    jobs: int | None = jobs_option("Use N processes with --each; 0 uses all CPU cores.")
    timeout: int | None = timeout_option()

    def check_chip(self) -> None:
        """Raises HloError for an unknown chip or an unreadable file, before any module is read."""

        chosen_throughput(self.chip, self.chip_file)
