"""The array that a command line gives: a shape with one or two shardings, or an instruction of a dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.commands.shared.io_options import InputOptions
    from hlo_cli.commands.shared.shape_argument import NamedShape
    from hlo_cli.ir.attributes.mesh import Mesh
    from hlo_cli.ir.attributes.sharding import AnySharding
    from hlo_cli.ir.shape import Shape


@dataclass(frozen=True, slots=True)
class GivenArray:
    """A whole shape, its sharding, and the sharding to take it to, if there is one.

    `mesh` is given by --mesh, or named in the sharding or the dump; `named` is the instruction of DUMP:NAME.
    """

    shape: Shape
    sharding: AnySharding
    target: AnySharding | None
    mesh: Mesh | None
    named: NamedShape | None = None


def given_array(inputs: tuple[str, ...], options: ShardOptions, reading: InputOptions) -> GivenArray:
    """The array of SHAPE SHARDING [SHARDING] or DUMP:NAME; HloError, with its place, if a part cannot be read."""
    raise HloError(f"not built: {inputs}")
