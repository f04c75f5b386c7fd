"""Options of `hlo profile`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The view of a profile; names are those of the command's parameters, and `name` is that of an instruction."""

    name: str | None = None
    chip: str | None = None
    chip_file: str | None = None
