"""What can a user change about an array, an argument or a result so that a finding goes away?

What donating an argument saves is computed as if it were donated. Tests compile programs again with each change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.dependencies import producer_of, uses_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.tpu_layout import LayoutAlternative, default_order, default_tpu_layout
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, allocated_bytes, memory_analysis
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex
from hlo_cli.lint.finding_facts import MAX_STEPS
from hlo_cli.lint.rule import LintContext
from hlo_cli.report.numbers import format_bytes, list_first
from hlo_cli.source import joined_by_and

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.donation import MemoryScenarios

# --- donations ---
# Arguments that results update, and what donating them saves, which is computed as if they were donated.
#
# Which result would have the memory of an argument, and what that needs, `memory/donation.py` decides.


# Opcodes in an async wrapper that move a value whole or in part, as TPU prefetches do.
_MOVING_OPCODES: Final = (opcodes.COPY, opcodes.SLICE)
# The target of libtpu's custom call that joins the pieces of a value that was fetched in parts.
_JOINING_TARGET: Final = "ConcatBitcast"
_ALIAS: Final = "input_output_alias"
# 5% for padding and for slots that alignment rounds up; chosen, not measured.
_MIN_KEPT_SHARE: Final = 0.95
"""The share of the arguments' bytes that donating them saves, if each saves its own."""


@dataclass(frozen=True, slots=True)
class Donation:
    """An argument whose memory a result could have: the argument, the kernel that makes the result, and the entry of
    `input_output_alias`.

    If it `is_read_later`, the compiler copies the argument for reads after the result is made.
    """

    argument: Instruction
    kernel: Instruction
    padded_bytes: int
    alias: Alias
    is_read_later: bool = False


@dataclass(frozen=True, slots=True)
class Donations:
    """Arguments that could be donated, and the bytes that the module needs less if all of them are.

    These are fewer than the arguments need if memory of the results also held temporaries.
    """

    arguments: tuple[Donation, ...] = ()
    saved_bytes: int = 0

    def saved_by(self, donation: Donation) -> int | None:
        """The bytes that donating one argument saves; None if only the savings of all are known."""
        return donation.padded_bytes if self._is_sum else None

    def saving_of(self, donations: Iterable[Donation]) -> int:
        """What some of the donations save of `saved_bytes`: their own bytes, or else their share of it."""
        own = sum(each.padded_bytes for each in donations)
        return own if self._is_sum else self.saved_bytes * own // self._padded_bytes

    @property
    def _padded_bytes(self) -> int:
        return sum(each.padded_bytes for each in self.arguments)

    @property
    def _is_sum(self) -> bool:
        return self.saved_bytes >= _MIN_KEPT_SHARE * self._padded_bytes


def donations_of(memory: MemoryAnalysis, min_bytes: int) -> Donations:
    """The arguments that results update and that save memory if they are donated.

    They are those of the suggestion of `hlo memspace`, whose savings are those of all of them. Where it has none, as
    for a target that is not known, they are the arrays that a kernel reads that makes a result of the same shape. The
    arrays of an argument of the user's function, such as `params`, are donated together, so `min_bytes` is for the sum
    of them.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "HloModule m, is_scheduled=true ENTRY e { w = f32[8] parameter(0)  ROOT n = f32[8] negate(w) }"
    >>> found = donations_of(memory_analysis(parse_module(text)), 1)
    >>> [each.argument.name for each in found.arguments], found.saved_bytes
    (['w'], 32)
    """
    # The analysis of donations is slow, and most modules have no argument of this size that is kept.
    module = memory.module
    if not has_kept_argument(module, min_bytes):  # only faster
        return Donations()
    found = tuple(_candidates(memory, min_bytes))
    suggested = _suggested(memory, min_bytes)
    if suggested and not {each.alias for each in found} - {each.alias for each in suggested.arguments}:
        return suggested

    # The memory of the module is computed again, since what donating saves depends on what is live at the peak.
    after = memory_analysis(donated(module, found), target=memory.target, generation=memory.generation)
    saved = needed_bytes(memory) - needed_bytes(after)
    return Donations(found, saved) if saved > 0 else Donations()


def _suggested(memory: MemoryAnalysis, min_bytes: int) -> Donations | None:
    """The donation that `hlo memspace` suggests, without arguments of fewer bytes; None if it suggests none."""
    from hlo_cli.analysis.memory.donation import MemoryScenarios, donatable_bytes

    if not donatable_bytes(memory):  # only faster
        return None
    from hlo_cli.analysis.memory.peak_advice import Donate, suggestions  # a large import that few runs need

    for suggestion in suggestions(memory):
        if isinstance(suggestion.change, Donate):
            pairs = suggestion.change.pairs
            scenarios = MemoryScenarios(memory)
            sizes = _sizes_of_wholes(scenarios)
            found = tuple(
                Donation(
                    pair.argument.parameter,
                    _maker(scenarios.facts.places.instructions[scenarios.facts.places.owner[pair.result.value]]),
                    scenarios.bytes_of(pair.argument.place),
                    pair.alias,
                    is_read_later=pair.kind == "copied",
                )
                for pair in pairs
                if sizes[pair.argument.whole] >= min_bytes
            )
            return Donations(found, suggestion.before_bytes - suggestion.peak_bytes) if found else None
    return None


def needed_bytes(memory: MemoryAnalysis) -> int:
    """The bytes that the module needs in main and host memory.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> needed_bytes(memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")))
    32
    """
    spaces = [space for space in memory.spaces if space.number in (MemorySpace.MAIN, MemorySpace.HOST)]
    return sum(allocated_bytes(memory, space) or space.peak_bytes for space in spaces)


def donated(module: Module, donations: Sequence[Donation]) -> Module:
    """The same instructions with more entries of `input_output_alias`.

    >>> from hlo_cli import memory_analysis, parse_module
    >>> text = "HloModule m, is_scheduled=true ENTRY e { w = f32[8] parameter(0)  ROOT n = f32[8] negate(w) }"
    >>> found = donations_of(memory_analysis(parse_module(text)), 1)
    >>> donated(parse_module(text), found.arguments).input_output_alias
    (Alias(output_index=(), parameter_number=0, parameter_index=(), kind='may-alias'),)
    """
    entries = (*module.input_output_alias, *(each.alias for each in donations))
    others = tuple(attribute for attribute in module.header if attribute.name != _ALIAS)
    return replace(module, header=(*others, Attribute(_ALIAS, f"{{ {', '.join(map(str, entries))} }}")))


def has_kept_argument(module: Module, min_bytes: int) -> bool:
    """Whether the arrays that are not donated are large enough together; faster than the memory analysis.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")
    >>> has_kept_argument(module, 32), has_kept_argument(module, 33)
    (True, False)
    """
    donated = module.donated_parameters
    return sum(each.shape.padded_bytes for each in module.entry.parameters if each not in donated) >= min_bytes > 0


def has_result_for(module: Module, argument: Instruction) -> bool:
    """Whether a result has the shape of an argument, with its layout, and no other argument's memory.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[8] parameter(0)  q = f32[4] parameter(1)  ROOT n = f32[8] negate(p) }")
    >>> [has_result_for(module, each) for each in module.entry.parameters]
    [True, False]
    """
    root = module.entry.root
    taken = {alias.output_index for alias in module.input_output_alias}
    arrays = {leaf for _, leaf in argument.shape.leaves}
    return root is not None and any(leaf in arrays and index not in taken for index, leaf in root.shape.leaves)


def _candidates(memory: MemoryAnalysis, min_bytes: int) -> Iterator[Donation]:
    """The arguments that results update and that the memory of a result could be."""
    from hlo_cli.analysis.memory import donation  # large imports, as in rule.py
    from hlo_cli.analysis.memory.donation import MemoryScenarios, arguments_of, results_of

    scenarios = MemoryScenarios(memory)
    facts, donated = scenarios.facts, memory.module.donated_parameters
    updates: dict[tuple[Instruction, Shape], None] = {}
    kernels: dict[ShapeIndex, Instruction] = {}
    # Results that share a buffer have several makers; any of them may read the argument in place.
    for result in results_of(facts):
        makers = [
            _maker(facts.places.instructions[facts.places.owner[each]]) for each in facts.aliases.of(result.value)
        ]
        kernels[result.index] = makers[0]
        updates |= dict.fromkeys((read, result.shape) for maker in makers for read in _read_by(maker))
    arguments = tuple(
        each
        for each in arguments_of(facts)
        if (each.parameter, each.shape) in updates and each.parameter not in donated
    )
    sizes = _sizes_of_wholes(scenarios)
    if all(sizes[each.whole] < min_bytes for each in arguments):  # only faster
        return
    pairs = donation.Donations(scenarios).pairs([donation.Donor("", arguments)])
    # Only kinds in which no other instruction has to change its place.
    sure = [pair for pair in pairs if pair.kind in ("free", "fetched", "overwritten")]
    for pair in sure:
        if sizes[pair.argument.whole] >= min_bytes:
            size = scenarios.bytes_of(pair.argument.place)
            yield Donation(pair.argument.parameter, kernels[pair.result.index], size, pair.alias)


def _sizes_of_wholes(scenarios: MemoryScenarios) -> Counter[str]:
    """The bytes of each argument of the user's function that are not donated, in all of its arrays.

    A user donates an argument as a whole, so that arrays count whose memory no result takes, too.
    """
    from hlo_cli.analysis.memory.donation import arguments_of  # a large import, as in rule.py

    sizes: Counter[str] = Counter()
    donated = scenarios.facts.module.donated_parameters
    for each in arguments_of(scenarios.facts):
        if each.parameter not in donated:
            sizes[each.whole] += scenarios.bytes_of(each.place)
    return sizes


def _maker(instruction: Instruction) -> Instruction:
    """The kernel that makes a value; a copy of an argument makes a value too."""
    made = _before_copies(instruction)
    return made if made.opcode != opcodes.PARAMETER else instruction


def _read_by(kernel: Instruction) -> Iterator[Instruction]:
    """What a kernel reads, before any moves."""
    yield from map(_before_copies, kernel.operands)


def _before_copies(instruction: Instruction) -> Instruction:
    """The producer of a value, before any moves."""
    made = producer_of(instruction)
    while (moved := _moved(made)) is not None:
        made = producer_of(moved)
    return made


def _moved(mover: Instruction) -> Instruction | None:
    """The value that an instruction only moves: as a whole, or in pieces, as TPU compilers fetch large values."""
    match mover.opcode:
        case opcodes.COPY | opcodes.COPY_START if mover.operands:
            return mover.operands[0]
        case opcodes.ASYNC_START if mover.operands and mover.called_computations:
            root = mover.called_computations[0].root
            # Whatever else runs asynchronously may compute.
            return mover.operands[0] if root is not None and root.opcode in _MOVING_OPCODES else None
        case opcodes.CUSTOM_CALL if mover.string("custom_call_target") == _JOINING_TARGET:
            # Pieces of one value only: else the call joins different values.
            sources = {_before_copies(piece) for piece in mover.operands}
            return sources.pop() if len(sources) == 1 else None
        case opcode if wrapped_opcode(opcode) in _MOVING_OPCODES and mover.operands:  # the short form of an async slice
            return mover.operands[0]
    return None


# --- hints ---
# Tests compile programs again with each of these changes. Nothing is advised for values inside of a program whose
# layouts compilers choose.


_MAX_DONORS: Final = 3  # a hint of one line; functions hardly ever have more arguments to donate. Chosen.
# 5% more memory for one copy less; chosen, not measured.
_MAX_GROWTH: Final = 1.05
"""How much larger an argument may be in another layout, as a factor."""
# A fifth must be saved to be worth another shape in the program; chosen, not measured.
_MAX_MERGED_SHARE: Final = 0.8
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
    for _ in range(MAX_STEPS):
        if value.opcode == opcodes.PARAMETER:
            return value if value.computation.is_entry and isinstance(value.shape, ArrayShape) else None
        if value.opcode == opcodes.COPY_DONE and value.operands:
            value = value.operands[0]
        if value.opcode not in (opcodes.COPY, opcodes.COPY_START, opcodes.OPT_BARRIER) or not value.operands:
            return None
        before, given = value, value.operands[0]
        # A copy-start is a tuple of the new array, the old one, and a context (hlo_verifier.cc, HandleCopyStart).
        written = dict(before.shape.leaves).get((0,)) if before.opcode == opcodes.COPY_START else before.shape
        if not isinstance(written, ArrayShape) or not isinstance(given.shape, ArrayShape):
            return None
        # Only the memory space may differ: other dimensions or tiles are a change of layout.
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
    waiting = [argument]
    while waiting:
        others = [user for user in uses_of(waiting.pop(), context.users) if user is not reader]
        if any(argument_of(user) is not argument for user in others):
            return False
        waiting += others
    return True


def is_result(context: LintContext, value: Instruction) -> bool:
    """Whether a value is returned, as the result or an element of it, and used by nothing else."""
    root = context.module.entry.root
    users = uses_of(value, context.users)
    if value is root:
        return not users
    return root is not None and root.opcode == opcodes.TUPLE and list(users) == [root]


def donation_hint(context: LintContext, donations: Donations, donation: Donation) -> str:
    """How to donate the argument of an array, and the bytes that this saves, or that donating all arguments saves.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.lint.advice import donations_of
    >>> from hlo_cli.lint.settings import LintSettings
    >>> module = parse_module("ENTRY e { p = f32[256] parameter(0)  ROOT n = f32[256] negate(p) }")
    >>> context = LintContext(module, LintSettings())
    >>> found = donations_of(context.analyses.memory, 1)
    >>> donation_hint(context, found, found.arguments[0])
    'donate p: in JAX, donate_argnums of jax.jit; the module then needs 1 KiB less'

    Where a gradient would take the memory, what is lost is said:

    >>> line = 'metadata={op_name="jit(f)/transpose(jvp())/mul"}'
    >>> module = parse_module(f"ENTRY e {{ p = f32[256] parameter(0)  ROOT n = f32[256] negate(p), {line} }}")
    >>> context = LintContext(module, LintSettings())
    >>> found = donations_of(context.analyses.memory, 1)
    >>> donation_hint(context, found, found.arguments[0]).rpartition(". ")[2]
    'Only if the program does not read p again, as an update with these gradients does'
    """
    from hlo_cli.analysis.memory.donation import condition_of_donation  # a large import that few runs need

    # JAX donates whole arguments of the function, not single arrays in them.
    wholes = {each: whole_argument(context.user_name(each.argument), each.argument) for each in donations.arguments}
    given, needed = wholes[donation], donations.saved_bytes
    if donations.saved_by(donation) is not None:
        needed = sum(each.padded_bytes for each, whole in wholes.items() if whole == given)
    else:
        names = tuple(dict.fromkeys(wholes.values()))
        given = joined_by_and(names) if len(names) <= _MAX_DONORS else list_first(names, _MAX_DONORS)
    hint = f"donate {given}: in JAX, donate_argnums of jax.jit; the module then needs {format_bytes(needed)} less"
    condition = condition_of_donation([donation.kernel], given)
    return f"{hint}. {condition}" if condition else hint


def whole_argument(name: str, argument: Instruction) -> str:
    """What JAX donates as a whole: the argument of the function that an array, known by its name, is part of.

    It is the name itself if the dump does not have those of the program.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''ENTRY e { p.1 = f32[] parameter(0), metadata={op_name="params['w']"}
    ... p.2 = f32[] parameter(1)  ROOT a = f32[] add(p.1, p.2) }''')
    >>> whole_argument("params['w']", module.instruction("p.1")), whole_argument("p.2", module.instruction("p.2"))
    ('params', 'p.2')
    """
    if not argument.metadata.op_name:
        return name
    from hlo_cli.analysis.memory.donation import function_argument  # a large import that few runs need

    return function_argument(name) or name


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
    # JAX's layouts are orders of dimensions; it cannot ask for tiles.
    if read.layout.minor_to_major == written.layout.minor_to_major or read.dimensions != written.dimensions:
        return None
    # Parts of modules have no arguments of the program.
    if context.module.is_part:
        return None
    argument = argument_of(mover.operands[0])
    # A donated argument has to keep the layout of its result.
    if argument is not None and not is_donated(context, argument) and is_only_reader(context, mover, argument):
        if written.padded_bytes <= _MAX_GROWTH * read.padded_bytes and not is_result(context, mover):
            return f"pass {context.user_name(argument)} in {_order_in_jax(written.layout, 'in_shardings')}"
        return None
    # A result whose layout changes could lose its donation.
    is_free = is_result(context, mover) and not context.module.input_output_alias
    if argument is None and is_free and read.padded_bytes <= _MAX_GROWTH * written.padded_bytes:
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
    # Transposes that a compiler adds have another op_name, and the program has none to remove.
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
    # Dynamic sizes cannot be merged into others: their product is no dimension with one bound.
    for first in range(1, 0 if shape.is_dynamic else shape.rank):
        # All leading or all trailing dimensions: merging in the middle saves nothing on tiles, which are at the end.
        for merged in ((*sizes[:first], prod(sizes[first:])), (prod(sizes[:first]), *sizes[first:])):
            made = _in_default_layout(shape, merged, generation) if len(merged) < shape.rank else None
            if made is not None and (best is None or made.padded_bytes < best.padded_bytes):
                best = made
    if best is None or best.padded_bytes > _MAX_MERGED_SHARE * shape.padded_bytes:
        return None
    text = best.to_string(layout=False)
    return f"{verb} with merged dimensions, such as {text}, which needs only {format_bytes(best.padded_bytes)}"


def _in_default_layout(shape: ArrayShape, sizes: tuple[int, ...], generation: str) -> ArrayShape | None:
    row_major = Layout(tuple(range(len(sizes)))[::-1])
    bare = replace(shape, dimensions=sizes, dynamic_dimensions=(False,) * len(sizes), layout=row_major)
    order = default_order(bare, generation=generation)
    if order is None:
        return None
    return replace(bare, layout=default_tpu_layout(bare, generation=generation, minor_to_major=order))


def _order_in_jax(layout: Layout, keyword: str) -> str:
    """A dimension order, and how to ask for it in JAX."""
    order = layout.minor_to_major
    return f"dimension order {index_text(order)}: in JAX, {keyword}=Format(Layout({order[::-1]}), sharding)"


def _tiling(shape: ArrayShape) -> tuple[object, ...]:
    return shape.layout.minor_to_major, shape.layout.tiles
