"""Costs of findings: how often their instructions run, and how long moving the bytes takes that they waste."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import AsyncPair
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape

_WITHOUT_COST: Final = frozenset(("HLO201", "HLO603", "HLO604"))

if TYPE_CHECKING:
    from hlo_cli.analysis.schedule.step_time import Link

COST_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HLO1": "bytes of padding, or bytes that are copied or rearranged",
        "HLO2": "bytes of memory that are occupied in vain, or bytes that are copied in vain",
        "HLO3": "bytes of memory traffic between kernels that a fusion or a narrower type would avoid",
        "HLO4": "bytes transferred while no kernel runs",
        "HLO5": "bytes transferred in vain; of replicated arguments, bytes of memory",
        "HLO6": "bytes exchanged with the host",
        "HLO701": "bytes of memory that 32-bit types would save",
        "HLO702": "bytes of memory that 32-bit types would save",
    }
)
"""What the costs of findings are, by the beginning of the rule's code; those of other rules have no cost."""


_LARGE: Final = (MemorySpace.MAIN, MemorySpace.HOST)
"""Memory outside of the chip, from which compilers fetch what kernels read."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Bytes that one execution of an instruction wastes, and how they are moved.

    `link` carries them; with None they only occupy memory, once for all executions and without taking time.
    `moved_bytes` cross the link, if not `bytes`, such as twice the bytes for a copy in main memory. `pair` is the
    transfer that moves them, whose time is known better than that of bytes.
    """

    bytes: int
    link: Link | None = "memory"
    moved_bytes: int | None = None
    pair: AsyncPair | None = None


def executions_of_waste(at: Instruction | None, waste: Waste | None, module: Module) -> Executions:
    """Returns how often the waste occurs in one execution of the module.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> executions_of_waste(module.entry.root, Waste(8), module).known
    1
    """
    if at is None or waste is None or waste.link is None:
        return Executions(1)
    return executions_of(module).get(at.computation, NO_EXECUTIONS)


def seconds_of(waste: Waste, executions: int, chip: ChipSpec, module: Module) -> float | None:
    """Returns how long moving the waste takes in all executions; None without a link or a published bandwidth.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> seconds_of(Waste(819_000), 10, chip_spec("v5e"), module)
    1e-05
    """
    from hlo_cli.analysis.schedule.step_time import bandwidth_of, transfer_time  # required with a chip only

    if waste.pair is not None:
        moved = waste.bytes if waste.moved_bytes is None else waste.moved_bytes
        once = transfer_time(waste.pair, moved, chip, module).seconds
        return None if once is None else once * executions
    rate = bandwidth_of(waste.link, chip)
    if rate is None:
        return None
    return (waste.bytes if waste.moved_bytes is None else waste.moved_bytes) * executions / rate.per_second


def waste_of_copy(read: Shape | None, written: Shape) -> Waste:
    """Returns what a copy wastes that changes a layout: what is saved if the array has the new layout from the start.

    That is the whole copy, whose bytes cross main memory once for each side that is there. But an array that is copied
    to on-chip memory, such as VMEM, must get there in any layout, so that only bytes are saved that the new one lacks.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> waste_of_copy(parse_shape("f32[2]"), parse_shape("f32[2]"))
    Waste(bytes=8, link='memory', moved_bytes=16, pair=None)
    >>> waste_of_copy(parse_shape("f32[4,8]{1,0:T(8,128)}"), parse_shape("f32[4,8]{0,1:T(8,128)S(1)}")).bytes
    0
    """
    spaces = [each.layout.memory_space for each in (read, written) if isinstance(each, ArrayShape)]
    size = written.padded_bytes
    if isinstance(read, ArrayShape) and spaces[0] in _LARGE and spaces[-1] not in _LARGE:
        # Compiled again with the argument in that layout, the copy becomes a copy-start of as many bytes.
        saved = max(0, read.padded_bytes - size)
        return Waste(saved, "host" if MemorySpace.HOST in spaces else "memory", saved)
    if MemorySpace.HOST in spaces:
        return Waste(size, "host")
    return Waste(size, "memory", size * spaces.count(MemorySpace.MAIN))


def cost_meaning(code: str) -> str:
    """What the cost of a rule's findings is; empty if they have none.

    >>> cost_meaning("HLO401"), cost_meaning("HLO010")
    ('bytes transferred while no kernel runs', '')
    """
    if code in _WITHOUT_COST:
        return ""
    return next((meaning for begin, meaning in COST_MEANINGS.items() if code.startswith(begin)), "")
