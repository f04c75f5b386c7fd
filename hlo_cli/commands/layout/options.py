"""Options of `hlo layout`."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """The rows of a dump, or the view of a shape; names are those of the command's parameters."""

    grouping: str = "shape"
    computation: str | None = None
    where: str | None = None
    draw: bool = False
    generation: str | None = None
    each: bool = False
    jobs: int | None = None

    def check_for_shapes(self) -> None:
        """Raises HloError for an option that requires a dump."""
        for name in ("--computation", "--where", "--by"):
            if name in self.about_one:
                raise HloError(f"{name} requires a dump, not a shape", hint=f"pass a dump, or remove {name}")

    def check_for_dump(self) -> None:
        """Raises HloError for an option that requires a shape."""
        if self.draw or self.generation:
            option = "--draw" if self.draw else "--for"
            raise HloError(f"{option} requires a shape, not a dump", hint="name an instruction, such as DUMP:fusion.2")

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed.

        >>> LayoutOptions(grouping="source", where="rank > 1").about_one
        ['--by', '--where']
        """
        others = {
            "--by": self.grouping != "shape",
            "--computation": self.computation is not None,
            "--where": self.where is not None,
        }
        return [option for option, given in others.items() if given]
