"""Options of `hlo profile`."""

from __future__ import annotations

from typing import Final

from hlo_cli.dataclass import dataclass

GROUPINGS: Final = (
    *("instruction", "source", "scope", "argument", "opcode", "kind"),
    *("axis", "computation", "module", "step", "device"),
)
"""The groupings of --by, the default first."""


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The view of a profile; names are those of the command's parameters, and `name` is that of an instruction."""

    name: str | None = None
    grouping: str | None = None
    lost: bool = False
    where: str | None = None
    chip: str | None = None
    chip_file: str | None = None
