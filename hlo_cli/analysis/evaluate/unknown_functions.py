"""Functions of unknown meaning that two programs have in common: equal operands give equal results.

Kernels without a body in the dump, callbacks of Python, and libraries that are not known have no meaning here, but two
programs that call them with the same operands, and go on in the same way with what they return, are the same program.
Results are made up: those of a call in the second program are those of the call in the first that has its operands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.arguments import made_up
from hlo_cli.analysis.evaluate.boundaries import is_boundary
from hlo_cli.analysis.evaluate.fused_collectives import is_fused_part
from hlo_cli.analysis.evaluate.omitted_constants import Constants, omitted_constants
from hlo_cli.analysis.semantics.custom_calls import rule_of_target, target_of_call
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Kernel, Value
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_OPCODES
from hlo_cli.ir.shape import Shape

Function: TypeAlias = "tuple[str, str, tuple[str, ...]]"
"""A target or opcode, what else tells functions of one target apart, and the shapes of operands and results."""

_TOLERANCE: Final = 1e-6
_SEND_DONE: Final = "send-done"
_RENDEZVOUS: Final = "_xla_host_transfer_rendezvous"


def functions_of(module: Module) -> frozenset[Function]:
    """The functions of unknown meaning that a module calls.

    >>> from hlo_cli import parse_module
    >>> functions_of(parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"'))
    frozenset({('my_op', '', ('f32[8]', 'f32[8]'))})
    """
    return frozenset(
        function
        for computation in executions_of(module)
        for instruction in computation.instructions
        if (function := _function(instruction)) is not None
    )


def _function(instruction: Instruction) -> Function | None:
    if instruction.opcode == opcodes.CUSTOM_CALL:
        if rule_of_target(instruction) is not None or is_boundary(instruction) or is_fused_part(instruction):
            return None
        operands = [instruction.operand_shape(at) for at in range(len(instruction.operands))]
        return target_of_call(instruction), _configuration(instruction), _texts((*operands, instruction.shape))
    if instruction.opcode == opcodes.RECV_DONE and instruction.flag("is_host_transfer"):
        name = instruction.frontend_attributes.get(_RENDEZVOUS) or ""
        return instruction.opcode, name, _texts((instruction.shape,))
    return None


def _texts(shapes: Sequence[Shape]) -> tuple[str, ...]:
    return tuple(shape.to_string(layout=False) for shape in shapes)


def _configuration(instruction: Instruction) -> str:
    """What a compiler was told of a call: of a TPU kernel its body, since compilers add settings of their own."""
    text = instruction.attribute("backend_config") or ""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    inner = found.get("custom_call_config") if isinstance(found, dict) else None
    body = inner.get("body") if isinstance(inner, dict) else None
    return body if isinstance(body, str) else text


class UnknownFunctions:
    """The calls of one run. Those of the second program take the results of the first, which is `first`.

    `constants` are the values of constants that the text of the program omits.
    """

    def __init__(
        self, functions: frozenset[Function], constants: Constants | None = None, first: UnknownFunctions | None = None
    ) -> None:
        self.constants = constants
        self._functions = functions
        self._first = first
        self._calls: dict[Function, list[Array]] = {}
        self._numbers: dict[tuple[Function, bytes], int] = {}
        self._times: dict[tuple[Function, int, int], int] = {}

    def has_meaning(self, instruction: Instruction) -> bool:
        """Whether a call is of one of the functions, or takes part in an exchange with the host."""
        if instruction.opcode in CHANNEL_OPCODES and instruction.opcode != opcodes.RECV_DONE:
            return instruction.flag("is_host_transfer")
        function = _function(instruction)
        return function is not None and function in self._functions

    def kernel(self, instruction: Instruction, floats: Floats, device: Callable[[], int]) -> Kernel:
        """What a call returns. What is sent to the host goes on as the value of tokens, to what is received next."""
        if instruction.opcode == opcodes.SEND:
            return lambda value, token: (value, None, value)
        if instruction.opcode == _SEND_DONE:
            return lambda sent: sent[2]
        if instruction.opcode == opcodes.RECV:
            return lambda token: (None, None, token)
        function = _function(instruction)
        assert function is not None
        has_effect = instruction.flag("custom_call_has_side_effect") or instruction.opcode == opcodes.RECV_DONE
        seed = crc32(repr(function).encode())

        def kernel(*operands: Value) -> Value:
            number = self._number(function, _sample(operands), floats)
            times = 0
            if has_effect:
                at = function, number, device()
                times = self._times.get(at, 0)
                self._times[at] = times + 1
            return made_up(instruction.shape, 1000 * number + times, seed=seed, floats=floats)

        return kernel

    def _number(self, function: Function, sample: Array, floats: Floats) -> int:
        """The number of the results for operands; the same for the same operands."""
        exactly = function, sample.tobytes()
        if exactly not in self._numbers:
            found = None if self._first is None else self._first.nearest(function, sample, floats)
            calls = self._calls.setdefault(function, [])
            calls.append(sample)
            self._numbers[exactly] = found if found is not None else self._fresh(function, len(calls))
        return self._numbers[exactly]

    def _fresh(self, function: Function, count: int) -> int:
        return count - 1 if self._first is None else count + len(self._first._calls.get(function, ()))

    def nearest(self, function: Function, sample: Array, floats: Floats) -> int | None:
        """The number of the call with these operands; rounding tells none apart if floats are rounded."""
        exactly = function, sample.tobytes()
        if exactly in self._numbers:
            return self._numbers[exactly]
        calls = [each for each in self._calls.get(function, ()) if each.shape == sample.shape]
        if not calls:
            return None
        known = np.stack(calls)
        scale = np.maximum(np.maximum(known[..., 1], sample[..., 1]), 1e-300)
        apart = np.max(np.abs(known - sample).max(axis=-1, initial=0) / scale, axis=-1, initial=0)
        best = int(np.argmin(apart))
        is_same = floats == "exact" or apart[best] <= _TOLERANCE
        return self._numbers[function, calls[best].tobytes()] if is_same else None


class Shared(NamedTuple):
    """What two programs that are compared have in common, and what one knows of the other.

    `functions` are those of unknown meaning that both call, `constants` the values that each text omits.
    """

    functions: frozenset[Function]
    constants: tuple[Constants, Constants]

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets and opcodes of the functions."""
        return tuple(sorted({each[0] for each in self.functions}))

    def pair(self) -> tuple[UnknownFunctions, UnknownFunctions]:
        """The calls of both programs, in one mode of arithmetic."""
        first = UnknownFunctions(self.functions, self.constants[0])
        return first, UnknownFunctions(self.functions, self.constants[1], first)


def shared_by(old: Module, new: Module) -> Shared:
    """What two programs have in common.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"')
    >>> shared_by(module, module).targets
    ('my_op',)
    """
    constants = omitted_constants(old, new), omitted_constants(new, old)
    return Shared(functions_of(old) & functions_of(new), constants)


def _sample(operands: Sequence[Value]) -> Array:
    """Numbers of each array: one that depends on elements and their places, magnitudes, and the non-finite ones."""
    rows = [_numbers_of(array) for operand in operands for array in _arrays(operand)]
    return np.array(rows, np.float64).reshape(len(rows), 3)


def _arrays(value: Value) -> list[Array]:
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [] if value is None else [np.asarray(value)]


def _numbers_of(array: Array) -> tuple[float, float, float]:
    flat = array.reshape(-1)
    parts = np.concatenate((flat.real, flat.imag)) if flat.dtype.kind == "c" else flat
    wide = parts.astype(np.float64)
    finite = np.isfinite(wide)
    wide = np.where(finite, wide, 0)
    weights = np.cos(0.7 * np.arange(wide.size) + 0.3)
    return float(wide @ weights), float(np.abs(wide).sum()), float((~finite).sum())
