"""HLO2xx: memory reuse and repeated transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.uses import producer_of, uses_of
from hlo_cli.analysis.memory.memory_limits import allocated_bytes
from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis
from hlo_cli.analysis.schedule.transfers import Transfer
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace, space_name
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste, waste_of_copy
from hlo_cli.lint.dataflow import derives_from
from hlo_cli.lint.groups import Common
from hlo_cli.lint.loop_invariants import carry_index, passes_through
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_CARRYING: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.CUSTOM_CALL, opcodes.TUPLE, opcodes.WHILE))
"""Opcodes that pass a value on under other names, so that its last use is hard to find."""
_MOVING: Final = (opcodes.COPY, opcodes.SLICE)
_JOINING: Final = "ConcatBitcast"
_FAST: Final = frozenset(space for space in TpuMemorySpace if space.is_prefetched)


@rule("HLO203", "argument could be donated", severity="warning")
def donatable_argument(context: LintContext) -> Iterator[Finding]:
    """A result could reuse the memory of an argument that is not read afterwards.

    Reported for arguments of at least min_donation_bytes, if donating all of them saves at least min_donation_fraction
    of the main memory that the module needs.

    Why: The result has the shape and layout of the argument, as updated weights have those of the old ones. Without
    donation, both are allocated until the end.

    Example:
        HloModule step, is_scheduled=true
        ENTRY main { w = f32[512,512]{1,0} parameter(0)  ROOT n = f32[512,512]{1,0} negate(w) }

    Fix: Donate the argument: in JAX, jit(step, donate_argnums=0). If the caller needs the old value, as in inference,
    add the finding to a baseline.

    Reference: https://openxla.org/xla/aliasing; `hlo memspace DUMP --value NAME`
    """
    if not context.module.is_scheduled or not _has_kept_argument(context):
        return
    memory = context.analyses.memory
    donations = tuple(_donations(context, memory))
    if sum(saved for saved, _ in donations) < context.settings.min_donation_fraction * _main_memory_bytes(memory):
        return
    yield from (finding for _, finding in donations)


@rule("HLO207", "value spilled to main memory", severity="note", is_default=False)
def spilled_value(context: LintContext) -> Iterator[Finding]:
    """A value is moved out of fast memory and later back.

    Reported for values of at least min_prefetch_bytes, summed over the iterations of loops.

    Why: The value is transferred twice. The compiler spills a value if the live values do not fit in fast memory. Off
    by default, because that is common, for example for values that a backward pass needs.

    Example:
        a = f32[512,1024]{1,0:T(8,128)} copy(x)
        b = f32[512,1024]{1,0:T(8,128)S(1)} copy(a)

    Fix: Reduce the memory that is live at the same time (start with padding), or move the uses closer together.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --traffic`
    """
    transfers = context.analyses.transfers if context.target == "tpu" else ()
    moved = {t.instruction: t for t in transfers if t.from_space in _FAST and not t.to_space}
    reported = set[Instruction]()
    for transfer in transfers:
        out = moved.get(transfer.source)
        if out is None or not transfer.is_prefetch or out.instruction in reported or not _is_large(context, out):
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

    Fix: Move the uses closer together, or reduce the memory that is live in between.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --traffic`
    """
    copies: dict[tuple[Instruction, ArrayShape, Computation], list[Transfer]] = {}
    for transfer in context.analyses.transfers if context.target == "tpu" else ():
        if transfer.is_prefetch and transfer.instruction.opcode in (opcodes.COPY, opcodes.COPY_START):
            key = (transfer.source, transfer.shape, transfer.instruction.computation)
            copies.setdefault(key, []).append(transfer)
    for (source, shape, _), repeated in copies.items():
        if len(repeated) > 1 and _is_large(context, repeated[1]):
            name, space = context.user_name(source), space_name(repeated[1].to_space, "tpu")
            once = waste_of_copy(source.shape, shape)
            again = len(repeated) - 1
            yield context.finding(
                f"{name} ({format_bytes(shape.padded_bytes)}) is copied into {space} more than once",
                repeated[1].instruction,
                waste=replace(once, bytes=once.bytes * again, moved_bytes=(once.moved_bytes or 0) * again),
                subject=source,
                common=Common(f"{name} is copied into {space} more than once"),
            )


@rule("HLO209", "loop-invariant value read from main memory", severity="note", is_default=False)
def loop_invariant_read(context: LintContext) -> Iterator[Finding]:
    """A loop reads a loop-invariant array from main memory in every iteration.

    Reported if all iterations together read at least min_prefetch_bytes of the array.

    Why: The array is small enough for fast memory (at most 16 MiB) and could be read once. Off by default, because the
    compiler knows better whether there is space.

    Example:
        w = f32[256,256]{1,0:T(8,128)} get-tuple-element(carried), index=1

    Fix: Free fast memory inside the loop. xla_tpu_scoped_vmem_limit_kib limits the fast memory per kernel.

    Reference: xla/service/memory_space_assignment; `hlo memspace DUMP --space 1`
    """
    if context.target != "tpu":
        return
    for loop in context.of(opcodes.WHILE):
        body = loop.called_computations[0] if loop.called_computations else None
        iterations = context.analyses.times.get(body) if body is not None else None
        if body is None or iterations is None or iterations < 2:
            continue
        unchanged = passes_through(body)
        for element in body.instructions:
            shape = element.shape
            if carry_index(element) not in unchanged or not isinstance(shape, ArrayShape) or shape.memory_space:
                continue
            if shape.padded_bytes <= _VMEM_SHARE:
                read = _read_bytes(element, uses_of(element, context.users))
                if read * iterations >= context.settings.min_prefetch_bytes:
                    yield context.finding(
                        f"a loop reads {context.user_name(element)} from main memory in each of {iterations:,} "
                        f"iterations ({format_bytes(read * iterations)} in total)",
                        element,
                        waste=Waste(read),
                    )


_VMEM_SHARE: Final = 16 * 1024**2


def _has_kept_argument(context: LintContext) -> bool:
    """Whether a large enough argument is not donated; faster to check than the memory analysis."""
    module = context.module
    given = {alias.parameter_number for alias in module.input_output_alias}
    given |= {donor.parameter_number for donor in module.buffer_donor}
    parameters = (each for number, each in enumerate(module.entry.parameters) if number not in given)
    return any(each.shape.padded_bytes >= context.settings.min_donation_bytes for each in parameters)


def _donations(context: LintContext, memory: MemoryAnalysis) -> Iterator[tuple[int, Finding]]:
    """The arguments that could be donated, with their bytes."""
    written = _results(memory)
    for allocation in memory.allocations:
        given = next((value for value in allocation.values if value.instruction.opcode == opcodes.PARAMETER), None)
        if allocation.kind != "argument" or allocation.is_donated or given is None or given.index:
            continue
        if allocation.size < context.settings.min_donation_bytes or given.instruction not in context.users:
            continue
        last = _last_use(context, memory, given.instruction)
        fitting = (each for each in written if each.shape == given.shape and 0 <= last <= each.start)
        result = next((each for each in fitting if _updates(each, given.instruction)), None)
        if result is not None:
            written.remove(result)
            made, taken = _before_copies(result.instruction), format_bytes(allocation.size)
            kernel = result.instruction if made is given.instruction else made
            yield (
                allocation.size,
                context.finding(
                    f"{context.user_name(given.instruction)} ({taken}) could be donated: its last reader, "
                    f"{context.user_name(kernel)}, writes a result of the same shape",
                    given.instruction,
                    shape_span(context.module, given.instruction),
                    waste=Waste(allocation.size, None),
                    other=kernel,
                    common=Common(f"{context.user_name(given.instruction)} could be donated", is_whole_argument=True),
                    hint=f"alias result {result} with parameter {given.instruction.parameter_number}",
                ),
            )


def _main_memory_bytes(memory: MemoryAnalysis) -> int:
    """The bytes that the module needs in the main memory."""
    main = memory.space(0)
    return (allocated_bytes(memory, main) or main.peak_bytes) if main is not None else 0


def _results(memory: MemoryAnalysis) -> list[LiveValue]:
    """First values in output allocations that no argument aliases."""
    found: list[LiveValue] = []
    for allocation in memory.allocations:
        if allocation.kind == "output":
            held = [value for value in allocation.values if value.kind == "output"]
            first = min(held, key=lambda value: value.start, default=None)
            if first is not None and isinstance(first.shape, ArrayShape):
                found.append(first)
    return found


def _last_use(context: LintContext, memory: MemoryAnalysis, given: Instruction) -> int:
    """The step of the last use; after the last step if the value is passed on under other names, -1 if it is unused."""
    uses = uses_of(given, context.users)
    if any(use.opcode in _CARRYING for use in uses):
        return len(memory.sequence) + 1
    return max((memory.positions.get(use, len(memory.sequence)) for use in uses), default=-1)


def _updates(result: LiveValue, argument: Instruction) -> bool:
    """Whether the kernel that makes a result reads an argument, or the result begins as a copy of it."""
    kernel = _before_copies(result.instruction)
    return kernel is argument or any(_before_copies(operand) is argument for operand in kernel.operands)


def _before_copies(instruction: Instruction) -> Instruction:
    """The producer of a value, before any moves."""
    made = producer_of(instruction)
    while (moved := _moved(made)) is not None:
        made = producer_of(moved)
    return made


def _moved(made: Instruction) -> Instruction | None:
    """The value that an instruction only moves: as a whole, or in pieces, as TPU compilers fetch large values."""
    match made.opcode:
        case opcodes.COPY | opcodes.COPY_START if made.operands:
            return made.operands[0]
        case opcodes.ASYNC_START if made.operands and made.called_computations:
            root = made.called_computations[0].root
            return made.operands[0] if root is not None and root.opcode in _MOVING else None
        case opcodes.CUSTOM_CALL if made.string("custom_call_target") == _JOINING:
            sources = {_before_copies(piece) for piece in made.operands}
            return sources.pop() if len(sources) == 1 else None
    return None


def _is_large(context: LintContext, transfer: Transfer) -> bool:
    times = context.analyses.times.get(transfer.instruction.computation) or 1
    if transfer.from_space == MemorySpace.HOST:
        return False
    return transfer.shape.padded_bytes * times >= context.settings.min_prefetch_bytes


def _read_bytes(element: Instruction, users: Sequence[Instruction]) -> int:
    """The bytes of a value that its users read, each user counted once."""
    costs = costs_among(user for user in users if user.opcode not in _CARRYING)
    places = ((user, n) for user in costs for n, operand in enumerate(user.operands) if derives_from(operand, element))
    return sum(round(costs[user].operand_bytes(number)) for user, number in places)
