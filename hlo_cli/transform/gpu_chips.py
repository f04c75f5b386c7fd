"""What XLA:GPU would fuse for several chips: the pairs of instructions that only some of them have in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hlo_cli.analysis.fusion.gpu_emitters import bytes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.gpu_fuse import GpuFusion, gpu_computations, gpu_fuse

_FREE = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))


class ChipPair(NamedTuple):
    """A producer and a consumer of a module before fusion, and the chips for which XLA has them in one kernel."""

    producer: Instruction
    consumer: Instruction
    fused_on: frozenset[str]
    saving_bytes: int


def fusions_by_chip(module: Module, chips: Sequence[str]) -> dict[str, GpuFusion]:
    """The fusions that XLA would make for each chip; HloError for a chip without figures."""
    return {chip: gpu_fuse(module, chip) for chip in chips}


def pairs_by_chip(module: Module, fusions: Mapping[str, GpuFusion]) -> list[ChipPair]:
    """The pairs that are in one kernel on some of the chips, but not on all, those with most traffic first.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }")
    >>> pairs_by_chip(module, fusions_by_chip(module, ("h100", "a100-80gb")))
    []
    """
    kernels = {chip: _kernels_with(fusion) for chip, fusion in fusions.items()}
    found = []
    for producer, consumer in _edges(module):
        on = frozenset(
            chip for chip, homes in kernels.items() if not _homes(homes, producer).isdisjoint(_homes(homes, consumer))
        )
        if 0 < len(on) < len(fusions):
            found.append(ChipPair(producer, consumer, on, 2 * bytes_of(producer.shape)))
    return sorted(found, key=lambda pair: (-pair.saving_bytes, pair.producer.name, pair.consumer.name))


def _edges(module: Module) -> Iterator[tuple[Instruction, Instruction]]:
    for computation in gpu_computations(module):
        for consumer in computation.instructions:
            if consumer.opcode in _FREE:
                continue
            for producer in dict.fromkeys(consumer.operands):
                if producer.opcode not in _FREE:
                    yield producer, consumer


def _homes(kernels: Mapping[str, set[str]], instruction: Instruction) -> set[str]:
    return kernels.get(instruction.name, {instruction.name})


def _kernels_with(fusion: GpuFusion) -> dict[str, set[str]]:
    """The fusions that have an instruction, by its name; those that were fused on are among them."""
    members: dict[str, dict[str, None]] = {}
    for step in fusion.fused:
        parts = members.setdefault(step.fusion, {})
        for name in (step.producer, step.consumer):
            parts.update(members.get(name) or {name: None})
    homes: dict[str, set[str]] = {}
    for name, parts in members.items():
        for part in parts:
            homes.setdefault(part, set()).add(name)
    return homes
