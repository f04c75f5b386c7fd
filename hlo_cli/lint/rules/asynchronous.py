"""HLO06x: asynchronous operations, and sends and receives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_verifier import deadlocks
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding

_IGNORED: Final = ("metadata", "control-predecessors", "channel_id", "backend_config")


@rule("HLO060", "invalid async start/done pair")
def async_pairing(context: LintContext) -> Iterator[Finding]:
    """A start has no done or more than one, a done has no start, or they disagree about the computation.

    Why: A start begins the work, and exactly one done returns the result. In between, the hardware owns the operands
    and the result.

    Example:
        s = (f32[4], f32[4], u32[]) copy-start(x)

    Fix: Connect exactly one done to the start or its last update, with the same computation and shapes.

    Reference: VerifyAsyncOps, CheckAsyncOpComputationShapes in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "error")


@rule("HLO063", "async operation rejected by newer XLA", severity="warning")
def async_newer_xla(context: LintContext) -> Iterator[Finding]:
    """An async operation uses a form that newer XLA versions reject.

    Why: A dump is often read by another version of XLA than the one that wrote it.

    Example:
        w {
          a = f32[4] parameter(0)
          t = token[] parameter(1)
          s = (f32[4], u32[], token[]) send(a, t), channel_id=1
          r = (f32[4], u32[], token[]) recv(t), channel_id=1
          ROOT p = ((f32[4], u32[], token[]), (f32[4], u32[], token[])) tuple(s, r)
        }
        s = ((f32[4], token[]), ((f32[4], u32[], token[]), (f32[4], u32[], token[])), u32[]) async-start(x, t), calls=w
        d = ((f32[4], u32[], token[]), (f32[4], u32[], token[])) async-done(s)

    Fix: See the finding, for example add frontend_attributes={_collectives_group=""} to the start.

    Reference: VerifyAsyncComputation in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "warning")


@rule("HLO064", "async operation rejected by older XLA", severity="note")
def async_older_xla(context: LintContext) -> Iterator[Finding]:
    """An async operation uses a form that older XLA versions reject.

    Why: A dump is often read by another version of XLA than the one that wrote it, such as the one in jaxlib 0.10.2.

    Example:
        w { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
        s = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        d = f32[4] async-done(s)
        t = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        e = f32[4] async-done(t)

    Fix: See the finding, for example give each start its own computation.

    Reference: VerifyAsyncOps in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "note")


@rule("HLO061", "mismatched host transfers on one channel")
def host_channel(context: LintContext) -> Iterator[Finding]:
    """Two host sends (or two host receives) use the same channel with different shapes or attributes.

    Why: The host handles every transfer of a channel in the same way.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
        u = (f32[4], u32[], token[]) send(y, t), channel_id=1, is_host_transfer=true

    Fix: Use a separate channel_id for each.

    Reference: VerifyChannels in xla/service/hlo_verifier.cc
    """
    first: dict[tuple[str, int], Instruction] = {}
    for transfer in context.of(opcodes.SEND, opcodes.RECV):
        number = transfer.integer("channel_id")
        if number is None or not transfer.flag("is_host_transfer"):
            continue
        other = first.setdefault((transfer.opcode, number), transfer)
        if _content(other) != _content(transfer):
            message = f"{transfer.name} and {other.name} share channel {number} but have different shapes or attributes"
            yield context.finding(message, transfer, attribute_span(transfer, "channel_id"))


@rule("HLO062", "possible send/recv deadlock", is_default=False)
def deadlock(context: LintContext) -> Iterator[Finding]:
    """In schedule order, sends and receives between devices do not match up or form a cycle.

    Why: A receive blocks until another device starts the matching send. If that send is missing, or depends on the
    receive through other devices, the program never ends. Checked for sends and receives with
    _xla_send_recv_source_target_pairs in their frontend attributes. Off by default, because only GPU pipelines require
    this order.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1,
          frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}

    Fix: Break the cycle by removing one pair, and start each send before its receive.

    Reference: VerifyNoCollectiveDeadlocks in xla/service/hlo_verifier.cc
    """
    for problem in deadlocks(context.module):
        yield context.finding(problem.message, problem.at, hint=problem.hint)


def _content(transfer: Instruction) -> tuple[str, frozenset[str]]:
    attributes = (f"{each.name}={each.value}" for each in transfer.attributes if each.name not in _IGNORED)
    return str(transfer.shape), frozenset(attributes)
