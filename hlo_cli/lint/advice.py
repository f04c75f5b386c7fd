"""Advice: what a user can change about an array, an argument or a result, so that a finding goes away.

Tests compile programs again with each of these changes. Nothing is advised for values inside of a program whose layouts
compilers choose.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import uses_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.default_layout import LayoutAlternative, default_layout, default_order
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.donations import Donation, Donations
from hlo_cli.report.numbers import format_bytes, format_count

_MOST_STEPS: Final = 100
_MOST_GROWTH: Final = 1.05
"""How much larger an argument may be in another layout, as a factor."""
_ENOUGH: Final = 0.8
"""At most this share of the bytes is needed with merged dimensions."""


def argument_of(value: Instruction) -> Instruction | None:
    """The argument that a value is, copied at most between memory spaces; None if it is something else.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { p = f32[4,8]{1,0} parameter(0)  c = f32[4,8]{1,0:S(1)} copy(p)
    ... ROOT t = f32[4,8]{0,1} copy(c) }'''
    >>> entry = parse_module(text).entry
    >>> argument_of(entry.instruction("c")), argument_of(entry.root)
    (<parameter p>, None)
    """
    for _ in range(_MOST_STEPS):
        if value.opcode == opcodes.PARAMETER:
            return value if value.computation.is_entry and isinstance(value.shape, ArrayShape) else None
        if value.opcode == opcodes.COPY_DONE and value.operands:
            value = value.operands[0]
        if value.opcode not in (opcodes.COPY, opcodes.COPY_START, opcodes.OPT_BARRIER) or not value.operands:
            return None
        before, given = value, value.operands[0]
        written = before.shape if before.opcode == opcodes.COPY else dict(before.shape.leaves).get((0,))
        if not isinstance(written, ArrayShape) or not isinstance(given.shape, ArrayShape):
            return None
        if (written.dimensions, _tiling(written)) != (given.shape.dimensions, _tiling(given.shape)):
            return None
        value = given
    return None


def is_donated(context: LintContext, argument: Instruction) -> bool:
    """Whether a result may overwrite an argument; for a result, whether any argument is donated."""
    if argument.opcode != opcodes.PARAMETER:  # a result
        return bool(context.module.input_output_alias)
    return argument in context.module.donated_parameters


def is_only_reader(context: LintContext, reader: Instruction, argument: Instruction) -> bool:
    """Whether nothing but an instruction reads an argument, copies between memory spaces aside."""
    waiting, seen = [argument], {argument}
    while waiting:
        for user in uses_of(waiting.pop(), context.users):
            if user is reader or user in seen:
                continue
            done = next(iter(context.users[user]), user) if user.opcode == opcodes.COPY_START else user
            if argument_of(done) is not argument:
                return False
            seen.add(user)
            waiting.append(user)
    return True


def is_result(context: LintContext, value: Instruction) -> bool:
    """Whether a value is returned, as the result or an element of it, and used by nothing else."""
    root = context.module.entry.root
    users = uses_of(value, context.users)
    if value is root:
        return not users
    return root is not None and root.opcode == opcodes.TUPLE and list(users) == [root]


def donation_hint(context: LintContext, donations: Donations, donation: Donation) -> str:
    """How to donate an argument, and the bytes that this saves, or that donating all arguments saves.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.donations import donations_of
    >>> from hlo_cli.lint.settings import LintSettings
    >>> module = parse_module("ENTRY e { p = f32[256] parameter(0)  ROOT n = f32[256] negate(p) }")
    >>> context = LintContext(module, LintSettings())
    >>> found = donations_of(context.analyses.memory, 1)
    >>> donation_hint(context, found, found.arguments[0])
    'donate p: in JAX, donate_argnums of jax.jit; the module then needs 1 KiB less'
    """
    saved, count = donations.saved_by(donation), len(donations.arguments)
    donor = context.user_name(donation.argument)
    all_of_them = f"{donor} and the other {format_count(count - 1, 'such arguments')}" if count > 1 else donor
    given, needed = (donor, saved) if saved is not None else (all_of_them, donations.saved_bytes)
    return f"donate {given}: in JAX, donate_argnums of jax.jit; the module then needs {format_bytes(needed)} less"


def layout_hint(context: LintContext, mover: Instruction, read: ArrayShape, written: ArrayShape) -> str | None:
    """Which layout of an argument or a result makes an instruction unnecessary that only changes the layout.

    None if that is no argument or result, if others read it in its layout, or if it would need more memory.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> text = '''ENTRY e { p = f32[256,512]{1,0} parameter(0)  c = f32[256,512]{0,1} copy(p)
    ... ROOT n = f32[] custom-call(c), custom_call_target="f" }'''
    >>> module = parse_module(text)
    >>> copy = module.entry.instruction("c")
    >>> layout_hint(LintContext(module, LintSettings()), copy, copy.operands[0].shape, copy.shape)
    'pass p in dimension order {0,1}: in JAX, in_shardings=Format(Layout((1, 0)), sharding)'
    """
    if read.layout.minor_to_major == written.layout.minor_to_major or read.dimensions != written.dimensions:
        return None
    if context.module.is_part:
        return None
    argument = argument_of(mover.operands[0]) if mover.operands else None
    if argument is not None and not is_donated(context, argument) and is_only_reader(context, mover, argument):
        if written.padded_bytes <= _MOST_GROWTH * read.padded_bytes and not is_result(context, mover):
            return f"pass {context.user_name(argument)} in {_order_in_jax(written.layout, 'in_shardings')}"
        return None
    is_free = is_result(context, mover) and not context.module.input_output_alias
    if argument is None and is_free and read.padded_bytes <= _MOST_GROWTH * written.padded_bytes:
        return f"return it in {_order_in_jax(read.layout, 'out_shardings')}"
    return None


def padding_hint(
    context: LintContext, value: Instruction, shape: ArrayShape, better: LayoutAlternative | None
) -> str | None:
    """How to pass or return an array with less padding, and the bytes that it needs then.

    None for values inside of the program, for which the compiler chooses layouts. `better` is the dimension order with
    the least padding, None if the array has that.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> module = parse_module("ENTRY e { p = f32[40,40,40]{2,1,0:T(8,128)} parameter(0)  ROOT c = f32[] constant(0) }")
    >>> p = module.entry.instruction("p")
    >>> padding_hint(LintContext(module, LintSettings()), p, p.shape, None)
    'pass p with merged dimensions, such as f32[40,1600], which needs only 260 KiB'
    """
    is_argument = argument_of(value) is value
    if context.module.is_part or not (is_argument or is_result(context, value)) or is_donated(context, value):
        return None
    verb = f"pass {context.user_name(value)}" if is_argument else "return it"
    if better is not None:
        keyword = "in_shardings" if is_argument else "out_shardings"
        order = _order_in_jax(better.layout, keyword)
        return f"{verb} in {order}, which needs only {format_bytes(better.padded_bytes)}"
    return merging_hint(shape, verb=verb)


def transposing_hint(context: LintContext, kernel: Instruction) -> str | None:
    """Which argument to pass transposed, so that a kernel is unnecessary that transposes it for the program.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> text = '''ENTRY e { p = f32[256,512]{1,0} parameter(0)
    ... t = f32[512,256]{1,0} transpose(p), dimensions={1,0}, metadata={op_name="jit(f)/transpose"}
    ... ROOT n = f32[512,256]{1,0} negate(t) }'''
    >>> module = parse_module(text)
    >>> transposing_hint(LintContext(module, LintSettings()), module.entry.instruction("t"))
    'pass p transposed, and remove the transpose'
    """
    argument = argument_of(kernel.operands[0]) if kernel.operands else None
    if argument is None or context.module.is_part or is_donated(context, argument) or is_result(context, kernel):
        return None
    is_asked = kernel.metadata.op_name.rpartition("/")[2] == opcodes.TRANSPOSE
    if not is_asked or not is_only_reader(context, kernel, argument):
        return None
    return f"pass {context.user_name(argument)} transposed, and remove the transpose"


def relayout_hint(context: LintContext, kernel: Instruction, operand: Instruction, layout: Layout) -> str | None:
    """Which layout a result should have, that an elementwise kernel makes of an argument in that layout.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.settings import LintSettings
    >>> text = "ENTRY e { p = f32[4,8]{1,0} parameter(0)  ROOT n = f32[4,8]{0,1} negate(p) }"
    >>> module = parse_module(text)
    >>> [p, n] = module.entry.instructions
    >>> relayout_hint(LintContext(module, LintSettings()), n, p, p.shape.layout)
    'return it in dimension order {1,0}: in JAX, out_shardings=Format(Layout((0, 1)), sharding)'
    """
    if argument_of(operand) is None or context.module.is_part or not is_result(context, kernel):
        return None
    return None if is_donated(context, kernel) else f"return it in {_order_in_jax(layout, 'out_shardings')}"


def merging_hint(shape: ArrayShape, *, verb: str, generation: str = USUAL_TPU) -> str | None:
    """The shape with merged dimensions that needs the least memory in the compiler's layout; None if none needs less.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> merging_hint(parse_shape("f32[40,40,40]{2,1,0:T(8,128)}"), verb="pass x")
    'pass x with merged dimensions, such as f32[40,1600], which needs only 260 KiB'
    """
    sizes, best = shape.dimensions, None
    for first in range(1, 0 if shape.is_dynamic else shape.rank):
        for merged in ((*sizes[:first], prod(sizes[first:])), (prod(sizes[:first]), *sizes[first:])):
            made = _in_default_layout(shape, merged, generation) if len(merged) < shape.rank else None
            if made is not None and (best is None or made.padded_bytes < best.padded_bytes):
                best = made
    if best is None or best.padded_bytes > _ENOUGH * shape.padded_bytes:
        return None
    text = best.to_string(layout=False)
    return f"{verb} with merged dimensions, such as {text}, which needs only {format_bytes(best.padded_bytes)}"


def _in_default_layout(shape: ArrayShape, sizes: tuple[int, ...], generation: str) -> ArrayShape | None:
    row_major = Layout(tuple(range(len(sizes)))[::-1])
    bare = replace(shape, dimensions=sizes, dynamic_dimensions=(False,) * len(sizes), layout=row_major)
    order = default_order(bare, generation=generation)
    if order is None:
        return None
    return replace(bare, layout=default_layout(bare, generation=generation, minor_to_major=order))


def _order_in_jax(layout: Layout, keyword: str) -> str:
    """A dimension order, and how to ask for it in JAX."""
    order = layout.minor_to_major
    return f"dimension order {index_text(order)}: in JAX, {keyword}=Format(Layout({order[::-1]}), sharding)"


def _tiling(shape: ArrayShape) -> tuple[object, ...]:
    return shape.layout.minor_to_major, shape.layout.tiles
