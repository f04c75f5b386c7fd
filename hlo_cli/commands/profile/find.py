"""The operation that a name means, and the error for a name that the trace does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.commands.profile.timed import longest_of
from hlo_cli.ir import opcodes
from hlo_cli.source import HloError, did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed
    from hlo_cli.ir.module import Module


def find_timed(measured: Measured, name: str) -> Timed:
    """The operation of a name, with or without %; of several programs, that which took most time. HloError if none."""
    plain = name.removeprefix("%")
    found = [each for each in measured.selected if each.operation.name == plain]
    found = found or [each for each in measured.selected if plain in each.operation.kernels]
    if found:
        return longest_of(found)
    for program in measured.profile.programs:
        if program.module is not None and (reason := _reason(program.module, plain)):
            raise HloError(f"'{plain}' of {program.name} has no events in this trace", hint=reason)
    names = [each.operation.name for each in measured.selected]
    near = next((each for each in names if each.startswith(plain)), None) or nearest(plain, names)
    hint = did_you_mean(near) or f"run `{measured.command or 'hlo profile TRACE'}` to list all instructions"
    raise HloError(f"instruction '{plain}' not found in this trace", hint=hint)


def _reason(module: Module, name: str) -> str:
    """Why an instruction has no events of its own; empty if the module has none of that name."""
    found = next((each for each in module.instructions if each.name == name), None)
    if found is None:
        return ""
    callers = (each for each in module.instructions if found.computation in each.called_computations)
    caller = next((each for each in callers if each.opcode == opcodes.FUSION), None)
    if caller is not None:
        return f"it is part of {caller.name}"
    return "it runs no kernel, or it did not run while the trace was recorded"
