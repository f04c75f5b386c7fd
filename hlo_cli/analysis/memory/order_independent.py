"""Analyses that do not depend on the schedule: dataflow, alias sets, and buffers.

Mirrors `HloAliasAnalysis` of xla/hlo/analysis/hlo_alias_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.dataflow.flat_schedule import AsyncChain, InPlace, Positions, async_chains, places_of
from hlo_cli.analysis.dataflow.value_sets import AliasSets, Dataflow, alias_sets, dataflow_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generation
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.layout.padding import generation_of, prefetched_space
from hlo_cli.analysis.memory.buffers import Buffer, buffers_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module

# gpu/alias_info.cc: on GPU, in-place pairs of fusions are also found through reshapes.
_THROUGH_ON_GPU = frozenset((opcodes.BITCAST, opcodes.RESHAPE))
_THROUGH = frozenset((opcodes.BITCAST,))


@dataclass(frozen=True, slots=True)
class OrderIndependentFacts:
    """Results that hold for any order of the instructions; `is_generation_known` is False if it is a guess."""

    module: Module
    target: Target | None
    generation: str
    places: Positions
    chains: Mapping[Instruction, AsyncChain]
    dataflow: Dataflow
    in_place: InPlace
    aliases: AliasSets
    buffers: tuple[Buffer, ...]
    is_generation_known: bool


def order_independent_facts(
    module: Module, target: Target | None = None, generation: str | None = None
) -> OrderIndependentFacts:
    """Runs the analyses; `target` and `generation` override what is detected from the text.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }"
    >>> [buffer.size for buffer in order_independent_facts(parse_module(text)).buffers]
    [32, 32]
    """
    target, generation, is_told = told_generation(module, target, generation)
    places = places_of(module)
    chains = async_chains(places.instructions)
    dataflow = dataflow_of(places, chains, module.value_order)
    in_place = in_place_of(target)
    aliases = alias_sets(module, dataflow, in_place)
    buffers = buffers_of(module, dataflow, aliases, target, generation)
    return OrderIndependentFacts(
        module, target, generation, places, chains, dataflow, in_place, aliases, buffers, is_told
    )


def told_generation(module: Module, target: Target | None, generation: str | None) -> tuple[Target | None, str, bool]:
    """Returns the target and the generation of its TPU, both as given or as detected, and whether that is no guess.

    >>> from hlo_cli import parse_module
    >>> told_generation(parse_module("r = f32[2] negate(p)"), "tpu", "v4")
    ('tpu', 'v4', True)
    """
    target = target or target_of(module)
    seen = generation_of(module) if target == "tpu" else USUAL_TPU
    is_told = generation is not None or (target == "tpu" and prefetched_space(target, seen) is TpuMemorySpace.CMEM)
    return target, tpu_generation(generation).name if generation is not None else seen, is_told


def in_place_of(target: Target | None) -> InPlace:
    """Returns the finder of in-place operations for a target.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
    >>> len(in_place_of("gpu").pairs(root))
    1
    """
    return InPlace(_THROUGH_ON_GPU if target == "gpu" else _THROUGH)
