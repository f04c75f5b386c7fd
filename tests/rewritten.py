"""Modules rewritten in every way that there is, for running them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import get_args

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.extract import extract
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from hlo_cli.transform.reorder import Goal, reorder
from hlo_cli.transform.sugar import desugar, sugar

GOALS: tuple[Goal, ...] = get_args(Goal)


def rewrites(module: Module, random: Random) -> Iterator[tuple[str, Module]]:
    """The module with all fusions taken apart, with one; fused again, in pairs, in another order, in other words."""
    fusions = [i.name for i in module.entry.instructions if i.opcode == "fusion"]
    apart = unfuse(module)
    yield "unfuse", apart
    yield "unfuse, apply", fuse(apart).module
    yield "apply", fuse(module).module
    for name in random.sample(fusions, min(2, len(fusions))):
        yield f"unfuse {name}", unfuse(module, [name])
    yield from fused_pairs(module, random, 2)
    yield from fused_pairs(apart, random, 2)
    goal = random.choice(GOALS)
    yield f"reorder {goal}", reorder(module, goal)
    yield f"unfuse, reorder {goal}", reorder(apart, goal)
    yield "sugar, desugar", desugar(sugar(module))


def fused_pairs(module: Module, random: Random, count: int) -> Iterator[tuple[str, Module]]:
    """The module with every pair fused that can be."""
    able = [(one, user) for user in module.entry.instructions for one in user.operands if one.opcode != "parameter"]
    for one, user in random.sample(able, len(able)):
        keep = random.random() < 0.3
        try:
            made = fuse_pair(module, one.name, user.name, keep=keep)
        except HloError:
            continue
        yield f"fuse {one.name},{user.name}{', keep' * keep}", made
        count -= 1
        if not count:
            return


def parts(module: Module, random: Random, count: int) -> Iterator[tuple[str, Module, Instruction]]:
    """Neighbourhoods of instructions of the entry."""
    for instruction in random.sample(module.entry.instructions, min(count, len(module.entry.instructions))):
        yield f"extract {instruction.name}", extract(module, instruction, operands=2, users=2), instruction
