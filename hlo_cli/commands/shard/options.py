"""Which options does `hlo shard` have, and what do the axes of `--mesh` mean?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option
from hlo_cli.commands.options.declaring import (
    by_option,
    each_option,
    flag,
    jobs_option,
    option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import check_options, given_about
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import Mesh, MeshAxis
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Algorithm


# --- --mesh ---


_AXIS = lazy_regex(r"\s*+['\"]?([\w.\-]++)['\"]?\s*+[=:]\s*+([0-9]{1,9})\s*+")


def _read_mesh(text: str) -> Mesh:
    """The mesh in a text such as data=2,fsdp=4, major axis first; HloError if it is none.

    >>> print(_read_mesh("data=2, fsdp=4"))
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


ALGORITHMS: Final[tuple[Algorithm, ...]] = ("ring", "bidirectional", "oneshot")


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """The view of a sharding, or of a dump."""

    comms: bool = flag(
        "--comms", group="Reports", is_common=True, help="List collectives with their mesh axes and bytes.", about="one"
    )
    grouping: str | None = by_option("Group by", after=("axis", "instruction"), about="one")
    to: str | None = option(
        "--to",
        "SHARDING",
        group="Reports",
        is_common=True,
        complete=completion.shardings,
        help="Show the collectives that take the shape from its sharding to this one.",
    )
    device: int | None = option(
        "--device",
        "N",
        group="Reports",
        is_common=True,
        least=0,
        help="Show the part of the array on device N.",
        excludes=("--to",),
    )
    warning: str | None = option(
        "--warning",
        "FILE",
        group="Reports",
        is_common=True,
        complete=completion.files,
        help="Explain a warning about full rematerialization: a text, a file, or - for stdin.",
    )
    mesh: str | None = option(
        "--mesh",
        "AXES",
        group="Mesh",
        is_common=True,
        complete=completion.meshes,
        default_text="from the dump",
        help="Set the axes of the mesh with their sizes, major first, such as data=2,fsdp=4.",
    )
    algorithm: Algorithm = option(
        "--algorithm",
        "NAME",
        group="Mesh",
        choices=ALGORITHMS,
        default=ALGORITHMS[0],
        help=f"Set the algorithm for the bytes that a device sends: {joined_by_or(ALGORITHMS)}.",
        about="one",
        needs="--comms",
    )
    where: str | None = where_option(about="one")
    chip: str | None = chip_option("Estimate times on this chip", about="one", needs="--comms")
    chip_file: str | None = chip_file_option(about="one", needs="--comms")
    each: bool = each_option(about="dump")
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    def check_for_shape(self) -> None:
        """Raises HloError for an option that requires a dump, or for two views at once."""
        if self.about_dump:
            name = self.about_dump[0]
            raise HloError(f"{name} requires a dump, not a shape", hint=f"pass a dump, or remove {name}")
        check_options(self)

    def check_for_dump(self) -> None:
        """Raises HloError for an option that requires a shape and its sharding, or lacks another option."""
        if self.to is not None:
            raise HloError("--to requires a shape and its sharding, not a dump")
        if self.device is not None:
            raise HloError("--device requires a shape and its sharding, or DUMP:NAME")
        check_options(self)

    @property
    def about_dump(self) -> list[str]:
        """The given options that require a dump, as typed.

        >>> ShardOptions(comms=True, where="n > 1").about_dump
        ['--comms', '--where']
        """
        return given_about(self, "one", "dump")

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed."""
        return given_about(self, "one")

    @property
    def given_mesh(self) -> Mesh | None:
        """The mesh of --mesh; HloError if it cannot be read."""
        if self.mesh is None:
            return None

        return _read_mesh(self.mesh)
