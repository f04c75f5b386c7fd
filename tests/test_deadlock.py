"""Sends and recvs between devices, in orders that complete and in orders that deadlock."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli import module_from_bytes, module_to_bytes
from hlo_cli.analysis.schedule.async_verifier import (
    DEADLOCK,
    SourceTargetPairs,
    Transfer,
    Unmatched,
    conflict,
    deadlocks,
    verify_async,
)
from hlo_cli.syntax.text.parser import parse_module
from timing import is_linear

_PAIR = st.tuples(st.integers(0, 7), st.integers(0, 7))
_STEPS = st.lists(st.one_of(st.just(None), st.lists(_PAIR, max_size=3).map(tuple)), max_size=30)
_MANY = tuple(parse_module(f"ENTRY e {{ {' '.join(f'p{n} = f32[] parameter({n})' for n in range(30))} }}").instructions)


def module(*steps: str, head: str = "is_scheduled=true", before: str = "") -> str:
    """A module of steps such as `send {{0,1}}`, or lines of HLO."""
    lines = ["p = f32[4] parameter(0)", "t = token[] after-all()"]
    dones = []
    for number, step in enumerate(steps):
        kind, _, ways = step.partition(" ")
        if kind not in ("send", "recv"):
            lines.append(step)
            continue
        given, result = ("p, t", "token[]") if kind == "send" else ("t", "(f32[4], token[])")
        attributes = f'channel_id=1, frontend_attributes={{_xla_send_recv_source_target_pairs="{ways}"}}'
        lines.append(f"{kind}.{number} = (f32[4], u32[], token[]) {kind}({given}), {attributes}")
        dones.append(f"done.{number} = {result} {kind}-done({kind}.{number}), channel_id=1")
    body = "\n".join([*lines, *dones, "ROOT r = f32[4] negate(p)"])
    return f"HloModule m, {head}\n{before}\nENTRY e {{\n{body}\n}}\n"


FORWARD, BACK, FURTHER = "{{0,1},{1,2}}", "{{2,0}}", "{{3,4}}"
REDUCE = "x = f32[4] all-reduce(p), replica_groups={}, to_apply=f"
ADD = "f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
BODY = f"""body {{ p = f32[4] parameter(0)  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(p, t), channel_id=1, frontend_attributes={{_xla_send_recv_source_target_pairs="{FORWARD}"}}
  d = token[] send-done(s), channel_id=1
  ROOT r = f32[4] negate(p) }}"""

CALL = "y = f32[4] call(p), to_apply=body"
GATHER = "gather { a = f32[4] parameter(0)  ROOT g = f32[8] all-gather(a), dimensions={0} }"
WRAPPED = "w = ((f32[4]), f32[8]) async-start(p), calls=gather\nv = f32[8] async-done(w)"
SUGARED = "w = ((f32[4]), f32[2], u32[]) reduce-scatter-start(p), dimensions={0}, to_apply=f\nv = f32[2] reduce-scatter-done(w)"
GROUP = f"""group {{ a = f32[4] parameter(0)  u = token[] after-all()
  s = (f32[4], u32[], token[]) send(a, u), channel_id=1, frontend_attributes={{_xla_send_recv_source_target_pairs="{FORWARD}"}}
  ROOT d = token[] send-done(s), channel_id=1 }}"""
GROUPED = (
    'w = ((f32[4]), token[], u32[]) async-start(p), calls=group, frontend_attributes={_collectives_group=""}\n'
    "v = token[] async-done(w)"
)

FINE = {
    "a send and its recv": module(f"send {FORWARD}", f"recv {FORWARD}"),
    "round all but one": module("send {{0,1},{1,2},{2,3}}", "recv {{0,1},{1,2},{2,3}}"),
    "the recv first": module(f"recv {FORWARD}", f"send {FORWARD}"),
    "one after the other": module(f"send {FORWARD}", f"recv {FORWARD}", f"recv {BACK}", f"send {BACK}"),
    "apart from each other": module(f"send {FORWARD}", f"send {FURTHER}", f"recv {FURTHER}", f"recv {FORWARD}"),
    "a collective behind": module(f"send {FORWARD}", f"recv {FORWARD}", REDUCE, before=ADD),
    "no schedule": module(f"send {FORWARD}", head="frontend_attributes={}"),
    "to the host": module("h = (f32[4], u32[], token[]) send(p, t), channel_id=3, is_host_transfer=true",
                          "hd = token[] send-done(h), channel_id=3, is_host_transfer=true"),
    "half of it in a call": module("y = f32[4] call(p), to_apply=body", f"recv {FORWARD}", before=BODY),
    "half of it in a call, twice": module(CALL, f"recv {FORWARD}", CALL.replace("y =", "z ="), f"recv {FORWARD}", before=BODY),
    "a native start between": module(
        f"send {FORWARD}", "g = (f32[4], f32[8]) all-gather-start(p), dimensions={0}", f"recv {FORWARD}", "h = f32[8] all-gather-done(g)"
    ),
    "a circle of three": module(*(f"send {{{{{way}}}}}" for way in ("0,1", "1,2", "2,0")), *(f"recv {{{{{way}}}}}" for way in ("0,1", "1,2", "2,0"))),
    "half of it in a group, half in another": module(GROUPED, before=GROUP),
    "part of a pipeline": module(f"send {FORWARD}").replace('}}"}', '}}", _xla_send_recv_pipeline="0"}'),
    "for a TPU": module(f"send {FORWARD}", "l = f32[8,128]{1,0:T(8,128)} constant({...})"),
}  # fmt: skip

STUCK = {
    "nothing receives": (module(f"send {FORWARD}"), ["send.0 has no matching recv (from 0 to 1, from 1 to 2)"]),
    "nothing sends": (module(f"recv {FORWARD}"), ["recv.0 has no matching send (from 0 to 1, from 1 to 2)"]),
    "another way": (
        module(f"send {FORWARD}", f"recv {BACK}"),
        ["send.0 has no matching recv (from 0 to 1, from 1 to 2)", "recv.1 has no matching send (from 2 to 0)"],
    ),
    "a collective between": (
        module(f"send {FORWARD}", REDUCE, f"recv {FORWARD}", before=ADD),
        ["x is between send.0 and its matching recv"],
    ),
    "a collective between, in another computation": (
        module(f"send {FORWARD}", WRAPPED, f"recv {FORWARD}", before=GATHER),
        ["w is between send.0 and its matching recv"],
    ),
    "a sugared start between": (
        module(f"send {FORWARD}", SUGARED, f"recv {FORWARD}", before=ADD),
        ["w is between send.0 and its matching recv"],
    ),
    "two that are written in two ways": (
        module("send {{0,1}}", "recv {{0, 1}}"),
        ["send.0 has no matching recv (from 0 to 1)", "recv.1 has no matching send (from 0 to 1)"],
    ),
    "half of it in a group, between others": (
        module(f"send {FURTHER}", GROUPED, f"recv {FURTHER}", before=GROUP),
        ["s has no matching recv (from 0 to 1, from 1 to 2)"],
    ),
    "twice the same in a call": (
        module(CALL, CALL.replace("y =", "z ="), before=BODY),
        [
            "s (from 0 to 1, from 1 to 2) is executed again before it is matched",
            "s has no matching recv (from 0 to 1, from 1 to 2)",
        ],
    ),
    "twice the same": (
        module(f"send {FORWARD}", f"send {FORWARD}", f"recv {FORWARD}", f"recv {FORWARD}"),
        ["send.1 (from 0 to 1, from 1 to 2) has the same pairs as send.0, which is not matched yet"],
    ),
    "two in a circle": (
        module(f"send {FORWARD}", f"send {BACK}", f"recv {BACK}", f"recv {FORWARD}"),
        ["send.1 (from 2 to 0) conflicts with send.0 (from 0 to 1, from 1 to 2), which is not matched yet"],
    ),
    "a circle": (
        module("send {{0,1},{1,0}}", "recv {{0,1},{1,0}}"),
        ["send.0 has a cycle: from 0 to 1, from 1 to 0", "recv.1 has a cycle: from 0 to 1, from 1 to 0"],
    ),
    "two targets": (
        module("send {{0,1},{0,2}}", "recv {{0,1},{0,2}}"),
        [f"{name} has the same source twice: from 0 to 1, from 0 to 2" for name in ("send.0", "recv.1")],
    ),
    "a circle that leaves a line": (
        module("send {{4,5},{1,2},{2,3},{3,1}}", "recv {{4,5},{1,2},{2,3},{3,1}}"),
        [f"{name} has a cycle: from 4 to 5, from 1 to 2, from 2 to 3, …" for name in ("send.0", "recv.1")],
    ),
    "two sources": (
        module("send {{0,1},{2,1}}", "recv {{0,1},{2,1}}"),
        [f"{name} has the same target twice: from 0 to 1, from 2 to 1" for name in ("send.0", "recv.1")],
    ),
    "half of it in a call": (
        module("y = f32[4] call(p), to_apply=body", before=BODY),
        ["s has no matching recv (from 0 to 1, from 1 to 2)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_orders_that_complete(name: str) -> None:
    read = parse_module(FINE[name])
    assert not read.errors
    assert [finding.message for finding in verify_async(read)] == []


@pytest.mark.parametrize("name", [*FINE, *STUCK])
def test_protos_give_the_same_result(name: str) -> None:
    read = parse_module(FINE[name] if name in FINE else STUCK[name][0])
    messages = [problem.message for problem in deadlocks(read)]
    assert [problem.message for problem in deadlocks(module_from_bytes(module_to_bytes(read)))] == messages


@pytest.mark.parametrize("name", STUCK)
def test_orders_that_deadlock(name: str) -> None:
    text, messages = STUCK[name]
    found = list(verify_async(parse_module(text)))
    assert [finding.message for finding in found] == messages
    assert {(finding.code, finding.severity) for finding in found} == {(DEADLOCK, "warning")}


@given(_STEPS, st.randoms(use_true_random=False))
def test_the_conflict_is_the_first_of_an_exhaustive_search(
    steps: list[SourceTargetPairs | None], random: Random
) -> None:
    unmet, plain = Unmatched(), list[Transfer]()
    for number, ways in enumerate(steps):
        if ways is not None:
            other = next((each for each in plain if conflict((*each.pairs, *ways)) is not None), None)
            assert unmet.conflicting(ways) == other
            transfer = Transfer(_MANY[number], str(ways), ways)
            unmet.add(transfer)
            plain.append(transfer)
        elif plain:
            text = random.choice(plain).text
            assert unmet.match(text)
            plain.remove(next(each for each in plain if each.text == text))
        assert list(unmet.transfers.values()) == plain


@pytest.mark.parametrize("pair", ["{0,1}", "{2N,2N1}", "{N,N1}", "{N1,N}"])
def test_unmatched_sends_need_linear_time(pair: str) -> None:
    def text(at: int) -> str:
        ways = pair.replace("2N1", str(2 * at + 1)).replace("2N", str(2 * at)).replace("N1", str(at + 1))
        attribute = f"frontend_attributes={{_xla_send_recv_source_target_pairs={{{ways.replace('N', str(at))}}}}}"
        return f"  s{at} = (f32[2], u32[], token[]) send(p, t), channel_id={at + 1}, {attribute}\n"

    def work(number: int) -> Callable[[], object]:
        sends = "".join(map(text, range(number)))
        module = parse_module(
            f"HloModule m, is_scheduled=true\nENTRY e {{\n  p = f32[2] parameter(0)\n  t = token[] after-all()\n{sends}}}\n"
        )
        return lambda: list(deadlocks(module))

    assert is_linear(work, 250, 2000)
