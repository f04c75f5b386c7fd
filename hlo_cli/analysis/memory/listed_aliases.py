"""Operands and results that share memory according to `aliasing_operands` in the backend_config of TPU dumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex

_MARK: Final = '"aliasing_operands":'


def listed_aliases(instruction: Instruction) -> tuple[frozenset[int], ...] | None:
    """Returns the groups of array leaves that may share memory; None without `aliasing_operands`.

    Leaves are numbered through the arrays of all operands, then those of the result.

    >>> from hlo_cli import parse_module
    >>> config = '{"aliasing_operands":{"lists":[{"indices":["0","1"]}]}}'
    >>> root = parse_module(f"r = f32[8] fusion(f32[8] a), kind=kLoop, backend_config={config}").entry.root
    >>> listed_aliases(root)
    (frozenset({0, 1}),)
    """
    if _MARK not in instruction.raw[1]:
        return None
    config = instruction.backend_config
    lists = config.get("aliasing_operands", "lists") if config is not None else None
    return tuple(_numbers(lists)) if isinstance(lists, Sequence) else None


def _numbers(lists: Sequence[object]) -> Iterator[frozenset[int]]:
    """Yields the leaf numbers of each group."""
    for listed in lists:
        indices = listed.get("indices") if isinstance(listed, Mapping) else None
        if isinstance(indices, Sequence):
            texts = (index for index in indices if isinstance(index, str) and index.isdecimal() and len(index) < 9)
            yield frozenset(map(int, texts))


def operand_leaf(instruction: Instruction, position: int, index: ShapeIndex) -> int:
    """Returns the leaf number of an array of an operand."""
    before = sum(len(_arrays(operand.shape)) for operand in instruction.operands[:position])
    return before + _arrays(instruction.operands[position].shape).get(index, -1 - before)


def result_leaf(instruction: Instruction, index: ShapeIndex) -> int:
    """Returns the leaf number of an array of the result; results are numbered after all operands."""
    before = sum(len(_arrays(operand.shape)) for operand in instruction.operands)
    return before + _arrays(instruction.shape).get(index, -1 - before)


def _arrays(shape: Shape) -> dict[ShapeIndex, int]:
    """Returns the ordinal of each array leaf of a shape, by shape index."""
    found = (index for index, leaf in shape.leaves if isinstance(leaf, ArrayShape))
    return {index: number for number, index in enumerate(found)}
