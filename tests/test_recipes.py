"""The assertions of `hlo help recipes`: each holds of one compiled program, and fails for another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from expecting import judged, stated
from hlo_cli import load, memory_analysis
from hlo_cli.analysis.query.assertions import AssertionResult, check_assertions, golden_values
from hlo_cli.commands.help.catalog import source_of
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "fixtures" / "recipes"
RECIPES = {
    "no_gather": "none(opcode == all-gather)",
    "one_gradient_all_reduce": "count(collectives) == 1",
    "only_all_reduce": "count(collectives) == count(opcode == all-reduce)",
    "experts": "count(opcode == all-to-all) == 2",
    "reduced_bytes": "sum(padded_bytes, opcode == all-reduce) == 4KiB",
    "scatter_of_gradients": "count(opcode == reduce-scatter) == 1",
    "no_communication": "none(collective)",
    "transpose_of_shards": "exists(opcode == all-to-all)",
    "collective_matmul": "sum(trips, opcode == collective-permute) == 8",
    "overlapped_gathers": "sum(unoverlapped_bytes, collective) <= 70% * sum(padded_bytes, opcode == all-gather)",
    "donated_state": "count(donated) == 2",
    "cache_in_place": 'none(of_argument(~"cache") and opcode == copy)',
    "weights_from_host": "count(host_transfer and async) == 2",
    "recomputed": "exists(rematerialized)",
    "saved_dots": "none(product and rematerialized)",
    "one_loop": "count(opcode == while) == 1",
    "no_double_precision": "none(dtype == f64)",
    "quantized_matmul": "none(product and dtype in (f32, bf16))",
    "one_kernel": "count(kernels) == 1",
    "custom_kernel": "count(custom_call_target == tpu_custom_call) == 2",
    "library_decomposition": "sum(trips, library) == 1",
    "top_k_without_sort": "none(opcode == sort)",
    "no_callback": "none(host_transfer)",
    "same_program": "sum(flops, kernel) == golden",
}
"""Assertions by their programs in fixtures/recipes.py."""


def verdict(folder: Path, name: str, kind: str) -> AssertionResult:
    """The result for one of the two programs; the golden one is that which meets the assertion."""
    listed = stated(RECIPES[name])
    module, golden = (load(folder / f"{name}.{each}.txt") for each in (kind, "meets"))
    values = golden_values(golden, listed, attributes=ATTRIBUTE_NAMES, memory=lambda: memory_analysis(golden))
    [result] = check_assertions(
        module, listed, attributes=ATTRIBUTE_NAMES, memory=lambda: memory_analysis(module), golden=values
    )
    return result


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_holds_of_one_program_and_fails_for_another(name: str) -> None:
    met, violated = (verdict(FOLDER, name, kind) for kind in ("meets", "violates"))
    assert (met.is_met, violated.is_met) == (True, False)
    assert not any((each.cautions, each.lowered_forms, each.unmatched) != ((), (), ()) for each in (met, violated))


def test_the_page_has_all_recipes() -> None:
    rows = re.findall(r"(?m)^\| `(.+?)` \| ", source_of("recipes"))
    assert sorted(rows) == sorted(RECIPES.values())
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{kind}.txt" for name in RECIPES for kind in ("meets", "violates")
    }


SAMPLE = ["one_gradient_all_reduce", "donated_state", "one_loop"]
OTHERS = [name for name in RECIPES if name not in SAMPLE]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "names", [SAMPLE, *(pytest.param(OTHERS[at::3], marks=pytest.mark.long) for at in range(3))], ids=["sample", *"abc"]
)
def test_recipes_hold_of_programs_compiled_now(names: list[str], tmp_path: Path) -> None:
    """Some of the others are compiled for TPU."""
    pytest.importorskip("jaxlib" if names == SAMPLE else "libtpu")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    script = ROOT / "fixtures" / "recipes.py"
    subprocess.run(
        [sys.executable, str(script), str(tmp_path), *names], check=True, env=environment, capture_output=True
    )
    assert {name: [verdict(tmp_path, name, kind).is_met for kind in ("meets", "violates")] for name in names} == {
        name: [True, False] for name in names
    }


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("seed", range(2))
def test_random_products_are_as_many_in_every_form(platform: str, seed: int, tmp_path: Path) -> None:
    """Dots with any dimensions, which are convolutions on TPU, and convolutions with any window."""
    pytest.importorskip("jaxlib" if platform == "cpu" else "libtpu")
    script = ROOT / "fixtures" / "random_products.py"
    arguments = [platform, str(seed), "16", "6", str(tmp_path)]
    subprocess.run([sys.executable, str(script), *arguments], check=True, capture_output=True)
    for stage in ("before", "after"):
        results = judged(load(tmp_path / f"{stage}.txt"), "count(products) == 22", "count(convolutions) == 6")
        assert [each.found for each in results] == [22, 6], stage
