"""XLA:GPU's priority fusion: times to the last digit and reasons word for word, in XLA's order of fusions.

Expectations are XLA's own: the steps that jaxlib 0.10.2 wrote while it compiled for an H100, an A100, and a B200.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from gpu_fusion_dumps import Program, Step, follow, programs, steps_of
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.gpu_work import f32, microseconds
from hlo_cli.analysis.fusion.mutable_graph import Node, mutable_graph_of
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.transform.fusion.gpu_priority_fusion import PriorityFusion, Update

PROGRAMS = programs()


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_times_and_reasons_are_those_of_xla(program: Program) -> None:
    seen: Counter[str] = Counter()

    def check(update: Update, step: Step) -> None:
        seen[step.kind] += 1
        assert {node.name for node in update.consumers} >= set(step.consumers)
        if step.kind == "producer_ineligible":
            assert (step.producer, update.reason) == (step.producer, step.reason)
            return
        assert update.times is not None, (step, update.reason)
        ours = [f32(microseconds(ticks)) for ticks in update.times]
        assert (step.producer, *ours) == (step.producer, f32(step.us_fused), f32(step.us_unfused))

    def chosen(fusion: PriorityFusion, producer: Node) -> None:
        seen["choice"] += 1
        waiting = [v for node, v in fusion.priorities.items() if v != inf or fusion.consumers_of(node)]
        assert fusion.priorities[producer] == max(waiting)

    follow(program, check, chosen)
    assert seen


def test_the_programs_have_many_times_and_reasons() -> None:
    steps = [step for program in PROGRAMS for step in steps_of(program.text("priority_fusion_dump"))]
    kinds = Counter(step.kind for step in steps)
    assert kinds["update_priority"] > 1000
    assert len({step.reason for step in steps}) > 10


def test_an_update_of_nibbles_takes_the_time_that_xla_printed() -> None:
    text = """ENTRY e { x = u4[1000]{0:E(4)} parameter(0)  y = u4[1000]{0:E(4)} parameter(1)  i = s64[] constant(0)
    s = u4[500]{0:E(4)} slice(x), slice={[0:500]}  ROOT u = u4[1000]{0:E(4)} dynamic-update-slice(y, s, i) }"""
    update = mutable_graph_of(parse_module(text).entry).root
    assert update is not None
    fused = KernelModel(gpu_device("a100-80gb")).fused_time(update.operands[1], update)
    assert (fused.blocks, fused.threads, microseconds(fused.ticks)) == (2, 128, 0.00275)
