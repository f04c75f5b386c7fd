"""Facts about what instructions do, however XLA writes them: products, kernels, transfers, and where arrays come from.

Each is computed on first use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.matmuls import LIBRARY_CONVOLUTIONS, is_matmul, matmul_of, valid_positions
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.fields import FieldValue, Kind, Predicate
from hlo_cli.analysis.query.instruction_facts import Function, ReadFact
from hlo_cli.analysis.query.patterns import call_matcher, is_exact
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers, Window
from hlo_cli.ir.expressions import Call, Where
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis

_HOST_CALLS: Final = ("MoveToHost", "MoveToDevice", "annotate_device_placement", "HostExecute")
_RECOMPUTED: Final = re.compile(r"(?:^|/)rematted_computation/")
"""Scope in the op_name of what jax.checkpoint computes again, as in `IsFrameworkRematerialization` of XLA."""
_REMATERIALIZED: Final = re.compile(r"\.remat(?:[0-9_.]|$)")
"""Suffix of names that hlo_rematerialization.cc makes, such as `.remat`, `.remat2`, and `.remat_compressed`."""


class ProgramFacts:
    """Meaning of instructions in a module."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""
        return {
            "product": ("flag", is_matmul),
            "convolution": ("flag", is_convolution),
            "collective": ("flag", lambda i: i.opcode.removesuffix("-start") in COLLECTIVES),
            "kernel": ("flag", lambda i: i in self._kernels),
            "library": ("flag", self._is_library),
            "donated": ("flag", lambda i: i in self._module.donated_parameters),
            "async": ("flag", lambda i: i in self._async_starts),
            "exposed": ("flag", lambda i: i in self._exposed),
            "exposed_bytes": ("bytes", self._exposed_bytes),
            "host_transfer": ("flag", is_host_transfer),
            "rematerialized": ("flag", is_rematerialized),
            "trips": ("count", self._trips),
        }

    def functions(self) -> dict[str, Function]:
        """Functions that take a name in parentheses."""
        return {"of_argument": self._of_argument}

    def _of_argument(self, where: Where, call: Call) -> Predicate[Instruction]:
        from hlo_cli.analysis.origin.origins import origins_of

        test = call_matcher(where, call)
        names = {parameter: _argument_names(parameter) for parameter in self._module.entry.parameters}
        wanted = {parameter for parameter, known in names.items() if any(map(test, known))}
        if not wanted and is_exact(call):
            name = call.argument.text
            known = [each for pair in names.values() for each in pair]
            hint = did_you_mean(nearest(name, known)) or f'use {call.function}(~"{name}") to match a part of a name'
            raise where.error(f"argument '{name}' not found in {self._module.name}", call.argument.span, hint)
        origins = origins_of(self._module)
        return lambda instruction: instruction in wanted or origins.of(instruction).argument in wanted

    def _is_library(self, instruction: Instruction) -> bool:
        if instruction.opcode not in (opcodes.CUSTOM_CALL, opcodes.FUSION):
            return False
        from hlo_cli.analysis.fusion.kernels import backend_of

        target = target_of(self._module)
        if target is not None:
            return backend_of(instruction, target).kind == "library"
        return any(backend_of(instruction, each).kind == "library" for each in ("cpu", "gpu"))

    def _trips(self, instruction: Instruction) -> FieldValue:
        found = self._executions.get(instruction.computation, NO_EXECUTIONS)
        return found.count if found.is_known else AtLeast(found.count)

    def _exposed_bytes(self, instruction: Instruction) -> FieldValue:
        found = self._bytes_exposed.get(instruction)
        if found is None or self._executions.get(instruction.computation, NO_EXECUTIONS).is_known:
            return found
        return AtLeast(found)

    @cached_property
    def _executions(self) -> Mapping[Computation, Executions]:
        return executions_of(self._module)

    @cached_property
    def _kernels(self) -> frozenset[Instruction]:
        from hlo_cli.analysis.fusion.kernels import kernels_of

        return frozenset(kernel.instruction for kernel in kernels_of(self._module) if not kernel.is_transfer)

    @cached_property
    def _async_starts(self) -> frozenset[Instruction]:
        from hlo_cli.analysis.schedule.async_overlap import async_pairs

        return frozenset(pair.start for pair in async_pairs(self._module).pairs)

    @cached_property
    def _overlap(self) -> OverlapAnalysis:
        from hlo_cli.analysis.schedule.async_overlap import analyze_overlap

        return analyze_overlap(self._module)

    @cached_property
    def _exposed(self) -> frozenset[Instruction]:
        starts = (interval.pair.start for interval in self._overlap.intervals if interval.is_exposed)
        return frozenset((*starts, *self._overlap.synchronous))

    @cached_property
    def _bytes_exposed(self) -> Mapping[Instruction, int]:
        """The exposed bytes of each transfer in all executions."""
        overlap = self._overlap
        return {**{each.pair.start: each.exposed_bytes for each in overlap.intervals}, **overlap.synchronous}


def is_convolution(instruction: Instruction) -> bool:
    """Whether an instruction slides a window over an array: a convolution that is not a matmul in another form.

    A dot becomes a convolution on TPU. Its spatial dimensions are batch dimensions (each result meets one element),
    contracted (there is one result), or free (the kernel or the input has size 1).

    >>> from hlo_cli import parse_module
    >>> labels = "dim_labels=b0f_0io->b0f"
    >>> sliding = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[3,2,4] k), window={{size=3 pad=1_1}}, {labels}"
    >>> matmul = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[1,2,4] k), window={{size=1}}, {labels}"
    >>> [is_convolution(parse_module(text).entry.root) for text in (sliding, matmul)]
    [True, False]
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        if not (instruction.string("custom_call_target") or "").startswith(LIBRARY_CONVOLUTIONS):
            return False
    elif instruction.opcode != opcodes.CONVOLUTION:
        return False
    product = matmul_of(instruction)
    if product is None or not isinstance(product.numbers, ConvolutionDimensionNumbers):
        return instruction.opcode == opcodes.CUSTOM_CALL  # its target says so
    numbers, lhs, rhs, result = product.numbers, product.lhs, product.rhs, product.result
    spatial = zip(
        (instruction.window or Window(())).dimensions,
        (lhs.sizes[d] for d in numbers.input_spatial_dimensions),
        (rhs.sizes[d] for d in numbers.kernel_spatial_dimensions),
        (result.sizes[d] for d in numbers.output_spatial_dimensions),
        strict=False,
    )
    return any(
        1 not in sizes and not (sizes[0] == sizes[1] == sizes[2] == valid_positions(window, *sizes))
        for window, *sizes in spatial
    )


def is_host_transfer(instruction: Instruction) -> bool:
    """Whether an instruction moves data between the device and its host: a feed, a send, a callback, or a copy.

    >>> from hlo_cli import parse_module
    >>> copies = [f"r = f32[8]{{0:S(5)}} copy(f32[8]{layout} a)" for layout in ("{0}", "{0:S(5)}")]
    >>> [is_host_transfer(parse_module(text).entry.root) for text in copies]
    [True, False]
    """
    opcode = instruction.opcode
    if opcode in HOST_FEEDS:
        return True
    if opcode in (opcodes.SEND, opcodes.RECV):
        return instruction.flag("is_host_transfer")
    if opcode == opcodes.CUSTOM_CALL:
        from hlo_cli.analysis.fusion.kernels import backend_of

        target = instruction.string("custom_call_target") or ""
        if target in _HOST_CALLS or backend_of(instruction, "cpu").provider == "Python":
            return True
    if not any(has_host_memory(each.shape) for each in (instruction, *instruction.operands)):
        return False
    from hlo_cli.analysis.fusion.kernels import is_launched

    spaces = {space for each in (instruction, *instruction.operands) for space in _spaces(each.shape)}
    return is_launched(instruction) and len(spaces) > 1


def is_rematerialized(instruction: Instruction) -> bool:
    """Whether an instruction computes something again to save memory: by jax.checkpoint, or by XLA.

    >>> from hlo_cli import parse_module
    >>> is_rematerialized(parse_module("fusion.3.remat2 = f32[2] negate(f32[2] p)").entry.root)
    True
    """
    if _REMATERIALIZED.search(instruction.name):
        return True
    op_name = instruction.metadata.op_name
    return "remat" in op_name and _RECOMPUTED.search(op_name) is not None


def has_host_memory(shape: Shape) -> bool:
    """Whether an array of a shape is in host memory.

    >>> from hlo_cli import parse_module
    >>> has_host_memory(parse_module("r = f32[8]{0:S(5)} copy(f32[8]{0} a)").entry.root.shape)
    True
    """
    return MemorySpace.HOST in _spaces(shape)


def _spaces(shape: Shape) -> set[int]:
    if isinstance(shape, ArrayShape):
        return {shape.layout.memory_space}
    return {leaf.layout.memory_space for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)}


def _argument_names(parameter: Instruction) -> tuple[str, ...]:
    op_name = parameter.metadata.op_name
    return (op_name, parameter.name) if op_name else (parameter.name,)
