"""HLO7xx: types and precision."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from hlo_cli.analysis.cost.matmuls import matmul_of, matmuls_of
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import MATMULS
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.words import Precision
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.conversions import element_type, round_trips
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span, shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_DOUBLE: Final = ("f64", "c128")
_NARROW_BITS: Final = 16


@rule("HLO701", "f64 on a TPU", severity="warning")
def double_on_tpu(context: LintContext) -> Iterator[Finding]:
    """A module for a TPU, or meant for one (chip), computes in f64 or c128. Told once, of the first that does.

    Why: TPUs have no such units. Each number is taken apart into two of f32, each operation into dozens, and the range
    stays that of f32.

    Example:
        y = f64[8,128] negate(x)

    Mend: compute in f32; in jax, leave jax_enable_x64 off, or give constants the dtype of what they meet.

    Reference: https://docs.jax.dev/en/latest/default_dtypes.html; hlo parse DUMP --instructions
    """
    chip = context.settings.chip
    if context.target == "tpu" or (chip is not None and find_chip(chip).target == "tpu"):
        found = list(_doubles(context))
        if found:
            more = f", and so are {len(found) - 1:,} others" if len(found) > 1 else ""
            yield context.finding(
                f"{found[0].name} is {element_type(found[0])}, which a TPU does not have{more}", found[0]
            )


@rule("HLO702", "f64 without an argument of f64", severity="warning")
def promoted(context: LintContext) -> Iterator[Finding]:
    """A module computes in f64 or c128 though none of its arguments is. Told once, of the first that does.

    Why: that is seldom meant: a constant of Python or numpy met an array of f32 and made it twice as wide. It takes
    twice the memory and, but on some GPUs for science, a fraction of the speed.

    Example:
        y = f64[1024] convert(x)

    Mend: give the constant the dtype of the array; in jax, leave jax_enable_x64 off.

    Reference: https://docs.jax.dev/en/latest/type_promotion.html
    """
    if any(_is_double(parameter.shape) for parameter in context.module.entry.parameters):
        return
    found = next((each for each in _doubles(context) if each.shape.logical_bytes > _SCALAR_BYTES), None)
    if found is not None:
        yield context.finding(f"{found.name} is {found.shape.to_string(layout=False)}, but no argument is f64", found)


@rule("HLO703", "sums in a narrow type", severity="warning")
def narrow_sum(context: LintContext) -> Iterator[Finding]:
    """A reduction adds many elements in 16 bits or fewer (summed_elements).

    Why: bf16 keeps 8 bits of precision: once the sum is 256 times as large as a summand, adding that changes nothing.
    Narrow integers overflow. Not looked for once the TPU compiler is through, which writes bf16 for sums in f32.

    Example:
        y = bf16[8] reduce(x, zero), dimensions={1}, to_apply=add

    Mend: convert to f32 before, and back behind; in jax, jnp.sum(x, dtype=jnp.float32). What jax makes of a broadcast
    in a gradient is such a sum too.

    Reference: FloatNormalization in xla/hlo/transforms/simplifiers
    """
    for reduce in context.of(opcodes.REDUCE, opcodes.REDUCE_WINDOW) if context.target != "tpu" else ():
        called = reduce.called_computations
        root = called[0].root if called else None
        if root is None or root.opcode != "add" or not isinstance(root.shape, ArrayShape) or not reduce.operands:
            continue
        kind, summed = root.shape.element_type, _summed(reduce)
        if kind.bits <= _NARROW_BITS and kind.kind != "pred" and summed >= context.settings.summed_elements:
            yield context.finding(f"{reduce.name} adds {summed:,} elements of {kind} at a time", reduce)


@rule("HLO704", "product overflows its type", severity="warning")
def narrow_product(context: LintContext) -> Iterator[Finding]:
    """A product of matrices of narrow integers gives integers as narrow.

    Why: a product of two s8 takes 15 bits, and the sum of many more; what does not fit is cut off without a word.

    Example:
        y = s8[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}

    Mend: ask for s32; in jax, preferred_element_type=jnp.int32.

    Reference: https://openxla.org/xla/operation_semantics#dot
    """
    for instruction in context.of(*MATMULS):
        shape = instruction.shape
        if not isinstance(shape, ArrayShape) or shape.element_type.kind not in _INTEGERS:
            continue
        product, made = matmul_of(instruction), shape.element_type
        if product is None or product.k < 2 or made.bits > min(product.lhs.element_type.bits, _NARROW_BITS):
            continue
        yield context.finding(
            f"{instruction.name} adds {product.k:,} products of {product.lhs.element_type} in {made}",
            instruction,
            shape_span(context.module, instruction),
        )


@rule("HLO705", "product of f32 at default precision", severity="note", is_default=False)
def default_precision(context: LintContext) -> Iterator[Finding]:
    """A product of f32 matrices in a module for a TPU (compiled, or chip) does not say how precise it must be.

    Why: TPUs multiply in bf16, and add in f32. By default both operands are rounded to bf16 first, to 8 bits. Mostly
    that is what is wanted, so this rule is off.

    Example:
        y = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}

    Mend: where it matters, ask for more; in jax, precision="highest", which takes six times as long, or "high", three
    times.

    Reference: https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision
    """
    chip = context.settings.chip
    if context.target != "tpu" and (chip is None or find_chip(chip).target != "tpu"):
        return
    for product in matmuls_of(context.module):
        asked = product.instruction.items_of("operand_precision", Precision)
        is_default = all(each is Precision.DEFAULT for each in asked)
        if product.lhs.element_type.name == product.rhs.element_type.name == "f32" and is_default:
            yield context.finding(f"{product.instruction.name} multiplies f32 rounded to bf16", product.instruction)


@rule("HLO706", "precision that the operands do not have", severity="note")
def useless_precision(context: LintContext) -> Iterator[Finding]:
    """A product of matrices of 16 bits or fewer asks for more than the default precision.

    Why: that tells into how many parts of bf16 an operand of f32 is taken apart. An operand of bf16 is one part: asking
    for more changes nothing, and hints at a conversion that was not meant.

    Example:
        y = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}

    Mend: leave it out, or convert less early.

    Reference: PrecisionConfig in xla/xla_data.proto
    """
    for product in context.of(*MATMULS):
        asked = product.items_of("operand_precision", Precision)
        if not asked or all(each is Precision.DEFAULT for each in asked):
            continue
        kinds = [product.operand_shape(n) for n in range(min(2, len(product.operands)))]
        if all(isinstance(s, ArrayShape) and s.element_type.bits <= _NARROW_BITS for s in kinds):
            yield context.finding(
                f"{product.name} asks for {asked[0]} precision of {element_type(product.operands[0])}",
                product,
                attribute_span(product, "operand_precision"),
            )


@rule("HLO707", "loses precision halfway", severity="note", is_default=False)
def rounded_between(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a narrower type and back to the wider, with nothing computed in between (kernel_bytes).

    Why: the low bits are lost, but memory is saved only if the narrow value is what is kept. Programs in bf16 do so all
    the time, and mean it, so this rule is off.

    Example:
        a = bf16[512,512] convert(x)
        b = f32[512,512] convert(a)

    Mend: use the wide value, unless the rounding is wanted; that is said more plainly by reduce-precision.

    Reference: https://openxla.org/xla/operation_semantics#reduceprecision
    """
    for trip in round_trips(context, context.settings.kernel_bytes):
        if trip.inner.bits < trip.outer.bits:
            taken, last = format_bytes(trip.last.shape.padded_bytes), trip.last
            message = f"{last.name} takes {taken} of {trip.outer} from what {trip.first.name} rounded to {trip.inner}"
            yield context.finding(message, last)


_INTEGERS: Final = frozenset(("signed", "unsigned"))
_SCALAR_BYTES: Final = 16


def _doubles(context: LintContext) -> Iterator[Instruction]:
    """Instructions with f64 or c128 results, in the order of the text, except constants and broadcasts."""
    if context.module.source.text and not any(kind in context.module.source.text for kind in _DOUBLE):
        return
    for each in context.shaped(_is_double):
        if each.opcode not in (opcodes.CONSTANT, opcodes.BROADCAST):
            yield each


def _is_double(shape: Shape) -> bool:
    return any(isinstance(leaf, ArrayShape) and leaf.element_type.name in _DOUBLE for _, leaf in shape.leaves)


def _summed(reduce: Instruction) -> int:
    """The number of elements reduced to one of the result."""
    given = reduce.operand_shape(0)
    if not isinstance(given, ArrayShape):
        return 0
    if reduce.opcode == opcodes.REDUCE_WINDOW:
        window = reduce.window
        return prod(dimension.size for dimension in window.dimensions) if window is not None else 0
    return prod(given.sizes[d] for d in reduce.integers("dimensions") if 0 <= d < given.rank)
