"""`hlo shard` on several modules: a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.commands.shared.io_options import InputOptions, OutputOptions
    from hlo_cli.commands.shared.selection import Many


def shard_each(many: Many, reading: InputOptions, options: ShardOptions, output: OutputOptions) -> int:
    """Writes one row for each module."""
    raise HloError("not built")
