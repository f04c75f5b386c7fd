"""Predicted times of instructions on a chip, next to the measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.profile.measure import is_inner
from hlo_cli.report.numbers import format_ratio, format_seconds

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import Estimate
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed
    from hlo_cli.ir.instruction import Instruction


def prediction_of(measured: Measured, timed: Timed) -> Estimate | None:
    """The predicted time of one call; None without a chip, and for what the time model does not cover."""
    return _predictions(measured, [timed]).get(timed)


def predictions_of(measured: Measured) -> Mapping[Timed, Estimate]:
    """The predicted times of a call of the selected operations, without those that the time model does not cover."""
    return _predictions(measured, measured.selected)


def prediction_words(found: Estimate, timed: Timed, chip: str) -> str:
    """A prediction with its band, and where the measured time is."""
    mean = timed.measure.total / max(timed.measure.calls, 1)
    band = f"{format_seconds(found.seconds)} ({format_seconds(found.low)} to {format_seconds(found.high)}) on {chip}"
    if found.low <= mean <= found.high:
        return f"{band}; measured within the band"
    return f"{band}; measured {format_ratio(mean / found.seconds)}"


def _predictions(measured: Measured, timed: Sequence[Timed]) -> Mapping[Timed, Estimate]:
    chip = measured.chip
    if chip is None:
        return {}
    from hlo_cli.analysis.schedule.kernel_times import predicted_times
    from hlo_cli.analysis.sharding.collectives import predicted_collective_time

    leaves = [each for each in timed if each.operation.instruction is not None and not is_inner(each.operation)]
    kernels = predicted_times([each.operation.instruction for each in leaves if each.operation.instruction], chip)
    collectives = _collectives(leaves)
    found = {}
    for each in leaves:
        instruction = each.operation.instruction
        if instruction is None:
            continue
        collective = collectives.get(instruction)
        estimate = kernels.get(instruction) if collective is None else predicted_collective_time(collective, chip)
        if estimate is not None and estimate.seconds and each.measure.calls:
            found[each] = estimate
    return found


def _collectives(timed: Sequence[Timed]) -> Mapping[Instruction, Collective]:
    """The synchronous collectives by instruction: the time of a start or a done is not that of the transfer."""
    from hlo_cli.analysis.sharding.collectives import collectives_of

    programs = {each.operation.program for each in timed}
    modules = [program.module for program in programs if program is not None and program.module is not None]
    listed = (collective for module in modules for collective in collectives_of(module))
    return {each.caller: each for each in listed if not each.is_async}
