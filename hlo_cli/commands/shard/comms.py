"""`hlo shard DUMP --comms`: collectives by mesh axis, with the bytes that a device sends."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.report.report import Report


def report_of_comms(loaded: Loaded, options: ShardOptions, argument: str, columns: Collection[str]) -> Report:
    """The collectives of a module, in groups of axis and kind."""
    raise HloError("not built")
