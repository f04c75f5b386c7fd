"""Predicted times of kernels on a chip: the one place that commands ask, by `kernel_estimate.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import NO_KERNELS, costs_of_kernels
from hlo_cli.analysis.cost.roofline import Roofline
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.estimate import NO_TIME, Estimate
from hlo_cli.analysis.kernel_time.kernel_estimate import kernel_estimate, kernel_roofline, moves_nothing
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, wrapped_opcode

if TYPE_CHECKING:  # only GPUs need the model
    from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
    from hlo_cli.analysis.kernel_time.gpu_kernels import GpuKernel

_OTHER_LINKS: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS


class Prediction(NamedTuple):
    """The roofline of a kernel, its predicted time, and XLA's own account of it, if there is one.

    With `kernel`, the bound of the roofline is that of XLA's model.
    """

    roofline: Roofline
    estimate: Estimate
    kernel: GpuKernel | None = None

    @property
    def kernel_seconds(self) -> float:
        """The time of the kernel without its launch."""
        return self.estimate.kernel_seconds if self.kernel is None else self.kernel.seconds


class KernelTimes:
    """Predicted times of kernels on a chip; XLA's model runs once for each computation of which a kernel is asked.

    With `by_roofline`, all kernels have the time of their roofline: fusions that XLA's GPU compiler did not make may
    read and compute far more often, by its model, than any kernel that it would make.

    >>> from hlo_cli import chip_spec, parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> sine = parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry.root
    >>> for chip in ("h100", "v5e"):
    ...     found = KernelTimes(chip_spec(chip)).predict(sine, cost_of(sine))
    ...     times = found.kernel_seconds, found.estimate.launch_seconds
    ...     print(found.roofline.bound, [f"{seconds * 1e6:.2f}" for seconds in times], *sorted(found.estimate.sources))
    compute ['14.44', '2.95'] XLA model launch floor
    memory ['9.77', '0.00'] roofline
    """

    __slots__ = ("_device", "_is_asked", "_kernels", "_uncomputed", "chip")

    def __init__(self, chip: ChipSpec, *, by_roofline: bool = False, module: Module | None = None) -> None:
        """Prepares the times; with `module`, kernels in it that the chip never launches take no time."""
        self.chip = chip
        has_counters = module is not None and bool(chip.cores)
        self._uncomputed = conditions_of_counted_loops(module) if module is not None and has_counters else frozenset()
        self._device: GpuDevice | None = None
        self._is_asked = by_roofline
        self._kernels: dict[Computation, Mapping[Instruction, GpuKernel]] = {}

    def predict(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction:
        """The prediction of a kernel; `element_type` is that of its flops, if at hand."""
        found, matmuls = kernel_roofline(instruction, cost, self.chip, element_type)
        is_no_call = instruction.opcode == opcodes.CUSTOM_CALL and not is_launched(instruction)
        if is_no_call or instruction.computation in self._uncomputed:
            return Prediction(replace(found, bound="free"), NO_TIME)
        kernel = None if matmuls else self.generated(instruction)
        if kernel is not None:
            found = replace(found, bound="compute" if kernel.is_compute_bound else "memory")
        return Prediction(found, kernel_estimate(instruction, found, matmuls, self.chip, kernel), kernel)

    def generated(self, instruction: Instruction) -> GpuKernel | None:
        """A kernel that XLA generates, by its own model; None for others, and on chips without figures."""
        if not self._is_asked:
            self._device, self._is_asked = _device_of(self.chip), True
        if self._device is None or moves_nothing(instruction):
            return None
        from hlo_cli.analysis.kernel_time.gpu_kernels import gpu_kernels

        computation = instruction.computation
        kernels = self._kernels.get(computation)
        if kernels is None:
            kernels = self._kernels[computation] = computed_once(gpu_kernels, computation, self._device)
        return kernels.get(instruction)

    def known(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction | None:
        """The prediction of a kernel; None if its cost or rate is unknown.

        It is unknown for transfers between chips, too, which do not use memory alone.
        """
        found = self.least(instruction, cost, element_type)
        return None if found is None or found.roofline.bound == "unknown" else found

    def least(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Prediction | None:
        """The prediction from what is known of the cost of a kernel, at least its launch; None for other transfers."""
        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        if opcode in _OTHER_LINKS or _is_part_of_transfer(instruction):
            return None
        return self.predict(instruction, cost, element_type)


def _is_part_of_transfer(instruction: Instruction) -> bool:
    """Whether a TPU fusion only starts or ends a collective, whose time is that on the links."""
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return False
    root = instruction.called_computations[0].root
    target = None if root is None or root.opcode != opcodes.CUSTOM_CALL else root.string("custom_call_target")
    return target in ("AsyncCollectiveStart", "AsyncCollectiveDone")


def conditions_of_counted_loops(module: Module) -> frozenset[Computation]:
    """The conditions of loops that GPUs do not compute, as in xla/backends/gpu/runtime/while_thunk.cc.

    >>> from hlo_cli import parse_module
    >>> conditions_of_counted_loops(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    loops = (each for each in module.instructions if each.opcode == opcodes.WHILE and trip_count(each) is not None)
    return frozenset(each for loop in loops for each in loop.called_computations[1:])


def predicted_times(instructions: Iterable[Instruction], chip: ChipSpec) -> Mapping[Instruction, Estimate]:
    """The predicted time of one run of each kernel among the instructions; kernels of unknown time are left out.

    >>> from hlo_cli import chip_spec, parse_module
    >>> entry = parse_module("r = f32[1000000] add(f32[1000000] a, f32[1000000] b)").entry
    >>> [found.name for found in predicted_times(entry.instructions, chip_spec("h100"))]
    ['r']
    """
    times = KernelTimes(chip)
    found = {each: times.known(each, cost) for each, cost in costs_of_kernels(instructions).items()}
    return {each: prediction.estimate for each, prediction in found.items() if prediction is not None}


def predicted_time(instruction: Instruction, chip: ChipSpec, *, cost: Cost | None = None) -> Estimate | None:
    """The predicted time of one run of a kernel; None if its cost or rate is unknown, or for a transfer between chips.

    `cost` is that of the instruction, if it is at hand. Operations that launch no kernel take no time. For
    collectives, see `predicted_collective_time` of `sharding/collectives.py`.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[512,512] dot(f32[512,9] a, f32[9,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = parse_module(text).entry.root
    >>> for chip in ("h100", "a100-80gb", "v5e"):
    ...     found = predicted_time(dot, chip_spec(chip))
    ...     print(", ".join(f"{seconds * 1e6:.1f}" for seconds in (found.low, found.seconds, found.high)))
    4.9, 6.1, 7.6
    4.1, 5.8, 8.4
    0.0, 1.3, 2.5
    """
    if cost is None:
        if instruction.opcode in NO_KERNELS:
            return NO_TIME
        cost = costs_of_kernels((instruction,))[instruction]
    found = KernelTimes(chip).known(instruction, cost)
    return None if found is None else found.estimate


def _device_of(chip: ChipSpec) -> GpuDevice | None:
    from hlo_cli.analysis.hardware.gpu_devices import device_of  # only GPUs need it

    return device_of(chip)
