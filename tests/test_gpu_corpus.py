"""XLA:GPU's fusion of a corpus of programs: times, reasons, choices, and the passes alone and together.

`make judge` with `HLO_CORPUS` naming a folder with programs at any depth, each with the files of `fixtures/gpu_fusion`.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from math import inf
from pathlib import Path
from typing import get_args

import pytest

from gpu_fusion_dumps import CHIPS, HOME, Program, Step, follow, kernels_of, named_kernels
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_work import f32, microseconds
from hlo_cli.analysis.fusion.mutable_graph import Node
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion.gpu_fusion import BOTH, EXACT, Pass, gpu_fuse
from hlo_cli.transform.fusion.gpu_priority_fusion import PriorityFusion, Update

pytestmark = [pytest.mark.oracle, pytest.mark.long]
CORPUS = Path(os.environ.get("HLO_CORPUS", HOME))
PASSES = get_args(Pass)
FEW = 2
"""Modules that may differ in a corpus too small for a rate: texts do not have the order of users."""


@cache
def programs() -> list[Program]:
    """The programs for chips whose target file has a name here."""
    found = [Program(path.parent) for path in sorted(CORPUS.glob("**/priority_fusion_dump.txt.gz"))]
    known = [each for each in found if each.home.parent.name in CHIPS]
    if not known:
        pytest.skip(f"no programs compiled for GPUs in {CORPUS}")
    return known


def modeled() -> list[Program]:
    """Those without fusions for Triton."""
    return [each for each in programs() if not each.has_triton]


def module_of(program: Program, stage: str, *, has_ids: bool = False) -> Module:
    module = parse_module(program.text(stage))
    if has_ids:
        ids = program.ids
        assert ids is not None
        for computation in module.computations:
            computation.by_id = {ids[each.name]: each for each in computation.instructions}
    return module


def test_times_reasons_and_choices_are_those_of_xla() -> None:
    seen: Counter[str] = Counter()
    wrong: list[object] = []
    for program in programs():

        def check(update: Update, step: Step) -> None:
            seen[step.kind] += 1
            ours = update.reason if update.times is None else tuple(f32(microseconds(t)) for t in update.times)
            theirs = step.reason if step.kind == "producer_ineligible" else (f32(step.us_fused), f32(step.us_unfused))
            if ours != theirs:
                wrong.append((str(program), step, ours))  # noqa: B023

        def chosen(fusion: PriorityFusion, producer: Node) -> None:
            seen["choice"] += 1
            waiting = [v for node, v in fusion.priorities.items() if v != inf or fusion.consumers_of(node)]
            if fusion.priorities[producer] != max(waiting):
                wrong.append((str(program), producer.name))  # noqa: B023

        follow(program, check, chosen)
    assert wrong == [], seen
    assert min(seen["update_priority"], seen["producer_ineligible"], seen["choice"]) > len(programs())


def test_with_ids_all_fusions_are_those_of_xla() -> None:
    wrong = [
        str(program)
        for program in modeled()
        if program.ids is not None
        and kernels_of(
            gpu_fuse(module_of(program, "before_priority_fusion", has_ids=True), program.chip, passes=PASSES[:1]).module
        )
        != kernels_of(module_of(program, "after_priority_fusion"))
    ]
    assert wrong == []


def test_from_text_fusions_that_differ_are_ties() -> None:
    total = same = 0
    unmarked = []
    for program in modeled():
        fusion = gpu_fuse(module_of(program, "before_priority_fusion"), program.chip, passes=PASSES[:1])
        theirs = kernels_of(module_of(program, "after_priority_fusion"))
        for computation, ours in named_kernels(fusion.module).items():
            left = theirs.get(computation, Counter()).copy()
            for name, kernel in ours:
                is_same = left[kernel] > 0
                left[kernel] -= is_same
                total, same = total + 1, same + is_same
                if not is_same and fusion.certainty[name] == EXACT:
                    unmarked.append((str(program), name))
    assert unmarked == []
    assert same >= 0.97 * total, (same, total)


def test_multi_output_fusions_are_those_of_xla() -> None:
    same: Counter[bool] = Counter()
    of_changed: Counter[bool] = Counter()
    for program in programs():
        before = module_of(program, "before_multi_output_fusion")
        theirs = kernels_of(module_of(program, "after_multi_output_fusion"))
        is_same = kernels_of(gpu_fuse(before, program.chip, passes=PASSES[1:]).module) == theirs
        same[is_same] += 1
        if kernels_of(before) != theirs:
            of_changed[is_same] += 1
    assert same[False] <= max(FEW, 0.02 * same.total()), same
    assert of_changed[False] <= max(FEW, 0.05 * of_changed.total()), of_changed


@pytest.mark.parametrize("has_ids", [True, False], ids=["with ids", "from text"])
def test_both_passes_together_fuse_as_xla_does(has_ids: bool) -> None:
    same: Counter[bool] = Counter()
    for program in modeled():
        if not has_ids or program.ids is not None:
            module = module_of(program, "before_priority_fusion", has_ids=has_ids)
            ours = kernels_of(gpu_fuse(module, program.chip, passes=BOTH).module)
            same[ours == kernels_of(module_of(program, "after_multi_output_fusion"))] += 1
    assert same[False] <= max(FEW, (0.02 if has_ids else 0.05) * same.total()), same
