"""The findings of `hlo lint` on a module that is read already, with the settings of the working directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.commands.lint.baseline import new_findings, read_baseline
from hlo_cli.commands.lint.measured import measured_findings
from hlo_cli.commands.lint.report import in_order, report_of
from hlo_cli.commands.lint.run import lint_loaded
from hlo_cli.commands.lint.settings import chip_setting, load_config
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.commands.options.chips import chosen_throughput
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.report.report import Report

if TYPE_CHECKING:
    from hlo_cli.commands.profile.load import Loaded as LoadedProfile

_BY_COST = "cost"


def report_of_findings(
    loaded: Loaded, options: ReportOptions, argument: str, profile: LoadedProfile | None = None
) -> Report:
    """What `hlo lint` reports: errors first, then the findings that cost most; those of a baseline are only counted.

    With a profile, those on kernels that take most time are first.
    """
    given = {"chip": chip_setting(options.chip, options.chip_file)}
    config = load_config(given, (), isolated=False)
    name = config.settings.chip if options.chip_file is None else options.chip
    result = lint_loaded(loaded, config.settings, chip=chosen_throughput(name, options.chip_file))
    found = result.found
    if config.baseline is not None:
        found = tuple(new_findings(found, read_baseline(config.baseline)))
    measured = None if profile is None else measured_findings(found, result, profile, loaded)
    found = found if measured is None else measured.found
    return report_of(result, in_order(found, _BY_COST), config.settings, argument, measured=measured)
