"""Predicted time of a kernel on a chip, with a band.

A kernel takes the larger of its compute time and its memory time at the share of the peak rates that is usually
reached, and the time of its launch. The shares, launch times, and bands are in `hardware/time_model.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import costs_of_kernels
from hlo_cli.analysis.cost.roofline import compute_type, roofline
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.estimate import NO_TIME, Estimate, around
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, wrapped_opcode

_OTHER_LINKS = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS
_BAND = (0.6, 2.0)


def predicted_times(instructions: Iterable[Instruction], chip: ChipSpec) -> Mapping[Instruction, Estimate]:
    """The predicted time of one run of each kernel among the instructions; kernels of unknown time are left out.

    >>> from hlo_cli import chip_spec, parse_module
    >>> entry = parse_module("r = f32[1000000] add(f32[1000000] a, f32[1000000] b)").entry
    >>> [found.name for found in predicted_times(entry.instructions, chip_spec("h100"))]
    ['r']
    """
    costs = costs_of_kernels(instructions)
    found = {each: predicted_time(each, chip, cost=cost) for each, cost in costs.items()}
    return {each: estimate for each, estimate in found.items() if estimate is not None}


def predicted_time(instruction: Instruction, chip: ChipSpec, *, cost: Cost | None = None) -> Estimate | None:
    """The predicted time of one run of a kernel; None if its cost or rate is unknown, or for a transfer between chips.

    `cost` is that of the instruction, if it is at hand. For collectives, see `predicted_collective_time` of
    `sharding/link_time.py`.

    >>> from hlo_cli import chip_spec, parse_module
    >>> add = parse_module("r = f32[1000000000] add(f32[1000000000] a, f32[1000000000] b)").entry.root
    >>> found = predicted_time(add, chip_spec("h100"))
    >>> found.low < found.seconds < found.high
    True
    """
    if cost is None:
        cost = costs_of_kernels((instruction,)).get(instruction)
        if cost is None:
            return NO_TIME
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
    found = roofline(cost, chip, compute_type(instruction))
    if found.bound == "unknown" or opcode in _OTHER_LINKS:
        return None
    return around(found.seconds, _BAND, "roofline").at_least(found.at_least_seconds)
