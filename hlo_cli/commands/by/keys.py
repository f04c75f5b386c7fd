"""The keys of `--by`: those of a module or, for `pass`, those that its per-pass dumps give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.analysis.origin.keys import By, Keys, keys_of
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shared.load import Loaded


def keys_for(loaded: Loaded, by: By) -> Keys:
    """The keys of a module's values; HloError for `pass` if there are no per-pass dumps next to the module."""
    if by != "pass":
        return keys_of(loaded.module, by)
    raise HloError(
        "--by pass requires per-pass dumps in the directory of the dump",
        hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
    )
