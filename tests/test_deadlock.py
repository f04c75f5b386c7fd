"""Sends and receives between devices, in orders in which they meet and in orders in which they wait for ever."""

from __future__ import annotations

import pytest

from hlo_cli.analysis.schedule.async_verifier import DEADLOCK, verify_async
from hlo_cli.syntax.text.parser import parse_module


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

FINE = {
    "a send and its recv": module(f"send {FORWARD}", f"recv {FORWARD}"),
    "the recv first": module(f"recv {FORWARD}", f"send {FORWARD}"),
    "one after the other": module(f"send {FORWARD}", f"recv {FORWARD}", f"recv {BACK}", f"send {BACK}"),
    "apart from each other": module(f"send {FORWARD}", f"send {FURTHER}", f"recv {FURTHER}", f"recv {FORWARD}"),
    "a collective behind": module(f"send {FORWARD}", f"recv {FORWARD}", REDUCE, before=ADD),
    "no schedule": module(f"send {FORWARD}", head="frontend_attributes={}"),
    "to the host": module("h = (f32[4], u32[], token[]) send(p, t), channel_id=3, is_host_transfer=true",
                          "hd = token[] send-done(h), channel_id=3, is_host_transfer=true"),
    "half of it in a call": module("y = f32[4] call(p), to_apply=body", f"recv {FORWARD}", before=BODY),
}  # fmt: skip

STUCK = {
    "nothing receives": (module(f"send {FORWARD}"), ["nothing receives what send.0 sends from 0 to 1, from 1 to 2"]),
    "nothing sends": (module(f"recv {FORWARD}"), ["nothing sends what recv.0 receives from 0 to 1, from 1 to 2"]),
    "another way": (
        module(f"send {FORWARD}", f"recv {BACK}"),
        ["nothing receives what send.0 sends from 0 to 1, from 1 to 2", "nothing sends what recv.1 receives from 2 to 0"],
    ),
    "a collective between": (
        module(f"send {FORWARD}", REDUCE, f"recv {FORWARD}", before=ADD),
        ["x stands between send.0 and the recv that this waits for"],
    ),
    "twice the same": (
        module(f"send {FORWARD}", f"send {FORWARD}", f"recv {FORWARD}", f"recv {FORWARD}"),
        ["send.1 goes from 0 to 1, from 1 to 2 as send.0 does, which nothing has met"],
    ),
    "two in a circle": (
        module(f"send {FORWARD}", f"send {BACK}", f"recv {BACK}", f"recv {FORWARD}"),
        ["send.1 goes from 2 to 0 while send.0 goes from 0 to 1, from 1 to 2, which nothing has met"],
    ),
    "a circle": (
        module("send {{0,1},{1,0}}", "recv {{0,1},{1,0}}"),
        ["send.0 goes in a circle: from 0 to 1, from 1 to 0", "recv.1 goes in a circle: from 0 to 1, from 1 to 0"],
    ),
    "two sources": (
        module("send {{0,1},{2,1}}", "recv {{0,1},{2,1}}"),
        [f"{name} goes twice to one device: from 0 to 1, from 2 to 1" for name in ("send.0", "recv.1")],
    ),
    "half of it in a call": (
        module("y = f32[4] call(p), to_apply=body", before=BODY),
        ["nothing receives what s sends from 0 to 1, from 1 to 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_orders_in_which_all_meet(name: str) -> None:
    read = parse_module(FINE[name])
    assert not read.errors
    assert [finding.message for finding in verify_async(read)] == []


@pytest.mark.parametrize("name", STUCK)
def test_orders_in_which_devices_wait_for_ever(name: str) -> None:
    text, messages = STUCK[name]
    found = list(verify_async(parse_module(text)))
    assert [finding.message for finding in found] == messages
    assert {(finding.code, finding.severity) for finding in found} == {(DEADLOCK, "warning")}
