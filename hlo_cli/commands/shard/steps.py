"""`hlo shard SHAPE SHARDING --to SHARDING`: the collectives that take an array from one sharding to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.report.report import Report


def report_of_steps(given: GivenArray, options: ShardOptions) -> Report:
    """The steps with their bytes, and the nearest sharding that needs none."""
    raise HloError("not built")
