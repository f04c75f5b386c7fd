"""What users call a dimension: only where the labels of the arguments leave no doubt."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.statements.arguments import Argument
from hlo_cli.analysis.statements.shape_changes import ShapeDelta
from hlo_cli.analysis.statements.sizes import SizeGroup, Sizes
from hlo_cli.ir.shape import ArrayShape


def dimension_name(
    sizes: Sizes, group: SizeGroup, changed: Sequence[tuple[Argument, ShapeDelta]], arguments: Sequence[Argument]
) -> str:
    """The name of a size that changed: `batch size`, `sequence length`, `vocabulary size`, `hidden size`, or empty.

    - A batch is the first dimension of arguments that are not weights, a sequence another dimension of integers.
    - A vocabulary occurs in an embedding, and in no other weights than that and the output layer.
    - A hidden size is in most of the weights that are matrices.
    """
    of_group = [argument for argument, delta in changed if any(sizes.group_of(pair) is group for pair in delta.sizes)]
    if not of_group or not any(each.label for each in arguments):
        return ""
    if not any(each.is_weight for each in of_group):
        return _data_name(group, of_group, arguments)
    weights = [each for each in of_group if each.is_weight]
    if all(each.is_of_vocabulary for each in weights):
        return "vocabulary size"
    matrices = [each for each in arguments if each.is_weight and each.rank > 1]
    has_most = 2 * sum(each.rank > 1 for each in weights) > len(matrices) > 1
    return "hidden size" if has_most and group.base[0] > 1 else ""


def _data_name(group: SizeGroup, changed: Sequence[Argument], arguments: Sequence[Argument]) -> str:
    if not any(each.is_weight for each in arguments):
        return ""
    sizes = {pair[0] for pair in (group.base, *group.also)}
    places = {place for each in changed for place in _places(each, sizes)}
    if places == {0}:
        return "batch size"
    return "sequence length" if 0 not in places and any(each.is_integer for each in changed) else ""


def _places(argument: Argument, sizes: set[int]) -> list[int]:
    shape = argument.parameter.shape
    return [at for at, size in enumerate(shape.dimensions) if size in sizes] if isinstance(shape, ArrayShape) else []
