"""Every question that Python can ask of a module has an answer, or an error with a message, for what nobody compiles."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

import hlo_cli as hlo
from hlo_cli import HloError, Module
from hlo_cli.analysis.evaluate.limits import work_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.fusion.unfused_pairs import unfused_pairs
from hlo_cli.analysis.origin.origins import origins_of
from odd_instructions import odd_text
from test_lint_strange import ALL_CASES, STRANGE, case_text

LIMITS = Limits(1 << 20, 10_000, 100, 1.0)
FILTERS = ("flops > 0 or bytes > 0", "padding > 0.1 or scope == 'a'", "users == 0 or depth > 1")
QUESTIONS: dict[str, Callable[[Module], object]] = {
    "cost": lambda module: (hlo.module_cost(module), list(hlo.cost_analysis(module).values())),
    "memory": lambda module: [(space.peak_bytes, space.totals) for space in hlo.memory_analysis(module).spaces],
    "overlap": hlo.analyze_overlap,
    "time": lambda module: hlo.estimate_time(module, hlo.chip_spec("v5e")),
    "kernels": lambda module: (hlo.kernels_of(module), hlo.fusions_of(module), hlo.matmuls_of(module)),
    "calls": lambda module: (hlo.custom_calls_of(module), hlo.collectives_of(module)),
    "rules": lambda module: (list(hlo.verify_async(module)), list(hlo.verify_fusions(module))),
    "shapes": lambda module: list(map(hlo.infer_shape, module.instructions)),
    "forms": lambda module: list(map(str, (hlo.normalize(module), hlo.sugar(module), hlo.desugar(module)))),
    "origins": lambda module: list(map(origins_of(module).of, module.instructions)),
    "fuse": lambda module: (hlo.fuse(module), unfused_pairs(module)),
    "unfuse": hlo.unfuse,
    "reorder": lambda module: hlo.reorder(module, "latency"),
    "work": lambda module: list(map(work_of, module.instructions)),
    "run": lambda module: hlo.run(module, limits=LIMITS),
    "where": lambda module: list(map(module.where, FILTERS)),
    "extract": lambda module: [hlo.extract(module, each) for each in module.entry.instructions],
}
ODD = [odd_text(Random(seed)) for seed in range(12)]
TEXTS = {
    "odd instructions": ODD,
    **{
        name: [change(case_text(case)) for case in ALL_CASES[at::36]]
        for at, (name, change) in enumerate(STRANGE.items())
    },
}


@pytest.mark.parametrize("strange", TEXTS)
def test_each_question_has_an_answer_or_an_error(strange: str) -> None:
    for text in TEXTS[strange]:
        module = hlo.parse_module(text)
        for question in QUESTIONS.values():
            with suppress(HloError):
                question(module)
        assert hlo.diff(module, module).is_empty
