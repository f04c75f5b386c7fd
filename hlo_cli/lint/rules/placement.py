"""HLO5xx and HLO6xx: what every device holds, what only some can run, and what waits for the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.fusion.kernel_backends import backend_of
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.custom_call import custom_call
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding, ShardingType, TupleSharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.words import CustomCallApiVersion
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_WHOLE: Final = (ShardingType.TILED, ShardingType.REPLICATED)
_FULL: Final = ("", "replicated")
_PLATFORMS: Final[tuple[tuple[Target, str], ...]] = (("cpu", "CPUs"), ("gpu", "GPUs"))
_NOT_OLD: Final = (CustomCallApiVersion.ORIGINAL, CustomCallApiVersion.TYPED_FFI)
_MOSAIC: Final = "tpu_custom_call"


@rule("HLO504", "large value on every device", severity="warning", needs="instructions")
def replicated(context: LintContext) -> Iterator[Finding]:
    """Each of several devices holds all of an argument (replicated_bytes and more).

    Why: it takes as much memory on every device as on one. Weights are often better spread and gathered layer by layer.
    Asked of shardings, which modules compiled for TPUs and GPUs no longer have: look at before_optimizations.

    Example:
        w = f32[65536,4096] parameter(0), sharding={replicated}

    Mend: name an axis of the mesh for one of its dimensions; in jax, PartitionSpec("data") or such.

    Reference: https://openxla.org/shardy
    """
    if context.num_partitions < 2:
        return
    for parameter in context.module.entry.parameters:
        if parameter.shape.padded_bytes < context.settings.replicated_bytes or not _is_replicated(parameter):
            continue
        devices, taken = context.num_partitions, parameter.shape.padded_bytes
        yield context.finding(
            f"{parameter.name} takes {format_bytes(taken)} on each of {devices} devices",
            parameter,
            attribute_span(parameter, "sharding"),
            hint=f"spread over all of them it takes {format_bytes(-(-taken // devices))}",
        )


@rule("HLO601", "calls back into Python", severity="note", needs="instructions")
def python_callback(context: LintContext) -> Iterator[Finding]:
    """A custom call runs a function of the Python process that compiled the module.

    Why: the device waits for Python each time, and the module cannot be saved, or run by another process.

    Example:
        y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI

    Mend: compute it in the program; leave out jax.debug.print, pure_callback and io_callback in what is shipped.

    Reference: https://docs.jax.dev/en/latest/external-callbacks.html; hlo fuse DUMP --custom-calls
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if backend_of(call, "cpu").provider == "Python":
            yield context.finding(
                f"{call.name} calls back into Python", call, attribute_span(call, "custom_call_target")
            )


@rule("HLO602", "waits for the host in a loop", severity="warning")
def host_in_loop(context: LintContext) -> Iterator[Finding]:
    """A loop sends something to the host or receives something from it, or calls back into Python, in every round.

    Why: a round cannot end before the host has answered, which takes longer than most rounds do.

    Example:
        body {
          x = f32[8] parameter(0)
          ROOT y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"
        }

    Mend: collect what the host wants in an array and hand it over behind the loop; or do it every so many rounds.

    Reference: https://openxla.org/xla/operation_semantics#infeed; hlo parse DUMP --tree
    """
    for call in context.of(opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV, opcodes.CUSTOM_CALL):
        if not _asks_host(call) or (loop := _loop_around(context, call)) is None:
            continue
        rounds = context.analyses.times.get(call.computation)
        times = f"{rounds:,} times" if rounds is not None else "in every round"
        yield context.finding(f"{call.name} waits for the host {times}, in {loop.name}", call)


@rule("HLO603", "runs on one kind of device alone", severity="note", needs="instructions")
def one_platform(context: LintContext) -> Iterator[Finding]:
    """A module that is not compiled yet calls a library that only CPUs, only GPUs or only TPUs have.

    Why: it was made for them, and cannot be compiled for others.

    Example:
        y = f32[8,8] custom-call(x), custom_call_target="lapack_spotrf_ffi"

    Mend: export for each kind of device; in jax, jax.export with platforms=("cpu", "tpu").

    Reference: https://docs.jax.dev/en/latest/export/export.html; hlo fuse DUMP --custom-calls
    """
    for call in context.of(opcodes.CUSTOM_CALL) if not context.module.is_scheduled else ():
        target = call.string("custom_call_target") or ""
        kinds = [name for platform, name in _PLATFORMS if backend_of(call, platform).kind in ("library", "Triton")]
        kinds += ["TPUs"] if target == _MOSAIC else []
        if len(kinds) == 1:
            yield context.finding(f"{call.name} calls {target}, which only {kinds[0]} have", call)


@rule("HLO604", "custom call by an old interface", severity="note")
def old_interface(context: LintContext) -> Iterator[Finding]:
    """A custom call on a CPU or GPU names another interface than API_VERSION_TYPED_FFI.

    Why: only the typed one is stable between versions of XLA; the others are to be removed. What names none is left
    alone, as XLA's own calls are written so.

    Example:
        y = f32[8] custom-call(x), custom_call_target="my_kernel", api_version=API_VERSION_STATUS_RETURNING

    Mend: register the function with XLA_FFI_DEFINE_HANDLER; in jax, jax.ffi.ffi_call.

    Reference: https://openxla.org/xla/custom_call; hlo fuse DUMP --custom-calls
    """
    for call in context.of(opcodes.CUSTOM_CALL) if context.target in ("cpu", "gpu") else ():
        described = custom_call(call)
        if described is not None and described.api_version not in _NOT_OLD:
            message = f"{call.name} calls {described.target} by {described.api_version}"
            yield context.finding(message, call, attribute_span(call, "api_version"))


def _is_replicated(parameter: Instruction) -> bool:
    shape, sharding = parameter.shape, parameter.sharding
    if not isinstance(shape, ArrayShape):
        return False
    if isinstance(sharding, TupleSharding):
        sharding = sharding.elements[0] if sharding.elements else None
    match sharding:
        case Sharding():
            return sharding.type in _WHOLE and not any(n > 1 for n in sharding.tile_counts(shape.rank))
        case NamedSharding():
            return sharding.whole in _FULL and not any(n > 1 for n in sharding.tile_counts(shape.rank))
    return False


def _asks_host(call: Instruction) -> bool:
    match call.opcode:
        case opcodes.SEND | opcodes.RECV:
            return call.flag("is_host_transfer")
        case opcodes.CUSTOM_CALL:
            return backend_of(call, "cpu").provider == "Python"
    return True


def _loop_around(context: LintContext, instruction: Instruction) -> Instruction | None:
    """The innermost loop that an instruction runs in."""
    computation = instruction.computation
    seen = {computation}
    while callers := context.contexts.callers.get(computation):
        if callers[0].opcode == opcodes.WHILE:
            return callers[0]
        computation = callers[0].computation
        if computation in seen:
            break
        seen.add(computation)
    return None
