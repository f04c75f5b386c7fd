"""HLO5xx and HLO6xx: replicated values, custom calls, and communication with the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.fusion.kernels import backend_of
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.attributes.sharding import ShardingType
from hlo_cli.ir.instruction import Instruction, custom_call
from hlo_cli.ir.notation import index_suffix
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.groups import Common
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.entry_arrays import EntryArray

_PLATFORMS: Final[tuple[tuple[Target, str], ...]] = (("cpu", "CPU"), ("gpu", "GPU"))
_ACCEPTED: Final = (CustomCallApiVersion.ORIGINAL, CustomCallApiVersion.TYPED_FFI)
_MOSAIC: Final = "tpu_custom_call"


@rule("HLO504", "large replicated argument", severity="warning", needs="instructions")
def replicated_argument(context: LintContext) -> Iterator[Finding]:
    """A large argument is replicated on every device.

    Reported for arguments of at least min_replicated_bytes.

    Why: The argument needs its full size on every device. Weights are often better sharded and gathered layer by layer.
    Compiled modules for TPU have no shardings; those of before_optimizations in the same directory are read.

    Example:
        w = f32[65536,4096] parameter(0), sharding={replicated}

    Fix: Shard one of its dimensions over a mesh axis: in JAX, PartitionSpec("data"). The hint has the size that the
    argument needs then; operations that need all of it gather it first.

    Reference: https://openxla.org/shardy
    """
    devices, arrays = _large_arguments(context)
    least = context.settings.min_replicated_bytes
    if not arrays:
        return
    from hlo_cli.analysis.sharding.entry_arrays import divided

    for array in arrays:
        parameter, taken = array.instruction, array.shape.padded_bytes
        if taken < least or array.placement is None or array.placement.kind is not ShardingType.REPLICATED:
            continue
        name = context.user_name(parameter) + index_suffix(array.index)
        needed = divided(array.shape, devices).padded_bytes
        yield context.finding(
            f"{name} ({format_bytes(taken)}) is replicated on {devices} devices",
            parameter,
            attribute_span(parameter, "sharding"),
            hint=f"shard it over all devices, so that it needs only {format_bytes(needed)} on each",
            waste=Waste(taken - needed, None),
            common=Common(f"{name} is replicated on {devices} devices"),
        )


@rule("HLO510", "large partly replicated argument", severity="note", needs="instructions")
def partly_replicated_argument(context: LintContext) -> Iterator[Finding]:
    """Several devices hold the same shard of an argument, and could divide it further.

    Reported if a device would save at least min_replicated_bytes. Arguments that are replicated on every device are
    those of HLO504.

    Why: Each copy needs memory on its own device. With tensor parallelism, weights are often divided along one axis of
    the mesh and copied along the axis of the data.

    Example:
        w = f32[65536,4096] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}

    Fix: Shard it over the other axes of the mesh too: in JAX, PartitionSpec(("model", "data")) or
    PartitionSpec("model", "data"). Operations that need the larger shard gather it first.

    Reference: https://openxla.org/shardy; `hlo shard DUMP --where 'replication > 1'`
    """
    devices, arrays = _large_arguments(context)
    least = context.settings.min_replicated_bytes
    for array in arrays:
        copies, saved = array.replication, array.saving_bytes
        if copies is None or saved is None or not 1 < copies < devices or saved < max(least, 1):
            continue
        assert array.shard is not None
        parameter = array.instruction
        name = context.user_name(parameter) + index_suffix(array.index)
        held = array.shard.padded_bytes
        yield context.finding(
            f"{copies} devices each hold the same {format_bytes(held)} of {name}",
            parameter,
            attribute_span(parameter, "sharding"),
            hint=f"divide it among these devices too, so that it needs only {format_bytes(held - saved)} on each",
            waste=Waste(saved, None),
            common=Common(f"{copies} devices each hold the same part of {name}"),
        )


@rule("HLO601", "Python callback", severity="note", needs="instructions")
def python_callback(context: LintContext) -> Iterator[Finding]:
    """A custom call runs a function in the Python process that compiled the module.

    Why: The device is idle until the Python function returns, and the module cannot be saved or run by another process.

    Example:
        y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI

    Fix: Compute the value in the program. Remove jax.debug.print, pure_callback, and io_callback from production code.

    Reference: https://docs.jax.dev/en/latest/external-callbacks.html; `hlo fuse DUMP --custom-calls`
    """
    for call in context.of(opcodes.CUSTOM_CALL):
        if backend_of(call, "cpu").provider == "Python":
            yield context.finding(
                f"{context.user_name(call)} calls back into Python",
                call,
                attribute_span(call, "custom_call_target"),
                waste=Waste(_host_bytes(call), "host"),
            )


@rule("HLO602", "host transfer in a loop", severity="warning")
def host_transfer_in_loop(context: LintContext) -> Iterator[Finding]:
    """A loop communicates with the host in every iteration.

    Why: An iteration cannot end before the host has answered, which takes longer than most iterations.

    Example:
        body {
          x = f32[8] parameter(0)
          ROOT y = f32[8] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"
        }

    Fix: Collect the values in an array, and send it after the loop: in JAX, return them from the function that scan
    runs.

    Reference: https://openxla.org/xla/operation_semantics#infeed; `hlo parse DUMP --tree`
    """
    for call in context.of(opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV, opcodes.CUSTOM_CALL):
        if not _communicates_with_host(call) or _loop_around(context, call) is None:
            continue
        iterations = context.executions(call.computation).known
        times = f"in each of {iterations:,} iterations" if iterations else "in every iteration"
        message = f"{context.user_name(call)} communicates with the host {times} of a loop"
        yield context.finding(message, call, waste=Waste(_host_bytes(call), "host"))


@rule("HLO603", "platform-specific custom call", severity="note", needs="instructions")
def platform_specific_call(context: LintContext) -> Iterator[Finding]:
    """An uncompiled module calls a library that exists on only one platform.

    Why: The module was lowered for that platform and cannot be compiled for others.

    Example:
        y = f32[8,8] custom-call(x), custom_call_target="lapack_spotrf_ffi"

    Fix: Export for each platform: in JAX, jax.export with platforms=("cpu", "tpu").

    Reference: https://docs.jax.dev/en/latest/export/export.html; `hlo fuse DUMP --custom-calls`
    """
    for call in context.of(opcodes.CUSTOM_CALL) if not context.module.is_scheduled else ():
        target = call.string("custom_call_target") or ""
        platforms = [name for platform, name in _PLATFORMS if backend_of(call, platform).kind in ("library", "Triton")]
        platforms += ["TPU"] if target == _MOSAIC else []
        if len(platforms) == 1:
            message = f"{context.user_name(call)} calls {target}, which is available only on {platforms[0]}"
            yield context.finding(message, call, subject=call)


@rule("HLO604", "deprecated custom call API version", severity="note")
def deprecated_api_version(context: LintContext) -> Iterator[Finding]:
    """A custom call on CPU or GPU does not use API_VERSION_TYPED_FFI.

    Why: Only the typed FFI is stable across versions of XLA; the other API versions will be removed. Calls without an
    API version are not reported, because XLA's own calls have none.

    Example:
        y = f32[8] custom-call(x), custom_call_target="my_kernel", api_version=API_VERSION_STATUS_RETURNING

    Fix: Register the handler with XLA_FFI_DEFINE_HANDLER; in JAX, call it with jax.ffi.ffi_call.

    Reference: https://openxla.org/xla/custom_call; `hlo fuse DUMP --custom-calls`
    """
    for call in context.of(opcodes.CUSTOM_CALL) if context.target in ("cpu", "gpu") else ():
        described = custom_call(call)
        if described is not None and described.api_version not in _ACCEPTED:
            message = f"{context.user_name(call)} calls {described.target} with {described.api_version}"
            yield context.finding(message, call, attribute_span(call, "api_version"), subject=call)


def _host_bytes(call: Instruction) -> int:
    """The bytes that the host receives and returns."""
    return call.shape.padded_bytes + sum(call.operand_shape(n).padded_bytes for n in range(len(call.operands)))


def _communicates_with_host(call: Instruction) -> bool:
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


def _large_arguments(context: LintContext) -> tuple[int, Sequence[EntryArray]]:
    """The number of devices, and the arguments if there are several devices and a large argument."""
    least = context.settings.min_replicated_bytes
    if not any(each.shape.padded_bytes >= least for each in context.module.entry.parameters):
        return 1, ()
    from hlo_cli.analysis.sharding.entry_arrays import entry_arrays, partitions_of

    devices = context.settings.num_partitions or partitions_of(context.module)
    return devices, entry_arrays(context.module).parameters if devices > 1 else ()
