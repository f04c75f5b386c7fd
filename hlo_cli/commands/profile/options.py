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
    against: str | None = None
    against_dump: str | None = None

    def check(self) -> None:
        """HloError for options that have no effect together."""
        from hlo_cli.commands.shared.option_conflicts import conflict_error, requirement_error

        if self.against is None:
            if self.against_dump is not None:
                raise requirement_error("--against-dump", "--against OLD")
            return
        others = {
            f"'{self.name}'": self.name is not None,
            "--by": self.grouping not in (None, GROUPINGS[0]),
            "--where": self.where is not None,
            "--chip": self.chip is not None,
            "--chip-file": self.chip_file is not None,
        }
        for option in (name for name, is_given in others.items() if is_given):
            raise conflict_error(option, "--against")
