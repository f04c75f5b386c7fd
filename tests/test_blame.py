"""Who is accused of a difference on several devices: the collective, the slice, or the missing sum, and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, Module, cli, compare_runs, parse_module
from hlo_cli.analysis.comparison.fingerprints import Prints, combined
from hlo_cli.analysis.comparison.two_runs import RunComparison
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Array, Value
from hlo_cli.analysis.sharding.meshes import device_groups, devices_of
from share import every

PROGRAMS = Path(__file__).parent / "blamed_programs.py"
WHOLE = """HloModule jit_run, entry_computation_layout={(f32[32,48]{1,0}, f32[48,64]{1,0})->f32[32,64]{1,0}}, allow_spmd_sharding_propagation_to_parameters={false,false}, allow_spmd_sharding_propagation_to_output={true}, num_partitions=8
ENTRY %main.0 (a.0: f32[32,48], b.0: f32[48,64]) -> f32[32,64] {
  %a.0 = f32[32,48]{1,0} parameter(0), sharding={devices=[2,2,2]<=[8] last_tile_dim_replicate}
  %b.0 = f32[48,64]{1,0} parameter(1), sharding={devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  %dot_general.0 = f32[32,64]{1,0} dot(%a.0, %b.0), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,2]<=[2,2,2]T(0,2,1)}
  ROOT %sharding_constraint.0 = f32[32,64]{1,0} copy(%dot_general.0), sharding={devices=[4,2]<=[2,2,2]T(0,2,1)}
}
"""
"""A product before the partitioner of jaxlib 0.10.2: `blamed_programs.py product`, without metadata."""
WRONG = """HloModule jit_run, entry_computation_layout={(f32[16,24]{1,0}, f32[24,32]{1,0})->f32[8,32]{1,0}}, allow_spmd_sharding_propagation_to_parameters={false,false}, allow_spmd_sharding_propagation_to_output={true}, num_partitions=8
%add.clone (x.1: f32[], y.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0)
  %y.1 = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%x.1, %y.1)
}
ENTRY %main.0_spmd (param: f32[16,24], param.1: f32[24,32]) -> f32[8,32] {
  %param = f32[16,24]{1,0} parameter(0), sharding={devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}
  %constant.6 = s32[4]{0} constant({0, 16, 8, 24})
  %constant.2 = u32[8]{0} constant({0, 2, 0, 2, 1, 3, 1, 3})
  %partition-id = u32[] partition-id()
  %dynamic-slice = u32[1]{0} dynamic-slice(%constant.2, %partition-id), dynamic_slice_sizes={1}
  %reshape = u32[] reshape(%dynamic-slice)
  %dynamic-slice.2 = s32[1]{0} dynamic-slice(%constant.6, %reshape), dynamic_slice_sizes={1}
  %reshape.2 = s32[] reshape(%dynamic-slice.2)
  %constant.8 = s32[4]{0} constant({0, 16, 0, 16})
  %dynamic-slice.3 = s32[1]{0} dynamic-slice(%constant.8, %reshape), dynamic_slice_sizes={1}
  %reshape.3 = s32[] reshape(%dynamic-slice.3)
  %subtract = s32[] subtract(%reshape.2, %reshape.3)
  %constant.7 = s32[] constant(0)
  %subtract.1 = s32[] subtract(%constant.7, %constant.7)
  %dynamic-slice.4 = f32[8,24]{1,0} dynamic-slice(%param, %subtract, %subtract.1), dynamic_slice_sizes={8,24}
  %collective-permute = f32[8,24]{1,0} collective-permute(%dynamic-slice.4), channel_id=1, source_target_pairs={{0,0},{1,4},{4,1},{5,5},{2,2},{3,6},{6,3},{7,7}}
  %param.1 = f32[24,32]{1,0} parameter(1), sharding={devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  %all-gather = f32[24,64]{1,0} all-gather(%param.1), channel_id=2, replica_groups=[4,2]<=[2,2,2]T(1,0,2), dimensions={1}, use_global_device_ids=true
  %dot = f32[8,64]{1,0} dot(%collective-permute, %all-gather), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %all-reduce = f32[8,64]{1,0} all-reduce(%dot), channel_id=3, replica_groups=mesh['axis_0'=4,'axis_1'=2], device_ids=([2,2,2]T(0,2,1)) {'axis_1'}, use_global_device_ids=true, to_apply=%add.clone
  %constant.12 = s32[2]{0} constant({0, 32})
  %constant.10 = u32[8]{0} constant({0, 0, 1, 1, 0, 0, 1, 1})
  %dynamic-slice.5 = u32[1]{0} dynamic-slice(%constant.10, %partition-id), dynamic_slice_sizes={1}
  %reshape.4 = u32[] reshape(%dynamic-slice.5)
  %dynamic-slice.6 = s32[1]{0} dynamic-slice(%constant.12, %reshape.4), dynamic_slice_sizes={1}
  %reshape.5 = s32[] reshape(%dynamic-slice.6)
  %dynamic-slice.7 = f32[8,32]{1,0} dynamic-slice(%all-reduce, %constant.7, %reshape.5), dynamic_slice_sizes={8,32}
  ROOT %sharding_constraint.2 = f32[8,32]{1,0} copy(%dynamic-slice.7)
}
"""
"""The same after it, which computes something else: the permute exchanges rows that are where they belong."""
PERMUTED = "dot(%collective-permute, "
REDUCED = re.findall(r"all-reduce\(.*", WRONG)[0]
RIGHT = WRONG.replace(PERMUTED, "dot(%dynamic-slice.4, ")


def compared(old: str, new: str) -> RunComparison:
    return compare_runs(parse_module(old), parse_module(new))


# --- a miscompile of jaxlib ---


def test_a_miscompile_is_named_by_its_collective() -> None:
    found = compared(WHOLE, WRONG)
    assert found.verdict == "different"
    assert found.first_difference is not None
    assert found.first_difference.instruction.opcode == "collective-permute"
    assert (found.first_difference.evidence, found.first_difference.repair) == ("repair", "no exchange")
    assert compared(WHOLE, RIGHT).is_same


def test_passes_name_the_pass_and_its_collective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = ("0003.spmd-partitioner.after_shardy-xla.before_spmd-partitioning", WHOLE), (
        "0007.spmd-partitioner.after_spmd-partitioning.before_control-dep-rewriter", WRONG,
    )  # fmt: skip
    for stage, text in stages:
        (tmp_path / f"module_0000.jit_run.{stage}.txt").write_text(text)
    assert cli.main(["run", str(tmp_path), "--passes"], standalone=False) == 1
    capsys.readouterr()
    assert cli.main(["run", str(tmp_path), "--passes", "--json"], standalone=False) == 1
    report = json.loads(capsys.readouterr().out)
    assert [row["pass"] for row in report["tables"]["passes"]["rows"]] == ["spmd-partitioning"]
    assert report["answer"]["first_difference"]["instruction"] == "collective-permute"


# --- planted errors in a partitioned program ---


@pytest.mark.parametrize(
    ("old", "new", "name", "repair"),
    [
        ("{'axis_1'}", "{'axis_0'}", "all-reduce", "replica_groups={{0,2},{1,3},{4,6},{5,7}}"),
        ("<=[2,2,2]T(1,0,2)", "<=[2,2,2]T(1,2,0)", "all-gather", "replica_groups={{0,1},{2,3},{4,5},{6,7}}"),
        ("{0, 0, 1, 1, 0, 0, 1, 1}", "{0, 1, 0, 1, 0, 1, 0, 1}", "dynamic-slice.7", "start {0,0,32,32,0,0,32,32}"),
        ("{0, 16, 0, 16}", "{0, 16, 8, 24}", "dynamic-slice.4", "start {0,8,0,8,0,8,0,8}"),
        (REDUCED, "copy(%dot)", "dot",
         "an all-reduce over {{0,2},{1,3},{4,6},{5,7}} after it"),
    ],
)  # fmt: skip
def test_planted_errors_are_named_by_what_moves_data(old: str, new: str, name: str, repair: str) -> None:
    assert old in RIGHT
    found = compared(WHOLE, RIGHT.replace(old, new))
    assert not found.is_same
    assert found.first_difference is not None
    assert found.first_difference.instruction.name == name
    assert found.first_difference.evidence == "repair"
    assert found.first_difference.repair.startswith(repair)


def test_the_number_of_a_device_is_never_accused() -> None:
    """The table of places is wrong twice, so that no other form of one instruction helps."""
    wrong = RIGHT.replace("{0, 0, 1, 1, 0, 0, 1, 1}", "{0, 0, 0, 1, 0, 0, 1, 1}").replace(
        "{0, 16, 8, 24}", "{8, 16, 8, 0}"
    )
    found = compared(WHOLE, wrong)
    assert found.verdict == "different"
    assert found.first_difference is None


# --- values of all devices together ---


def test_parts_have_the_fingerprint_of_the_whole() -> None:
    prints, whole = Prints(), np.random.default_rng(0).standard_normal((8, 6))
    parts = [prints.numbers_of(part) for half in np.split(whole, 2) for part in np.split(half, 3, 1)]
    assert prints.print_of(combined(parts)).free == prints.of(whole).free
    twice = combined([*parts, *parts])
    assert prints.print_of(twice).free != prints.of(whole).free
    assert prints.print_of(twice.divided(2)).free == prints.of(whole).free


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([3, -3, 1, -1], [3, -3, 1, 1]),  # other sums only
        ([5, -5, 2, -1, -1], [5, -5, 3**0.5, -(3**0.5), 0]),  # sums of magnitudes
        ([3, -3, 2, -2, 0, 0], [3, -3, 1, 1, -1, -1]),  # sums of squares
        ([2, -1, -1, -2], [-2, 1, 1, -2]),  # the largest element
        ([-2, 1, 1, 2], [2, -1, -1, 2]),  # the least
        ([1, 1, np.inf], [1, 1, np.nan]),
        ([1, 1], [1, 1, 0]),
    ],
)
def test_arrays_that_differ_in_one_of_their_numbers_have_other_fingerprints(
    one: list[float], other: list[float]
) -> None:
    prints = Prints()
    assert prints.of(np.array(one, float)).free != prints.of(np.array(other, float)).free
    assert prints.of(np.array(one, float)[::-1]).free == prints.of(np.array(one, float)).free
    assert prints.of(np.array(one, float) * (1 + 1e-9)).free == prints.of(np.array(one, float)).free


def test_an_array_of_one_number_has_the_fingerprint_of_its_elements() -> None:
    prints = Prints()
    for number in (2.5, 0.0, -1e100):
        spread = np.broadcast_to(np.float64(number), (4, 3))
        assert prints.of(spread) == prints.of(spread.copy())


def test_weights_that_all_devices_have_are_computed_with_once() -> None:
    text = """HloModule m, num_partitions=4
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e_spmd { w = f32[8] parameter(0), sharding={replicated}  x = f32[2] parameter(1), sharding={devices=[4]<=[4]}
      d = f32[8] cosine(w)  y = f32[2] slice(d), slice={[0:2]}  z = f32[2] multiply(x, y)
      ROOT r = f32[2] all-reduce(z), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add }"""
    module, seen = parse_module(text), dict[str, set[int]]()

    def observe(instruction: object, device: int, value: object, operands: object) -> None:
        seen.setdefault(str(instruction), set()).add(id(value))
        kept.append(value)

    kept: list[object] = []
    run(module, observe=observe)
    assert (len(seen["<cosine d>"]), len(seen["<multiply z>"])) == (1, 4)


# --- programs of jax: no false alarm, and planted errors ---


@cache
def compiled(*names: str) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), *names],
        capture_output=True, text=True, check=True, timeout=600,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
    )  # fmt: skip
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


SAMPLE = {"product": 0, "ring_attention": 2, "tensor_parallel": 1, "pipeline": 2}
"""By name how many errors are planted."""
ALL = (
    "product_sum",
    "product_transposed",
    "ring_attention",
    "data_parallel",
    "fsdp",
    "tensor_parallel",
    "experts",
    "pipeline",
)
GROUPS = re.compile(
    r"replica_groups=(?:\{\{.*?\}\}|\[[^ ]*?\](?:T\([\d,]*\))?(?=,|$)|mesh\[.*?\](?:, device_ids=\(.*?\))? \{.*?\})"
)
PAIRS = re.compile(r"source_target_pairs=\{(\{.*?\})\}")
AXES = (
    ((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 2), (1, 3), (4, 6), (5, 7)), ((0, 4), (1, 5), (2, 6), (3, 7)),
    ((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 2, 4, 6), (1, 3, 5, 7)), ((0, 1, 4, 5), (2, 3, 6, 7)),
)  # fmt: skip


def braces(lists: Iterator[tuple[int, ...]]) -> str:
    return "{" + ",".join(str(each).replace("(", "{").replace(")", "}").replace(" ", "") for each in lists) + "}"


def planted(module: Module, random: Random) -> Iterator[tuple[str, str, str]]:
    """Other groups, other pairs, and sums that are left out: the kind, the instruction, and the text with the change."""
    text, devices = module.source.text, devices_of(module)
    for each in module.instructions:
        if each.span is None:
            continue
        line = text[each.span.start : text.index("\n", each.span.start)]
        if (groups := GROUPS.search(line)) is not None and len(own := device_groups(each, devices)) > 1:
            others = [
                axes
                for axes in AXES
                if len(axes[0]) == len(own[0]) and set(map(frozenset, axes)) != set(map(frozenset, own))
            ]
            changed = line.replace(groups[0], f"replica_groups={braces(iter(random.choice(others)))}")
            yield "groups", each.name, text.replace(line, changed)
        if (pairs := PAIRS.search(line)) is not None:
            found = [tuple(map(int, pair)) for pair in re.findall(r"\{(\d+),(\d+)\}", pairs[1])]
            a, b = random.sample(range(len(found)), 2)
            found[a], found[b] = (found[a][0], found[b][1]), (found[b][0], found[a][1])
            yield (
                "pairs",
                each.name,
                text.replace(line, line.replace(pairs[0], f"source_target_pairs={braces(iter(found))}")),
            )
        if each.opcode == "all-reduce" and len(each.operands) == 1:
            at = line.index("all-reduce(")
            yield (
                "dropped",
                each.name,
                text.replace(line, line[:at] + "copy(" + line[at + 11 : line.index(")", at) + 1]),
            )


def misnamed(old: str, new: str, count: int) -> tuple[int, int, list[str]]:
    """How many planted errors alter a result, how many of them are named, and those that are called the same, or named
    by something that does not move data and is not the sum that devices do not add up any more.
    """
    reference, random = parse_module(old), Random(0)
    right = parse_module(new)
    right.read_program = lambda: reference
    expected = run(right, floats="widen", limits=Limits()).result
    changes = list(planted(right, random))
    altered, named, wrong = 0, 0, list[str]()
    for kind, name, text in random.sample(changes, len(changes)):
        if altered == count:
            break
        changed = parse_module(text)
        changed.read_program = lambda: reference
        try:
            result = run(changed, floats="widen").result
        except HloError:
            continue
        if all(np.allclose(a, b, atol=1e-9) for a, b in zip(leaves(expected), leaves(result), strict=True)):
            continue
        altered += 1
        found = compare_runs(reference, changed)
        first = found.first_difference
        is_named = first is not None and (
            first.instruction.name == name or first.repair.startswith("an all-reduce over")
        )
        named += is_named
        if found.is_same or (first is not None and not is_named):
            wrong.append(f"{kind} {name}: {found.verdict}, {first and first.instruction}")
    return altered, named, wrong


def leaves(value: Value) -> Iterator[Array]:
    if isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    elif value is not None:
        yield value


@pytest.mark.oracle
@pytest.mark.parametrize("name", every(3, list(SAMPLE)[1:], slow=0))
def test_parallel_programs_are_the_same_and_planted_errors_are_named(name: str) -> None:
    pytest.importorskip("jax")
    texts = compiled(*SAMPLE)[name]
    assert compared(texts["whole"], texts["after"]).is_same
    altered, named, wrong = misnamed(texts["whole"], texts["after"], SAMPLE[name])
    assert wrong == []
    assert named == altered > 0


@pytest.mark.oracle
def test_jaxlib_computes_this_product_wrongly() -> None:
    """A later jaxlib that computes it rightly has to be called the same."""
    jax = pytest.importorskip("jax")
    texts = compiled(*SAMPLE)["product"]
    for old, new in (("whole", "parts"), ("before", "after")):
        found = compared(texts[old], texts[new])
        if jax.__version__ == "0.10.2":
            assert found.first_difference is not None
            assert found.first_difference.instruction.opcode == "collective-permute"
        else:
            assert found.is_same or found.first_difference is not None


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("stage", ["parts", "after"])
@pytest.mark.parametrize("name", ALL[2:])
def test_many_planted_errors_are_named(name: str, stage: str) -> None:
    """Nearly all, and the others are not named by anything else."""
    pytest.importorskip("jax")
    texts = compiled(*ALL)[name]
    assert compared(texts["whole"], texts[stage]).is_same
    altered, named, wrong = misnamed(texts["whole"], texts[stage], 12)
    assert wrong == []
    assert named >= 0.75 * altered
