"""How far rounding alone moves the results of a program: from the lengths of its sums and the types of its floats."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Final

from hlo_cli.analysis.dataflow.executions import runs_per_call
from hlo_cli.analysis.evaluations import element_count, evaluations
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_FLOW
from hlo_cli.ir.primitive import FLOAT_FORMATS
from hlo_cli.ir.shape import ArrayShape, ShapeIndex

_SUMS: Final = frozenset((opcodes.DOT, opcodes.CONVOLUTION, opcodes.REDUCE, opcodes.REDUCE_WINDOW))
_CONSTANT: Final = 4.0
_WIDEST: Final = 52


@dataclass(frozen=True, slots=True)
class Rounding:
    """The number of terms that are added one after another, and the mantissa bits of the narrowest float."""

    terms: int
    mantissa_bits: int

    @property
    def bound(self) -> float:
        """The relative distance that rounding explains: (4 + √terms) units of roundoff.

        >>> Rounding(16, 23).bound == 8 * 2**-24
        True
        """
        return float((_CONSTANT + sqrt(self.terms)) * 2.0 ** -(self.mantissa_bits + 1))


def rounding_of(module: Module) -> Mapping[ShapeIndex, Rounding]:
    """The rounding of each array of the result.

    Sums on the way to a result follow each other; those of a loop count once for each iteration that is known.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = bf16[64] parameter(0)  z = f32[] constant(0)  c = f32[64] convert(p) "
    >>> module = parse_module(text + " ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=f }")
    >>> rounding_of(module)
    {(): Rounding(terms=64, mantissa_bits=7)}
    """
    computed: dict[Computation, Mapping[Instruction, Rounding]] = {}
    found = _of(module.entry, computed)
    root = module.entry.root
    if root is None:
        return {}
    is_tuple = root.opcode == opcodes.TUPLE
    return {index: found[root.operands[index[0]] if is_tuple and index else root] for index, _ in root.shape.leaves}


def _of(
    computation: Computation, computed: dict[Computation, Mapping[Instruction, Rounding]]
) -> Mapping[Instruction, Rounding]:
    if computation in computed:
        return computed[computation]
    found: dict[Instruction, Rounding] = {}
    computed[computation] = found
    for instruction in computation.instructions:
        before = [found[each] for each in instruction.operands if each in found]
        terms = max((each.terms for each in before), default=0) + _own_terms(instruction)
        bits = min((each.mantissa_bits for each in before), default=_WIDEST)
        bits = min(bits, _mantissa_bits(instruction))
        if instruction.opcode in CONTROL_FLOW or instruction.opcode == opcodes.FUSION:
            for called in instruction.called_computations:
                inner = _of(called, computed)
                last = inner.get(called.root) if called.root is not None else None
                if last is not None:
                    terms += last.terms * (runs_per_call(instruction, called) or 1)
                    bits = min(bits, last.mantissa_bits)
        found[instruction] = Rounding(terms, bits)
    return found


def _own_terms(instruction: Instruction) -> int:
    if instruction.opcode not in _SUMS:
        return 0
    terms, elements = evaluations(instruction), element_count(instruction.shape)
    return terms // elements if terms and elements else 0


def _mantissa_bits(instruction: Instruction) -> int:
    forms = (
        FLOAT_FORMATS.get({"c64": "f32", "c128": "f64"}.get(leaf.element_type.name, leaf.element_type.name))
        for _, leaf in instruction.shape.leaves
        if isinstance(leaf, ArrayShape)
    )
    return min((form.mantissa_bits for form in forms if form is not None), default=_WIDEST)
