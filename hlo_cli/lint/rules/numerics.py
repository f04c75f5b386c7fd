"""HLO7xx: is a type wider than the program needs, or a result less precise than it looks?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Final

from hlo_cli.analysis.cost.matmuls import matmul_of, matmuls_of
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import Precision
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import MATMULS
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.lint.finding_facts import Waste
from hlo_cli.lint.rule import LintContext, attribute_span, rule, shape_span
from hlo_cli.lint.value_flow import element_type, round_trips
from hlo_cli.report.findings import Finding
from hlo_cli.report.numbers import format_bytes, format_count

# TPUs have no f64 units, so compilers emulate them.
_DOUBLE: Final = ("f64", "c128")
# bf16 and f16; narrower types are worse.
_NARROW_BITS: Final = 16


@rule("HLO701", "f64 on TPU", severity="warning")
def f64_on_tpu(context: LintContext) -> Iterator[Finding]:
    """A module for TPU computes in f64 or c128.

    Reported once, at the first instruction, for modules compiled for TPU or if the setting chip names a TPU.

    Why: TPUs have no f64 units. Each number is emulated by two f32 numbers and each operation by dozens of
    instructions, with the range of f32.

    Example:
        y = f64[8,128] negate(x)

    Fix: Use f32: in JAX, disable jax_enable_x64, or give constants the dtype of the array, such as np.float32(0.1).

    Reference: https://docs.jax.dev/en/latest/default_dtypes.html; `hlo parse DUMP --instructions`
    """
    chip = context.settings.chip
    if context.target == "tpu" or (chip is not None and find_chip(chip).target == "tpu"):
        found = list(_doubles(context))
        if found:
            more = f" ({format_count(len(found) - 1, 'more instructions')})" if len(found) > 1 else ""
            yield context.finding(
                f"{context.user_name(found[0])} is {element_type(found[0])}, which TPUs emulate{more}",
                found[0],
                waste=Waste(_excess_bytes(found), None),
            )


@rule("HLO702", "unintended f64", severity="warning")
def unintended_f64(context: LintContext) -> Iterator[Finding]:
    """A module computes in f64 or c128 although no argument has that type.

    Reported once, at the first instruction.

    Why: Usually, a Python or NumPy constant has promoted an f32 array. f64 needs twice the memory and is much slower,
    except on some data-center GPUs.

    Example:
        y = f64[1024] convert(x)

    Fix: Give the constant the dtype of the array, such as np.float32(0.1), or disable jax_enable_x64 in JAX.

    Reference: https://docs.jax.dev/en/latest/type_promotion.html
    """
    if any(_is_double(parameter.shape) for parameter in context.module.entry.parameters):
        return
    # Scalars of f64 are Python numbers that JAX with x64 enabled makes, without any cost.
    found = [each for each in _doubles(context) if each.shape.logical_bytes > _SCALAR_BYTES]
    if found:
        kind = found[0].shape.to_string(layout=False)
        yield context.finding(
            f"{context.user_name(found[0])} is {kind}, although no argument is f64 or c128",
            found[0],
            waste=Waste(_excess_bytes(found), None),
        )


@rule("HLO703", "low-precision accumulation", severity="warning")
def low_precision_accumulation(context: LintContext) -> Iterator[Finding]:
    """A reduction accumulates many elements in 16 bits or fewer.

    Reported for at least min_accumulated_elements elements per result, in scheduled modules that are not for TPU:
    compilers for CPU and TPU accumulate bf16 in f32, whatever the type of the reduction is.

    Why: bf16 has 8 bits of precision: once the sum is 256 times as large as an element, adding the element has no
    effect. Narrow integers overflow.

    Example:
        y = bf16[8] reduce(x, zero), dimensions={1}, to_apply=add

    Fix: Accumulate in f32: in JAX, jnp.sum(x, dtype=jnp.float32). The gradient of a broadcast is also such a sum.

    Reference: FloatNormalization in xla/hlo/transforms/simplifiers
    """
    # Compilers for TPU accumulate bf16 in f32; on CPU, float normalization has widened the reduction in this text.
    is_checked = context.module.is_scheduled and context.target != "tpu"
    for reduce in context.of(opcodes.REDUCE, opcodes.REDUCE_WINDOW) if is_checked else ():
        root = reduce.called_computations[0].root
        assert root is not None
        if root.opcode != opcodes.ADD or not isinstance(root.shape, ArrayShape) or not reduce.operands:
            continue
        kind, summed = root.shape.element_type, _summed(reduce)
        # pred sums are counts of a logical or.
        if kind.bits <= _NARROW_BITS and kind.kind != "pred" and summed >= context.settings.min_accumulated_elements:
            yield context.finding(
                f"{context.user_name(reduce)} accumulates {summed:,} elements in {kind}", reduce, subject=reduce
            )


@rule("HLO704", "integer matmul overflow", severity="warning")
def integer_matmul_overflow(context: LintContext) -> Iterator[Finding]:
    """An integer matmul returns the narrow type of its operands.

    Why: A product of two s8 values needs 15 bits, and a sum of products more. Larger results are silently truncated.

    Example:
        y = s8[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}

    Fix: Use s32 results: in JAX, preferred_element_type=jnp.int32.

    Reference: https://openxla.org/xla/operation_semantics#dot
    """
    for instruction in context.of(*MATMULS):
        shape = instruction.shape
        if not isinstance(shape, ArrayShape) or shape.element_type.kind not in _INTEGERS:
            continue
        product, made = matmul_of(instruction), shape.element_type
        # One product is no sum; a result wider than the operands, or of 32 bits, is made to hold one.
        if product is None or product.k < 2 or made.bits > min(product.lhs.element_type.bits, _NARROW_BITS):
            continue
        yield context.finding(
            f"{context.user_name(instruction)} accumulates {product.k:,} products of {product.lhs.element_type} "
            f"in {made}",
            instruction,
            shape_span(context.module, instruction),
            subject=instruction,
        )


@rule("HLO705", "f32 matmul at default precision", severity="note", is_default=False)
def default_precision(context: LintContext) -> Iterator[Finding]:
    """An f32 matmul on TPU uses default precision (bf16 inputs).

    Reported for modules compiled for TPU or if the setting chip names a TPU.

    Why: TPUs multiply in bf16 and accumulate in f32. At default precision, both operands are rounded to bf16, which has
    8 bits of precision. Off by default, because that is usually intended.

    Example:
        y = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}

    Fix: If accuracy matters, in JAX use precision="high" (about 3× slower) or "highest" (about 6×).

    Reference: https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision
    """
    chip = context.settings.chip
    if context.target != "tpu" and (chip is None or find_chip(chip).target != "tpu"):
        return
    for product in matmuls_of(context.module):
        requested = product.instruction.items_of("operand_precision", Precision)
        # No attribute is default precision.
        is_default = all(each is Precision.DEFAULT for each in requested)
        if product.lhs.element_type.name == product.rhs.element_type.name == "f32" and is_default:
            message = f"{context.user_name(product.instruction)} rounds its f32 operands to bf16"
            yield context.finding(message, product.instruction, subject=product.instruction)


@rule("HLO706", "precision setting without effect", severity="note")
def precision_without_effect(context: LintContext) -> Iterator[Finding]:
    """A matmul of 16-bit or narrower operands requests higher precision, which has no effect.

    Why: The precision sets the number of bf16 parts that an f32 operand is split into. A bf16 operand is a single part.
    The setting often points to an unintended conversion. Reported for scheduled modules, because the compiler for CPU
    removes the setting.

    Example:
        y = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}

    Fix: Remove the precision setting.

    Reference: PrecisionConfig in xla/xla_data.proto
    """
    for product in context.of(*MATMULS) if context.module.is_scheduled else ():
        requested = product.items_of("operand_precision", Precision)
        if not requested or all(each is Precision.DEFAULT for each in requested):
            continue
        kinds = [product.operand_shape(n) for n in range(min(2, len(product.operands)))]
        if all(isinstance(s, ArrayShape) and s.element_type.bits <= _NARROW_BITS for s in kinds):
            yield context.finding(
                f"{context.user_name(product)} requests {requested[0]} precision for "
                f"{element_type(product.operands[0])} operands",
                product,
                attribute_span(product, "operand_precision"),
                subject=product,
            )


@rule("HLO707", "lossy type round trip", severity="note", is_default=False)
def lossy_round_trip(context: LintContext) -> Iterator[Finding]:
    """A value is converted to a narrower type and back without any computation in between.

    Reported for values of at least min_kernel_bytes in scheduled modules, because some compilers remove such
    conversions.

    Why: The low bits are lost, and memory is saved only if the narrow value is stored. Off by default, because programs
    in bf16 often do this on purpose.

    Example:
        a = bf16[512,512] convert(x)
        b = f32[512,512] convert(a)

    Fix: Use the wide value.

    Reference: https://openxla.org/xla/operation_semantics#reduceprecision
    """
    if not context.module.is_scheduled:
        return
    for trip in round_trips(context, context.settings.min_kernel_bytes):
        # Narrower inside: information is lost; the reverse is HLO303.
        if trip.inner.bits < trip.outer.bits:
            taken, last = format_bytes(trip.last.shape.padded_bytes), trip.last
            message = f"{context.user_name(last)} is rounded to {trip.inner} and back to {trip.outer} ({taken})"
            yield context.finding(message, last, subject=last)


_INTEGERS: Final = frozenset(("signed", "unsigned"))
# Two doubles, or one c128.
_SCALAR_BYTES: Final = 16


def _excess_bytes(found: Iterable[Instruction]) -> int:
    """The bytes that arrays of 64-bit floats would not need as arrays of 32-bit floats."""
    return sum(each.shape.padded_bytes for each in found) // 2


def _doubles(context: LintContext) -> Iterator[Instruction]:
    """Instructions with f64 or c128 results, in the order of the text, except constants and broadcasts."""
    text = context.module.source.text
    if text and not any(kind in text for kind in _DOUBLE):  # only faster
        return
    for each in context.shaped(_is_double):
        # Constants are folded, and a broadcast of one costs nothing where it is fused.
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
    # Elements of all reduced dimensions go into one.
    return prod(given.sizes[d] for d in reduce.integers("dimensions") if 0 <= d < given.rank)
