"""Which options does `hlo shard` have, and what do the axes of `--mesh` mean?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options.io_options import conflict_error
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import Mesh, MeshAxis
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Algorithm


# --- --mesh ---
# `--mesh data=2,fsdp=4`: the axes of the mesh, named by the user.


_AXIS = lazy_regex(r"\s*+['\"]?([\w.\-]++)['\"]?\s*+[=:]\s*+([0-9]{1,9})\s*+")


def read_mesh(text: str) -> Mesh:
    """The mesh in a text such as data=2,fsdp=4, major axis first; HloError if it is none.

    >>> print(read_mesh("data=2, fsdp=4"))
    mesh['data'=2,'fsdp'=4]
    """
    axes = list[MeshAxis]()
    for item in text.strip().strip("{}[]()").split(","):
        match = _AXIS.fullmatch(item)
        if match is None or int(match[2]) < 1:
            raise HloError(f"--mesh {text}: expected axes such as data=2,fsdp=4")
        if any(axis.name == match[1] for axis in axes):
            raise HloError(f"--mesh {text}: axis {match[1]} is named twice")
        axes.append(MeshAxis(match[1], int(match[2])))
    return Mesh(tuple(axes))


# --- options ---
# Options of `hlo shard`.


ALGORITHMS: Final[tuple[Algorithm, ...]] = ("ring", "bidirectional", "oneshot")


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """The view of a sharding, or of a dump; names are those of the command's parameters."""

    mesh: str | None = None
    device: int | None = None
    to: str | None = None
    warning: str | None = None
    comms: bool = False
    algorithm: Algorithm = ALGORITHMS[0]
    grouping: str | None = None
    where: str | None = None
    chip: str | None = None
    chip_file: str | None = None
    each: bool = False
    jobs: int | None = None

    def check_for_shape(self) -> None:
        """Raises HloError for an option that requires a dump, or for two views at once."""
        if self.about_dump:
            option = self.about_dump[0]
            raise HloError(f"{option} requires a dump, not a shape", hint=f"pass a dump, or remove {option}")
        if self.to is not None and self.device is not None:
            raise conflict_error("--to", "--device")

    def check_for_dump(self) -> None:
        """Raises HloError for an option that requires a shape and its sharding."""
        if self.to is not None:
            raise HloError("--to requires a shape and its sharding, not a dump")
        if self.device is not None:
            raise HloError("--device requires a shape and its sharding, or DUMP:NAME")

    def check_without_comms(self) -> None:
        """Raises HloError for an option that requires --comms."""
        needing = {
            "--chip": self.chip is not None,
            "--chip-file": self.chip_file is not None,
            "--algorithm": self.algorithm != ALGORITHMS[0],
        }
        for option, is_given in needing.items():
            if is_given:
                raise HloError(f"{option} requires --comms")

    @property
    def about_dump(self) -> list[str]:
        """The given options that require a dump, as typed.

        >>> ShardOptions(comms=True, where="n > 1").about_dump
        ['--comms', '--where']
        """
        others = {
            "--comms": self.comms,
            "--by": self.grouping is not None,
            "--where": self.where is not None,
            "--chip": self.chip is not None,
            "--chip-file": self.chip_file is not None,
            "--each": self.each,
        }
        return [option for option, given in others.items() if given]

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed."""
        return [option for option in self.about_dump if option != "--each"]

    @property
    def given_mesh(self) -> Mesh | None:
        """The mesh of --mesh; HloError if it cannot be read."""
        if self.mesh is None:
            return None

        return read_mesh(self.mesh)
