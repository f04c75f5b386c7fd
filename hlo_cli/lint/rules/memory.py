"""HLO2xx: which memory is used that need not be, and which values are moved to fast memory again and again?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.dependencies import uses_of
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    MemorySpaceUsage,
    memory_fits,
    memory_from_assignment,
)
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN
from hlo_cli.analysis.schedule.async_overlap import Transfer
from hlo_cli.ir import opcodes
from hlo_cli.ir.buffer_assignment import BufferAssignment
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace, space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import (
    Donation,
    Donations,
    argument_of,
    donation_hint,
    donations_of,
    has_kept_argument,
    has_result_for,
    is_donated,
    is_only_reader,
    is_result,
    needed_bytes,
    whole_argument,
)
from hlo_cli.lint.finding_facts import Common, Waste, is_known, is_plumbing, sized, waste_of_copy
from hlo_cli.lint.rule import LintContext, rule, shape_span
from hlo_cli.lint.value_flow import carry_index, derives_from, passes_through, producer_through
from hlo_cli.report.findings import COUNT, Finding
from hlo_cli.report.numbers import format_bytes
from hlo_cli.source import joined_by_and

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.peak_advice import Change

# --- HLO2xx: memory usage ---


# Offsets in fast memory are unknown: memory-space assignment decides them, and no text has it.
_NEEDS_WORDS: Final = {"exact": "needs", "estimated": "needs about"}
_FROM_COMPILER: Final = "from the compiler's buffer assignment"
_FROM_HLO: Final = "computed from the HLO"


@rule("HLO201", "insufficient device memory")
def memory_limit(context: LintContext) -> Iterator[Finding]:
    """The module needs more memory than is available.

    The limit is max_peak_bytes, or else the memory of the device in the setting chip; without either, nothing is
    checked.

    Why: The module fails to load or runs out of memory. The total includes arguments, results, constants, and
    temporaries. It is the compiler's own if XLA's buffer assignment is in the same proto or in a file next to the dump;
    otherwise it is computed from the HLO, as by `hlo memspace`. The finding states which.

    Example:
        HloModule m, is_scheduled=true
        ENTRY main {
          x = f32[4194304,1024] parameter(0)
          ROOT y = f32[4194304,1024] negate(x)
        }

    Fix: Reduce the largest value at the peak: shard it, reduce the batch size, or donate an argument of its size.
    `hlo memspace` has more suggestions.

    Reference: xla/service/buffer_assignment.h; `hlo memspace DUMP --limit 16GiB`
    """
    settings = context.settings
    chip = find_chip(settings.chip) if settings.chip is not None else None
    if (chip is None and settings.max_peak_bytes is None) or not context.module.is_scheduled:
        return
    assignment = context.module.buffer_assignment
    # The compiler's own assignment is exact, so it is preferred to the analysis.
    memory = context.analyses.memory if assignment is None else _as_assigned(context.module, assignment)
    source = _FROM_HLO if assignment is None else _FROM_COMPILER
    for fit in memory_fits(memory, settings.max_peak_bytes, chip):
        space = memory.space(fit.space)
        if fit.excess_bytes > 0 and space is not None and fit.offsets in _NEEDS_WORDS:
            largest = space.live_at(space.peak_step)[:1]
            yield context.finding(
                f"{fit.name} {_NEEDS_WORDS[fit.offsets]} {format_bytes(fit.needed_bytes)}, more than the limit of "
                f"{format_bytes(fit.limit_bytes)} ({source})",
                largest[0].instruction if largest else None,
                hint=_hint(context, memory, space),
                about=fit.name,
            )


@rule("HLO202", "very large temporary", severity="warning")
def large_temporary(context: LintContext) -> Iterator[Finding]:
    """One temporary is at least min_value_bytes in size.

    The cost is what such temporaries need at the peak of the memory: 0 for those that are not live then, because other
    values have that memory at other times.

    Why: Values of several gigabytes are often unintended, such as a broadcast, an all-pairs product, or a one-hot
    encoding. From 2 GiB, offsets also need more than 31 bits, which slows down some kernels.

    Example:
        y = f32[32768,32768] broadcast(x), dimensions={}

    Fix: Compute it in chunks: in JAX, jax.lax.map with batch_size, or a scan over the batch or sequence. This helps if
    what is returned is smaller than the value.

    Reference: `hlo memspace DUMP`
    """
    # Values that are not live together share memory, so that only those at the peak may be added up.
    at_peak = cache(lambda: {id(value) for value in _live_at_peaks(context.analyses.memory)})
    for value in _large_temporaries(context):
        name, size = context.user_name(value.instruction), format_bytes(value.padded_bytes)
        is_at_peak = id(value) in at_peak()
        yield context.finding(
            f"the temporary of {name} needs {size}{'' if is_at_peak else ', but is not live at the peak'}",
            value.instruction,
            shape_span(context.module, value.instruction),
            hint=f"compute it {_IN_CHUNKS}",
            waste=Waste(value.padded_bytes if is_at_peak else 0, None),
            common=Common(f"{COUNT} temporaries of {name} need {size} each"),
        )


def _live_at_peaks(memory: MemoryAnalysis) -> Iterator[LiveValue]:
    """The values that are live at the peak of their memory space."""
    for space in memory.spaces:
        yield from space.live_at(space.peak_step)


_IN_CHUNKS: Final = "in chunks: in JAX, jax.lax.map with batch_size, or a scan over the batch or sequence"


def _large_temporaries(context: LintContext) -> Iterator[LiveValue]:
    """The values of at least min_value_bytes that exist only between kernels of a scheduled module."""
    least = context.settings.min_value_bytes
    if not context.module.is_scheduled or not any(each.padded_bytes >= least for each in context.shapes.values()):
        return
    memory = context.analyses.memory
    for value in memory.values:
        is_large = value.kind == "temporary" and not value.is_phi and value.padded_bytes >= least
        # A result must exist anyway, so its size is no waste.
        if is_large and not memory.allocations[value.allocation].is_output:
            yield value


@rule("HLO204", "redundant copy", severity="warning")
def redundant_copy(context: LintContext) -> Iterator[Finding]:
    """A copy produces an identical array in the same layout and memory space.

    Reported for copies of at least min_copy_bytes. Copies of arguments are not reported if nothing in the program can
    avoid them: the argument is donated and read by nothing else, or no result can have its memory. Neither are those of
    a scalar that was broadcast, such as the zeros in which a scan stacks its results: compilers share one such array.

    Why: The compiler inserts such a copy if a value is updated in place while the old value is still needed, or if an
    argument is returned as a result. It needs the memory of a second array and a pass over memory.

    Example:
        y = f32[256,512]{1,0} copy(x)

    Fix: Donate an argument that is updated, and do not return an argument that is not: the caller has it already. If it
    is donated, read the new value instead of the old one, or the old one before the update.

    Reference: xla/service/copy_insertion.h; `hlo memspace DUMP --value NAME`
    """
    least = context.settings.min_copy_bytes
    donations = cache(lambda: donations_of(context.analyses.memory, least))
    for copy in context.of(opcodes.COPY) if context.module.is_scheduled else ():
        shape = copy.shape
        # A log may have no operands.
        if (
            copy.computation not in context.analyses.executions
            or not isinstance(shape, ArrayShape)
            or not copy.operands
        ):
            continue
        # Equal shapes with layouts and memory spaces: nothing is different after the copy.
        if shape == copy.operand_shape(0) and shape.padded_bytes >= least and not _is_unavoidable(context, copy):
            name = context.user_name(copy)
            yield context.finding(
                f"{name} {sized(shape, name)} is copied {_reason(context, copy)}",
                copy,
                shape_span(context.module, copy),
                hint=_copy_hint(context, copy, donations),
                waste=waste_of_copy(shape, shape),
            )


@rule("HLO205", "large constant", severity="warning", needs="instructions")
def large_constant(context: LintContext) -> Iterator[Finding]:
    """A constant is at least min_constant_bytes in size.

    Why: Constants are part of the compiled program, which becomes large and slow to compile and load. Every device
    keeps them in memory, even while the program is not running.

    Example:
        c = f32[512,512] constant({...})

    Fix: Pass the array as an argument. In JAX, do not close over it. If it can be computed, compute it in the program
    with jax.numpy instead of NumPy.

    Reference: xla/service/buffer_assignment.h; `hlo memspace DUMP`
    """
    for constant in context.of(opcodes.CONSTANT):
        if constant.shape.padded_bytes >= context.settings.min_constant_bytes:
            yield context.finding(
                f"{_constant_name(context, constant)} needs {format_bytes(constant.shape.padded_bytes)}",
                constant,
                shape_span(context.module, constant),
                hint=_CLOSED_OVER if not constant.metadata.op_name else _FOLDED,
                waste=Waste(constant.shape.padded_bytes, None),
            )


def _constant_name(context: LintContext, constant: Instruction) -> str:
    """A constant by its own name, or as that of the operation that the compiler folded it into."""
    name = context.user_name(constant)
    return f"the constant of {name}" if name.startswith("the ") else f"the constant {name}"


# JAX gives arrays that a function closes over no op_name; XLA's constant folding keeps that of the operation.
_CLOSED_OVER: Final = "pass the array as an argument instead of closing over it"
_FOLDED: Final = "compute the array outside of the program, and pass it as an argument"


@rule("HLO206", "unused argument", severity="warning")
def unused_argument(context: LintContext) -> Iterator[Finding]:
    """No instruction reads this argument, but it occupies memory.

    Reported for arguments of at least min_argument_bytes.

    Why: The caller has to transfer the argument to the device, and the compiler cannot reuse its memory.

    Example:
        ENTRY main {
          x = f32[2] parameter(0)
          lost = f32[1024,1024] parameter(1)
          ROOT y = f32[2] negate(x)
        }

    Fix: Do not pass it. jax.jit drops unused arguments unless keep_unused=True.

    Reference: `hlo memspace DUMP`
    """
    for parameter in context.module.entry.parameters:
        taken = parameter.shape.padded_bytes
        if taken >= context.settings.min_argument_bytes and not parameter.is_root and not context.users[parameter]:
            name = f"the argument {context.user_name(parameter)}"
            yield context.finding(
                f"{name} ({format_bytes(taken)}) is never read",
                parameter,
                hint="do not pass it: jax.jit drops unused arguments unless keep_unused=True",
                waste=Waste(taken, None),
                common=Common(f"{COUNT} arguments are never read: {name}"),
            )


def _as_assigned(module: Module, assignment: BufferAssignment) -> MemoryAnalysis:

    return memory_from_assignment(module, assignment)


def _hint(context: LintContext, memory: MemoryAnalysis, space: MemorySpaceUsage) -> str | None:
    """A change that lowers the peak, the arguments to donate, or the largest value at the peak."""
    from hlo_cli.analysis.memory.peak_advice import suggestions  # a large import that few runs need

    # Suggestions and donations concern main memory: arguments and results are there.
    is_main = space.number == MemorySpace.MAIN
    for suggestion in suggestions(memory, most=1) if is_main else ():
        bound = "at most " if suggestion.is_bound else ""
        return f"{_change(suggestion.change)} to lower the peak to {bound}{format_bytes(suggestion.peak_bytes)}"
    donations = donations_of(context.analyses.memory, context.settings.min_donation_bytes) if is_main else Donations()
    if donations.arguments:
        most = max(donations.arguments, key=lambda each: each.padded_bytes)
        return donation_hint(context, donations, most)
    largest = space.live_at(space.peak_step)[:1]
    if not largest:
        return None
    name, needed = context.user_name(largest[0].instruction), format_bytes(largest[0].padded_bytes)
    # The values of the compiler's assignment are objects of their own.
    if any(each.instruction is largest[0].instruction for each in _large_temporaries(context)):
        return f"compute {name} {_IN_CHUNKS}; it is the largest value at the peak ({needed})"
    return f"reduce {name}, the largest value at the peak ({needed})"


def _change(change: Change) -> str:
    """What to change, in a few words."""
    from hlo_cli.analysis.memory.donation import Argument
    from hlo_cli.analysis.memory.peak_advice import ChangeLayouts, Donate, RecomputeScan

    match change:
        case Donate(donors=donors):
            return f"donate {joined_by_and(donor.name for donor in donors)}"
        case ChangeLayouts(layouts=layouts):
            first = layouts[0]
            name = first.array.label if isinstance(first.array, Argument) else f"result {index_text(first.array.index)}"
            return f"use dimension order {index_text(first.layout.minor_to_major)} for {name}"
        case RecomputeScan(stored=stored):
            return f"recompute the body of the scan {stored.forward.name} for the gradient"


def _reason(context: LintContext, copy: Instruction) -> str:
    """Why an array is copied: an argument that the caller keeps is, before a result overwrites it."""
    argument = argument_of(copy.operands[0])
    if argument is None or context.module.is_part or is_donated(context, argument) or is_result(context, copy):
        return "needlessly"
    return "because it is not donated"


def _copy_hint(context: LintContext, copy: Instruction, donations: Callable[[], Donations]) -> str | None:
    """What to do about a copy: not return an argument, donate it, or read the new value; None if nothing is known."""
    argument = argument_of(copy.operands[0])
    if context.module.is_part:
        return None
    if argument is None:
        # The fix of the rule begins with donation, which is of arguments alone.
        if _is_of_carry(context, copy):
            return _CARRIED
        return "read the old value before it is updated, or the new one instead"
    if is_donated(context, argument):
        return _reading_hint(context, copy, argument)
    if is_result(context, copy):
        return f"do not return {context.user_name(argument)}, which the program does not change"
    found = next((each for each in donations().arguments if each.argument is argument), None)
    return donation_hint(context, donations(), found) if found is not None else None


# When the old value of a carry is overwritten is up to the compiler, so what helps is not to carry the array.
_CARRIED: Final = (
    "do not carry it if iterations only read it (close over it, or pass it as xs of the scan) or only write it "
    "(return it as ys)"
)


def _is_of_carry(context: LintContext, copy: Instruction) -> bool:
    """Whether a copy in a loop is of a value that the iteration got from the one before, or is passed to the next."""
    if not any(copy.computation in loop.called_computations for loop in context.of(opcodes.WHILE)):
        return False
    return carry_index(copy.operands[0]) is not None or any(
        user.is_root for user in context.users[copy] if user.opcode == opcodes.TUPLE
    )


def _is_unavoidable(context: LintContext, copy: Instruction) -> bool:
    """Whether only the compiler could avoid the copy: the program already does what it can.

    One of a filled array is there because equal arrays were made one, which two loops write on.

    A donated argument that nothing else reads could be overwritten. An argument that no result can overwrite cannot be
    donated; one that is returned, need not be.
    """
    if _is_filled(producer_through(context, copy.operands[0])):
        return True
    argument = argument_of(copy.operands[0])
    if argument is None or context.module.is_part or is_result(context, copy):
        return False
    if is_donated(context, argument):
        return is_only_reader(context, copy, argument)
    return not has_result_for(context.module, argument)


def _is_filled(value: Instruction) -> bool:
    """Whether all elements of a value are one scalar."""
    if value.opcode != opcodes.BROADCAST or not value.operands:
        return False
    scalar = value.operand_shape(0)
    return isinstance(scalar, ArrayShape) and scalar.elements == 1


def _reading_hint(context: LintContext, copy: Instruction, argument: Instruction) -> str | None:
    """What else reads a donated argument, whose old value the copy keeps; None if that has no name."""
    others = (use for use in uses_of(argument, context.users) if not is_plumbing(use))  # as is the copy
    reader = next((use for use in others if is_known(context.origin(use))), None)
    if reader is None:
        return None
    return f"read the new value in {context.user_name(reader)}, or the old one before it is updated"


# --- HLO2xx: reuse and repeated transfers ---


_CARRYING_OPCODES: Final = frozenset(
    (opcodes.CALL, opcodes.CONDITIONAL, opcodes.CUSTOM_CALL, opcodes.TUPLE, opcodes.WHILE)
)
"""Opcodes that pass a value on under other names, so that its last use is hard to find."""
_BRINGING_OPCODES: Final = (opcodes.COPY, opcodes.COPY_START)
"""Kernels that bring values to others, which would go along with these."""
_GRADIENT: Final = ("jvp(", "transpose(")
"""Parts of op_names in the forward or only the backward pass of a gradient, which cannot be moved to each other."""
# The spaces into which the compiler prefetches; other spaces are of scalars and flags.
_PREFETCHED_SPACES: Final = frozenset(space for space in TpuMemorySpace if space.is_prefetched)


@rule("HLO203", "argument could be donated", severity="warning")
def donatable_argument(context: LintContext) -> Iterator[Finding]:
    """A result could reuse the memory of an argument that is not read afterwards.

    Reported for arguments of at least min_donation_bytes, the arrays of one argument of the function taken together, if
    donating all of them saves at least min_donation_fraction of the memory that the module needs. They are those that
    `hlo memspace` suggests to donate, if it suggests any. Else arrays are not reported if their last reader cannot
    write over them: the compiler would copy them.

    Why: The result has the shape and layout of the argument, as updated weights have those of the old ones. Without
    donation, both are allocated until the end.

    Example:
        HloModule step, is_scheduled=true
        ENTRY main { w = f32[512,512]{1,0} parameter(0)  ROOT n = f32[512,512]{1,0} negate(w) }

    Fix: Donate the argument: in JAX, jit(step, donate_argnums=0). If the
    caller needs the old value, as in inference, add the finding to a baseline.

    Reference: https://openxla.org/xla/aliasing; `hlo memspace DUMP --value NAME`
    """
    if not context.module.is_scheduled:
        return
    if not has_kept_argument(context.module, context.settings.min_donation_bytes):  # only faster
        return
    from hlo_cli.analysis.memory.donation import condition_of_donation, donatable_bytes  # large; few runs need it

    settings, memory = context.settings, context.analyses.memory
    # Small savings next to large modules are no reason to change a program.
    least = settings.min_donation_fraction * needed_bytes(memory)
    if donatable_bytes(memory) < least:  # only faster
        return
    donations = donations_of(memory, settings.min_donation_bytes)
    if donations.saved_bytes < least:
        return
    wholes: dict[str, list[Donation]] = {}
    for each in donations.arguments:
        whole = whole_argument(context.user_name(each.argument), each.argument)
        wholes.setdefault(whole, []).append(each)
    for whole, arrays in wholes.items():
        largest, bytes_ = max(arrays, key=lambda each: each.padded_bytes), sum(each.padded_bytes for each in arrays)
        name = context.user_name(largest.argument)
        kernel, taken = context.user_name(largest.kernel), format_bytes(bytes_)
        is_read_later = any(each.is_read_later for each in arrays)
        message = f"{name} ({taken}) could be donated: {kernel} writes a result of the same shape"
        message += "" if is_read_later else " after its last use"
        if len(arrays) > 1:
            message = f"{whole} ({len(arrays):,} arrays, {taken}) could be donated: {kernel} and others write results "
            message += "of the same shapes" + ("" if is_read_later else " after their last uses")
        found = context.finding(
            message,
            largest.argument,
            shape_span(context.module, largest.argument),
            waste=Waste(donations.saving_of(arrays), None),
            other=largest.kernel,
            common=Common(f"{COUNT} arguments could be donated: {name}", "argument"),
            hint=donation_hint(context, donations, largest),
        )
        # What a gradient could overwrite is usually read again, so changes that need no such thought come first.
        yield replace(found, is_conditional=bool(condition_of_donation((each.kernel for each in arrays), whole)))


@rule("HLO207", "value spilled to main memory", severity="note", is_default=False)
def spilled_value(context: LintContext) -> Iterator[Finding]:
    """A value is moved out of fast memory and later back.

    Reported for values of at least min_prefetch_bytes, summed over the iterations of loops.

    Why: The value is transferred twice. The compiler spills a value if the live values do not fit in fast memory. Off
    by default, because that is common, for example for values that a backward pass needs.

    Example:
        a = f32[512,1024]{1,0:T(8,128)} copy(x)
        b = f32[512,1024]{1,0:T(8,128)S(1)} copy(a)

    Fix: Move the uses closer together: in JAX, compute the value where it is used, instead of keeping it meanwhile.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --traffic`
    """
    transfers = context.analyses.transfers if context.target == "tpu" else ()
    moved = {t.instruction: t for t in transfers if t.from_space in _PREFETCHED_SPACES and not t.to_space}
    reported = set[Instruction]()
    for transfer in transfers:
        out = moved.get(transfer.source)
        if out is None or not transfer.is_prefetch or out.instruction in reported or not _is_large(context, out):
            # Once for each value, however often it is fetched again.
            continue
        reported.add(out.instruction)
        yield context.finding(
            f"{context.user_name(out.source)} ({format_bytes(out.shape.padded_bytes)}) is spilled "
            f"from {space_name(out.from_space, 'tpu')} and copied back",
            out.instruction,
            waste=Waste(2 * out.shape.padded_bytes),
            subject=out.source,
        )


@rule("HLO208", "repeated prefetch", severity="note")
def repeated_prefetch(context: LintContext) -> Iterator[Finding]:
    """The same value is copied into fast memory more than once.

    Reported once for each array, for copies of at least min_prefetch_bytes, summed over the iterations of loops.

    Why: Each copy reads main memory again. The compiler copies again if keeping the value in fast memory in between
    would take too much space.

    Example:
        a = f32[512,1024]{1,0:T(8,128)S(1)} copy(x)
        b = f32[512,1024]{1,0:T(8,128)S(1)} copy(x)

    Fix: Move the uses closer together in the program. For a value that is cheap to compute, compute it again where it
    is used; for a weight, call the functions that read it one after the other. Large arrays in between are what takes
    the space: compute them later, or in chunks.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --traffic`
    """
    copies: dict[tuple[Instruction, ArrayShape, Computation], list[Transfer]] = {}
    for transfer in context.analyses.transfers if context.target == "tpu" else ():
        if transfer.is_prefetch and transfer.instruction.opcode in (opcodes.COPY, opcodes.COPY_START):
            key = (transfer.source, transfer.shape, transfer.instruction.computation)
            copies.setdefault(key, []).append(transfer)
    for (source, shape, _), repeated in copies.items():
        # The second copy is what could go.
        if len(repeated) > 1 and _is_large(context, repeated[1]):
            name, space = context.user_name(source), space_name(repeated[1].to_space, "tpu")
            yield context.finding(
                f"{name} ({format_bytes(shape.padded_bytes)}) is copied into {space} more than once",
                repeated[1].instruction,
                hint=_closer_hint(context, [each.instruction for each in repeated[:2]]),
                waste=Waste(shape.padded_bytes * (len(repeated) - 1)),
                subject=source,
                common=Common(f"{COUNT} arrays are copied into {space} more than once: {name}"),
            )


@rule("HLO209", "loop-invariant value read from main memory", severity="note", is_default=False)
def loop_invariant_read(context: LintContext) -> Iterator[Finding]:
    """A loop reads a loop-invariant array from main memory in every iteration.

    Reported if all iterations together read at least min_prefetch_bytes of the array.

    Why: The array is small enough for fast memory (at most 16 MiB) and could be read once. Off by default, because the
    compiler knows better whether there is space.

    Example:
        w = f32[256,256]{1,0:T(8,128)} get-tuple-element(carried), index=1

    Fix: Lower xla_tpu_scoped_vmem_limit_kib if it is set: kernels reserve that much fast memory, which then cannot hold
    the array.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --space 1`
    """
    if context.target != "tpu":
        return
    for loop in context.of(opcodes.WHILE):
        body = loop.called_computations[0] if loop.called_computations else None
        iterations = context.executions(body).known if body is not None else None
        if body is None or iterations is None or iterations < 2:
            continue
        unchanged = passes_through(body)
        for element in body.instructions:
            shape = element.shape
            if carry_index(element) not in unchanged or not isinstance(shape, ArrayShape) or shape.memory_space:
                continue
            # What is larger cannot be kept on the chip during a loop.
            if shape.padded_bytes <= _VMEM_SHARE:
                read = _read_bytes(element, uses_of(element, context.users))
                if read * iterations >= context.settings.min_prefetch_bytes:
                    yield context.finding(
                        f"a loop reads {context.user_name(element)} from main memory in each of {iterations:,} "
                        f"iterations ({format_bytes(read * iterations)} in total)",
                        element,
                        waste=Waste(read),
                    )


# An eighth of v5e's 128 MiB: what is larger cannot stay next to all that kernels need. Chosen, not measured.
_VMEM_SHARE: Final = 16 * 1024**2


def _closer_hint(context: LintContext, copies: Sequence[Instruction]) -> str | None:
    """What to do about two copies of a value; None if their readers are unknown or not in one part of a gradient."""
    readers: dict[str, tuple[bool, ...]] = {}
    for copy in copies:
        uses = (
            use for use in uses_of(copy, context.users) if use.opcode not in _CARRYING_OPCODES and not is_plumbing(use)
        )
        known = ((context.user_name(use), context.origin(use)) for use in uses if is_known(context.origin(use)))
        name, origin = next((each for each in known if each[0] not in readers), ("", UNKNOWN))
        readers[name] = tuple(part in origin.op_name for part in _GRADIENT)
    if "" in readers or len(set(readers.values())) > 1 or _is_adjacent(context, copies):
        return None
    return f"move {' and '.join(readers)}, which read it, closer together"


def _is_adjacent(context: LintContext, copies: Sequence[Instruction]) -> bool:
    """Whether no other kernel runs between the readers of two copies in one computation; they cannot be closer then."""
    first, second = (uses_of(copy, context.users) for copy in copies)
    begin, end = max(use.index for use in first), min(use.index for use in second)
    between = copies[0].computation.instructions[begin + 1 : end]
    return not any(is_launched(each) and each.opcode not in _BRINGING_OPCODES for each in between)


def _is_large(context: LintContext, transfer: Transfer) -> bool:
    # Host transfers have rules of their own.
    if transfer.from_space == MemorySpace.HOST:
        return False
    return (
        transfer.shape.padded_bytes * context.executions(transfer.instruction.computation).count
        >= context.settings.min_prefetch_bytes
    )


def _read_bytes(element: Instruction, users: Sequence[Instruction]) -> int:
    """The bytes of a value that its users read, each user counted once."""
    costs = costs_among(user for user in users if user.opcode not in _CARRYING_OPCODES)
    places = ((user, n) for user in costs for n, operand in enumerate(user.operands) if derives_from(operand, element))
    return sum(round(costs[user].operand_bytes(number)) for user, number in places)
