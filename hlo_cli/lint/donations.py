"""Arguments that results update, and what donating them saves, which is computed as if they were donated.

Which result would have the memory of an argument, and what that needs, `memory/donation.py` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import producer_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, allocated_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import Shape, ShapeIndex

_MOVING: Final = (opcodes.COPY, opcodes.SLICE)
_JOINING: Final = "ConcatBitcast"
_ALIAS: Final = "input_output_alias"
_KEPT: Final = 0.95
"""The share of the arguments' bytes that donating them saves, if each saves its own."""


@dataclass(frozen=True, slots=True)
class Donation:
    """An argument whose memory a result could have: the argument, the kernel that makes the result, and the entry of
    `input_output_alias`.
    """

    argument: Instruction
    kernel: Instruction
    padded_bytes: int
    alias: Alias


@dataclass(frozen=True, slots=True)
class Donations:
    """Arguments that could be donated, and the bytes that the module needs less if all of them are.

    These are fewer than the arguments need if memory of the results also held temporaries.
    """

    arguments: tuple[Donation, ...] = ()
    saved_bytes: int = 0

    def saved_by(self, donation: Donation) -> int | None:
        """The bytes that donating one argument saves; None if only the savings of all are known."""
        is_sum = self.saved_bytes >= _KEPT * sum(each.padded_bytes for each in self.arguments)
        return donation.padded_bytes if is_sum else None


def donations_of(memory: MemoryAnalysis, min_bytes: int) -> Donations:
    """The arguments of at least `min_bytes` that results update and that save memory if they are donated.

    A kernel that makes a result of the same shape reads such an argument.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "HloModule m, is_scheduled=true ENTRY e { w = f32[8] parameter(0)  ROOT n = f32[8] negate(w) }"
    >>> found = donations_of(memory_analysis(parse_module(text)), 1)
    >>> [each.argument.name for each in found.arguments], found.saved_bytes
    (['w'], 32)
    """
    module = memory.module
    found = tuple(_candidates(memory, min_bytes)) if has_kept_argument(module, min_bytes) else ()
    if not found:
        return Donations()
    from hlo_cli.analysis.memory.memory_analysis import memory_analysis  # a large import, as in analyses.py

    after = memory_analysis(_donated(module, found), target=memory.target, generation=memory.generation)
    saved = needed_bytes(memory) - needed_bytes(after)
    return Donations(found, saved) if saved > 0 else Donations()


def needed_bytes(memory: MemoryAnalysis) -> int:
    """The bytes that the module needs in main and host memory.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> needed_bytes(memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")))
    32
    """
    spaces = [space for space in memory.spaces if space.number in (MemorySpace.MAIN, MemorySpace.HOST)]
    return sum(allocated_bytes(memory, space) or space.peak_bytes for space in spaces)


def _donated(module: Module, donations: Sequence[Donation]) -> Module:
    """The same instructions with more entries of `input_output_alias`."""
    entries = (*module.input_output_alias, *(each.alias for each in donations))
    others = tuple(attribute for attribute in module.header if attribute.name != _ALIAS)
    return replace(module, header=(*others, Attribute(_ALIAS, f"{{ {', '.join(map(str, entries))} }}")))


def has_kept_argument(module: Module, min_bytes: int) -> bool:
    """Whether a large enough argument is not donated; faster to check than the memory analysis.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")
    >>> has_kept_argument(module, 32), has_kept_argument(module, 33)
    (True, False)
    """
    donated = module.donated_parameters
    return any(each.shape.padded_bytes >= min_bytes for each in module.entry.parameters if each not in donated)


def _candidates(memory: MemoryAnalysis, min_bytes: int) -> Iterator[Donation]:
    """The arguments that results update and that the memory of a result could be."""
    from hlo_cli.analysis.memory import donation  # large imports, as in analyses.py
    from hlo_cli.analysis.memory.donation import MemoryScenarios, arguments_of, results_of

    scenarios = MemoryScenarios(memory)
    facts, donated = scenarios.facts, memory.module.donated_parameters
    updates: dict[tuple[Instruction, Shape], None] = {}
    kernels: dict[ShapeIndex, Instruction] = {}
    for result in results_of(facts):
        makers = [
            _maker(facts.places.instructions[facts.places.owner[each]]) for each in facts.aliases.of(result.value)
        ]
        kernels[result.index] = makers[0]
        updates |= dict.fromkeys((read, result.shape) for maker in makers for read in _read_by(maker))
    arguments = tuple(
        each
        for each in arguments_of(facts)
        if (each.parameter, each.shape) in updates
        and each.parameter not in donated
        and scenarios.bytes_of(each.place) >= min_bytes
    )
    if not arguments:
        return
    for pair in donation.Donations(scenarios).pairs([donation.Donor("", arguments)]):
        if pair.kind in ("free", "fetched", "overwritten"):
            size = scenarios.bytes_of(pair.argument.place)
            yield Donation(pair.argument.parameter, kernels[pair.result.index], size, pair.alias)


def _maker(instruction: Instruction) -> Instruction:
    """The kernel that makes a value; a copy of an argument makes a value too."""
    made = _before_copies(instruction)
    return made if made.opcode != opcodes.PARAMETER else instruction


def _read_by(kernel: Instruction) -> Iterator[Instruction]:
    """What a kernel reads, before any moves."""
    yield from map(_before_copies, kernel.operands)


def _before_copies(instruction: Instruction) -> Instruction:
    """The producer of a value, before any moves."""
    made = producer_of(instruction)
    while (moved := _moved(made)) is not None:
        made = producer_of(moved)
    return made


def _moved(made: Instruction) -> Instruction | None:
    """The value that an instruction only moves: as a whole, or in pieces, as TPU compilers fetch large values."""
    match made.opcode:
        case opcodes.COPY | opcodes.COPY_START if made.operands:
            return made.operands[0]
        case opcodes.ASYNC_START if made.operands and made.called_computations:
            root = made.called_computations[0].root
            return made.operands[0] if root is not None and root.opcode in _MOVING else None
        case opcodes.CUSTOM_CALL if made.string("custom_call_target") == _JOINING:
            sources = {_before_copies(piece) for piece in made.operands}
            return sources.pop() if len(sources) == 1 else None
        case opcode if wrapped_opcode(opcode) in _MOVING and made.operands:  # the short form of an async slice
            return made.operands[0]
    return None
