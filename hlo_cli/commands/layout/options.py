"""What is asked of `hlo layout`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

GROUPINGS = ("shape", "instruction", "computation", "opcode", "op_name", "source")


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """Which rows of a dump, or how a shape is shown; names are those of the command's parameters."""

    grouping: str = GROUPINGS[0]
    computation: str | None = None
    where: str | None = None
    draw: bool = False
    generation: str | None = None
    each: bool = False
    jobs: int | None = None

    def check_for_shapes(self) -> None:
        """HloError for an option that is about dumps."""
        for option in ("--computation", "--where", "--by"):
            if option in self.about_one:
                raise HloError(f"{option} is for a dump, not for a shape")

    def check_for_dump(self) -> None:
        """HloError for an option that is about shapes."""
        if self.draw or self.generation:
            option = "--draw" if self.draw else "--for"
            raise HloError(
                f"{option} is for a shape, not for a whole dump", hint="name an instruction, as DUMP:fusion.2"
            )

    @property
    def about_one(self) -> list[str]:
        """The options given that are about a single module, as they are typed.

        >>> LayoutOptions(grouping="source", where="rank > 1").about_one
        ['--by', '--where']
        """
        others = {
            "--by": self.grouping != GROUPINGS[0],
            "--computation": self.computation is not None,
            "--where": self.where is not None,
        }
        return [option for option, given in others.items() if given]
