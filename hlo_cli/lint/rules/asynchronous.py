"""HLO06x: asynchronous operations, and sends and receives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_deadlock import deadlocks
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding

_NAMES: Final = ("metadata", "control-predecessors", "channel_id", "backend_config")


@rule("HLO060", "asynchronous operation is not paired as it must be")
def async_rules(context: LintContext) -> Iterator[Finding]:
    """A start has no done or two, a done has no start, or both disagree on what runs.

    Why: a start hands work over, and exactly one done takes the result back; what lies between has been given to the
    hardware and must not be touched.

    Example:
        s = (f32[4], f32[4], u32[]) copy-start(x)

    Mend: let one -done take what the -start or the last -update gives, with the same computation and shapes.

    Reference: VerifyAsyncOps, CheckAsyncOpComputationShapes in xla/service/hlo_verifier.cc; hlo schedule DUMP
    """
    yield from context.told(context.async_problems, "error")


@rule("HLO063", "asynchronous operation that newer XLA may reject", severity="warning")
def async_doubts(context: LintContext) -> Iterator[Finding]:
    """An asynchronous operation is written in a way that older versions of XLA take and newer ones reject.

    Why: a dump that one version wrote is often read by another.

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

    Mend: the message says what is asked for, here frontend_attributes={_collectives_group=""} at the start.

    Reference: VerifyAsyncComputation in xla/service/hlo_verifier.cc; hlo schedule DUMP
    """
    yield from context.told(context.async_problems, "warning")


@rule("HLO064", "asynchronous operation that older XLA rejects", severity="note")
def async_news(context: LintContext) -> Iterator[Finding]:
    """An asynchronous operation is written in a way that newer versions of XLA take and older ones reject.

    Why: a dump that one version wrote is often read by another, as by the one in jaxlib 0.10.2.

    Example:
        w { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
        s = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        d = f32[4] async-done(s)
        t = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        e = f32[4] async-done(t)

    Mend: the message says what is asked for, here a computation of its own for each start.

    Reference: VerifyAsyncOps in xla/service/hlo_verifier.cc; hlo schedule DUMP
    """
    yield from context.told(context.async_problems, "note")


@rule("HLO061", "transfers with the host that share a channel differ")
def host_channel(context: LintContext) -> Iterator[Finding]:
    """Two sends to the host, or two receives from it, have one channel, but not one shape and the same attributes.

    Why: the host serves a channel in one way, whichever of them the program comes to.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
        u = (f32[4], u32[], token[]) send(y, t), channel_id=1, is_host_transfer=true

    Mend: give each its own channel_id.

    Reference: VerifyChannels in xla/service/hlo_verifier.cc
    """
    first: dict[tuple[str, int], Instruction] = {}
    for transfer in context.of(opcodes.SEND, opcodes.RECV):
        number = transfer.integer("channel_id")
        if number is None or not transfer.flag("is_host_transfer"):
            continue
        other = first.setdefault((transfer.opcode, number), transfer)
        if _says(other) != _says(transfer):
            message = f"{transfer.name} shares channel {number} with {other.name}, but differs from it"
            yield context.finding(message, transfer, attribute_span(transfer, "channel_id"))


@rule("HLO062", "sends and receives may wait for each other for ever", is_default=False)
def deadlock(context: LintContext) -> Iterator[Finding]:
    """In the order of the schedule, sends and receives between devices do not meet, or form a circle.

    Why: a device that waits for a send that another starts only later, or that a third one holds up, never goes on.
    Only pipelines for GPUs keep this order, so the rule is off; it looks at send and recv that say
    _xla_send_recv_source_target_pairs in their frontend attributes.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1,
          frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}

    Mend: leave one pair out of a circle, and start each send before its receive.

    Reference: VerifyNoCollectiveDeadlocks in xla/service/hlo_verifier.cc
    """
    for problem in deadlocks(context.module):
        yield context.finding(problem.message, problem.at, hint=problem.hint)


def _says(transfer: Instruction) -> tuple[str, frozenset[str]]:
    attributes = (f"{each.name}={each.value}" for each in transfer.attributes if each.name not in _NAMES)
    return str(transfer.shape), frozenset(attributes)
