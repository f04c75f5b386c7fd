"""HLO2xx: memory reuse and repeated transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.dependencies import uses_of
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN
from hlo_cli.analysis.schedule.transfers import Transfer
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace, space_name
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.advice import donation_hint
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.dataflow import derives_from
from hlo_cli.lint.donations import donations_of, has_kept_argument, needed_bytes
from hlo_cli.lint.groups import Common, is_known
from hlo_cli.lint.loop_invariants import carry_index, passes_through
from hlo_cli.lint.names import is_plumbing
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_CARRYING: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.CUSTOM_CALL, opcodes.TUPLE, opcodes.WHILE))
"""Opcodes that pass a value on under other names, so that its last use is hard to find."""
_GRADIENT: Final = ("jvp(", "transpose(")
"""Parts of op_names in the forward or only the backward pass of a gradient, which cannot be moved to each other."""
_FAST: Final = frozenset(space for space in TpuMemorySpace if space.is_prefetched)


@rule("HLO203", "argument could be donated", severity="warning")
def donatable_argument(context: LintContext) -> Iterator[Finding]:
    """A result could reuse the memory of an argument that is not read afterwards.

    Reported for arguments of at least min_donation_bytes, if donating all of them saves at least min_donation_fraction
    of the memory that the module needs. Arguments are not reported if their last reader cannot write over them: the
    compiler would copy them.

    Why: The result has the shape and layout of the argument, as updated weights have those of the old ones. Without
    donation, both are allocated until the end.

    Example:
        HloModule step, is_scheduled=true
        ENTRY main { w = f32[512,512]{1,0} parameter(0)  ROOT n = f32[512,512]{1,0} negate(w) }

    Fix: Donate the argument: in JAX, jit(step, donate_argnums=0). The hint has the bytes that this saves. If the caller
    needs the old value, as in inference, add the finding to a baseline.

    Reference: https://openxla.org/xla/aliasing; `hlo memspace DUMP --value NAME`
    """
    if not context.module.is_scheduled or not has_kept_argument(context.module, context.settings.min_donation_bytes):
        return
    settings, memory = context.settings, context.analyses.memory
    donations = donations_of(memory, settings.min_donation_bytes)
    if donations.saved_bytes < settings.min_donation_fraction * needed_bytes(memory):
        return
    for each in donations.arguments:
        argument = each.argument
        name, taken = context.user_name(argument), format_bytes(each.padded_bytes)
        yield context.finding(
            f"{name} ({taken}) could be donated: {context.user_name(each.kernel)} writes a result of the same shape "
            "after its last use",
            argument,
            shape_span(context.module, argument),
            waste=Waste(each.padded_bytes, None),
            other=each.kernel,
            common=Common(f"{name} could be donated", "argument"),
            hint=donation_hint(context, donations, each),
        )


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
        if len(repeated) > 1 and _is_large(context, repeated[1]):
            name, space = context.user_name(source), space_name(repeated[1].to_space, "tpu")
            yield context.finding(
                f"{name} ({format_bytes(shape.padded_bytes)}) is copied into {space} more than once",
                repeated[1].instruction,
                hint=_closer_hint(context, [each.instruction for each in repeated[:2]]),
                waste=Waste(shape.padded_bytes * (len(repeated) - 1)),
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


def _closer_hint(context: LintContext, copies: Sequence[Instruction]) -> str | None:
    """What to do about two copies of a value; None if their readers are unknown or not in one part of a gradient."""
    readers: dict[str, tuple[bool, ...]] = {}
    for copy in copies:
        uses = (use for use in uses_of(copy, context.users) if use.opcode not in _CARRYING and not is_plumbing(use))
        known = ((context.user_name(use), context.origin(use)) for use in uses if is_known(context.origin(use)))
        name, origin = next((each for each in known if each[0] not in readers), ("", UNKNOWN))
        readers[name] = tuple(part in origin.op_name for part in _GRADIENT)
    if "" in readers or len(set(readers.values())) > 1:
        return None
    return f"move {' and '.join(readers)}, which read it, closer together"


def _is_large(context: LintContext, transfer: Transfer) -> bool:
    if transfer.from_space == MemorySpace.HOST:
        return False
    return (
        transfer.shape.padded_bytes * context.executions(transfer.instruction.computation).count
        >= context.settings.min_prefetch_bytes
    )


def _read_bytes(element: Instruction, users: Sequence[Instruction]) -> int:
    """The bytes of a value that its users read, each user counted once."""
    costs = costs_among(user for user in users if user.opcode not in _CARRYING)
    places = ((user, n) for user in costs for n, operand in enumerate(user.operands) if derives_from(operand, element))
    return sum(round(costs[user].operand_bytes(number)) for user, number in places)
