"""`hlo shard DUMP`: parameters and results with their shardings and bytes per device."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.report.report import Report


def report_of_dump(loaded: Loaded, options: ShardOptions, argument: str, columns: Collection[str]) -> Report:
    """The parameters and results of a module."""
    raise HloError("not built")
