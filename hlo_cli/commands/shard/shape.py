"""`hlo shard SHAPE SHARDING`: the part on each device, as a grid of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.report.report import Report


def report_of_shape(given: GivenArray, options: ShardOptions) -> Report:
    """What each device holds of an array."""
    raise HloError("not built")
