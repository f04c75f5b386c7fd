"""`hlo shard --warning`: what full rematerialization costs, and which sharding would avoid it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.report.report import Report


def report_of_warning(options: ShardOptions) -> Report:
    """The answer to the warnings in a text, in a file, or on standard input."""
    raise HloError("not built")
