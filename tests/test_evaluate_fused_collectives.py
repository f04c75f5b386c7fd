"""Collectives whose start and done are parts of fusions, as TPU compilers print them."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import refusals
from hlo_cli.analysis.evaluate.run import run as run_module

GATHER = "all-gather({}), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}}, use_global_device_ids=true"
TEXT = f"""HloModule m, num_partitions=2
start {{ p = f32[2] parameter(0)
  g = f32[4] {GATHER.format("p")}
  ROOT s = (f32[2], f32[4], u32[]) custom-call(g), custom_call_target="AsyncCollectiveStart" }}
meanwhile {{ a = f32[2] parameter(0)  b = f32[4] parameter(1)  c = f32[] parameter(2)
  g = f32[4] {GATHER.format("a")}
  d = f32[] add(c, c)
  ROOT t = (f32[], f32[2], f32[4], f32[4]) tuple(d, a, b, g) }}
done {{ a = f32[2] parameter(0)  b = f32[4] parameter(1)
  g = f32[4] {GATHER.format("a")}
  ROOT r = f32[4] custom-call(a, b, g), custom_call_target="AsyncCollectiveDone" }}
ENTRY e {{ p = f32[2] parameter(0), sharding={{devices=[2]<=[2]}}
  c = f32[] parameter(1), sharding={{replicated}}
  s = (f32[2], f32[4], u32[]) fusion(p), kind=kCustom, calls=start
  x = f32[2] get-tuple-element(s), index=0
  y = f32[4] get-tuple-element(s), index=1
  m = (f32[], f32[2], f32[4], f32[4]) fusion(x, y, c), kind=kOutput, calls=meanwhile
  a = f32[2] get-tuple-element(m), index=1
  b = f32[4] get-tuple-element(m), index=2
  g = f32[4] fusion(a, b), kind=kCustom, calls=done
  d = f32[] get-tuple-element(m), index=0
  f = f32[4] broadcast(d), dimensions={{}}
  ROOT r = f32[4] add(g, f) }}"""

ARGUMENTS = (np.array([1, 2, 3, 4], np.float32), np.array(10, np.float32))


def test_start_and_done_hand_on_what_was_gathered() -> None:
    run = run_module(parse_module(TEXT), ARGUMENTS)
    assert np.asarray(run.result).tolist() == [21, 22, 23, 24]


def test_a_start_hands_on_what_its_collective_takes() -> None:
    """What computes meanwhile gathers again, from the first element of the start."""
    module = parse_module(TEXT)
    run = run_module(module, ARGUMENTS, watch=[module.instruction("s")])
    [[start]] = run.watched.values()
    assert isinstance(start, tuple)
    assert [np.asarray(part).tolist() for part in start] == [[1, 2], [1, 2, 3, 4], 0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("custom-call(g), custom_call_target=\"AsyncCollectiveStart\"", 'custom-call(p), custom_call_target="AsyncCollectiveStart"'),
        ("ROOT s = (f32[2], f32[4], u32[])", "ROOT s = (f32[4], f32[2], u32[])"),
        ("custom-call(a, b, g)", "custom-call(a, b)"),
    ],
)  # fmt: skip
def test_other_forms_are_refused(old: str, new: str) -> None:
    assert old in TEXT
    found = refusals(parse_module(TEXT.replace(old, new)), has_devices=True)
    assert any("AsyncCollective" in reason for _, reason in found)
