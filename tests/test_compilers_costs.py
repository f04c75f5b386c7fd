"""Costs against what the compilers said of the modules that they compiled.

`HLO_CORPUS=DIR python tests/test_compilers_costs.py` holds the same against all dumps below a folder, and prints counts.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import module_cost
from hlo_cli.analysis.cost.counting import XLA, CostOptions, Number
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.ir.module import Module
from test_witness import CORPUS, platform_of, text_of, truths

_TIMES = "optimal_seconds"  # the TPU compiler knows how fast its chips are
_OTHERWISE = {
    "7x_transformer": "calls of a SparseCore",
    "v4_sorting": "sorts",
    "v5e_collectives": "collectives in fusions",
    "v5e_gathered_weights": "collectives in fusions",
    "v6e_embedding": "calls of a SparseCore",
}
"""The fixtures of which the TPU compiler says something else, and what it counts by rules that are not known."""

Said = dict[str, tuple[Number, Number]]


def differences(module: Module, truth: Path) -> Said | None:
    """Our figures that are not the compiler's, and those; None where it said nothing."""
    said = json.loads(truth.read_text(encoding="utf-8"))["cost_analysis"]
    if not said or platform_of(truth) == "gpu":
        return None
    ours = module_cost(module, rules=rules_for(truth)).properties
    names = sorted({*ours, *said} - ({_TIMES} if platform_of(truth) == "tpu" else set()))
    return {name: pair for name in names if (pair := (ours.get(name, 0), said.get(name, 0)))[0] != pair[1]}


def rules_for(truth: Path) -> CostOptions:
    """The rules of the compiler that wrote a dump, which stood before the constants' bits were lost in a text."""
    if platform_of(truth) == "tpu":
        tpu = find_chip(truth.parent.name.split("_")[0]).tpu
        assert tpu is not None
        alignment = tpu.table_granule
        return CostOptions(
            float32=True,
            minus_one=True,
            known_calls=True,
            padded=True,
            table_alignment=alignment,
            packed_constants=True,
        )
    return replace(XLA, packed_constants=True)


def compared() -> list[tuple[Path, Path]]:
    """The compiled modules whose compiler has said what they cost."""
    pairs = [pair for pair in truths(CORPUS) if platform_of(pair[0]) != "gpu"]
    return [pair for pair in pairs if json.loads(pair[0].read_text(encoding="utf-8"))["cost_analysis"]]


def _name(path: Path) -> str:
    return path.parent.name


each_truth = pytest.mark.parametrize(("truth", "text"), compared(), ids=lambda path: _name(path))


@each_truth
def test_the_compilers_count_as_we_do(truth: Path, text: Path) -> None:
    found = differences(parse_module(text_of(text)), truth)
    assert bool(found) == (_name(truth) in _OTHERWISE and platform_of(truth) == "tpu"), found


@each_truth
def test_what_is_counted_otherwise_is_not_the_arithmetic(truth: Path, text: Path) -> None:
    found = differences(parse_module(text_of(text)), truth) or {}
    assert "transcendentals" not in found
    assert "flops" not in found or _OTHERWISE[_name(truth)] == "sorts"


def main() -> int:
    """Print of how many modules every figure is the compiler's, and of how many each of the sums."""
    counts: Counter[str] = Counter()
    for truth, text in compared():
        found, platform = differences(parse_module(text_of(text)), truth) or {}, platform_of(truth)
        counts[f"{platform}: modules"] += 1
        counts[f"{platform}: all figures"] += not found
        for name in ("flops", "transcendentals", "bytes accessed"):
            counts[f"{platform}: {name}"] += name not in found
        if found:
            print(f"{platform}/{_name(truth)}: {len(found)} differ; {dict(list(found.items())[:2])}")
    for what, count in sorted(counts.items()):
        print(f"{count:>6} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
