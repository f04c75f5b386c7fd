"""Options of `hlo profile`."""

from __future__ import annotations

from typing import Final

from hlo_cli.commands.options.io_options import conflict_error, requirement_error
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
    exposed: bool = False
    predicted: bool = False
    timeline: bool = False
    step: str | None = None
    where: str | None = None
    chip: str | None = None
    chip_file: str | None = None
    against: str | None = None
    against_dump: str | None = None

    def check(self) -> None:
        """Raises HloError for options that have no effect together."""
        views = self._views
        if len(views) > 1:
            raise conflict_error(views[1], views[0])
        if self.against is None and self.against_dump is not None:
            raise requirement_error("--against-dump", "--against OLD")
        if self.step is not None and not self.timeline:
            raise requirement_error("--step", "--timeline")
        narrowed = {
            "--where": self.where is not None and (self.against is not None or self.name is not None),
            "--chip": self.chip is not None and self.against is not None,
            "--chip-file": self.chip_file is not None and self.against is not None,
        }
        for name in (name for name, is_given in narrowed.items() if is_given):
            raise conflict_error(name, views[0])

    @property
    def _views(self) -> list[str]:
        """The given arguments and options that select a report, as typed."""
        selected = {
            f"'{self.name}'": self.name is not None,
            "--by": self.grouping not in (None, GROUPINGS[0]),
            "--lost": self.lost,
            "--exposed": self.exposed,
            "--predicted": self.predicted,
            "--timeline": self.timeline,
            "--against": self.against is not None,
        }
        return [option for option, is_given in selected.items() if is_given]
