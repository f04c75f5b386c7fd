"""`hlo bisect`: passes, changes, flags, and versions that make a module fail, each with a cause that is known."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

import hlo_cli
import in_process
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.subsets import changes_between, first_failing, smallest_failing
from test_reduce import BAD, GOOD

EDITED = BAD.replace("constant(0)", "constant(1)").replace("ROOT r = f32[4] log(s)", "ROOT r = f32[4] sine(s)")
PASSES = [("start", GOOD), ("dce", GOOD.replace("  w = f32[4] multiply(s, s)\n", "")), ("algsimp", BAD), ("end", BAD)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("good", GOOD), ("bad", BAD), ("edited", EDITED)):
        (tmp_path / f"{name}.hlo").write_text(text)
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for number, (name, text) in enumerate(PASSES):
        (dumps / f"module_0001.jit_f.cpu.{number:04}.pipeline.after_{name}.before_end.txt").write_text(text)
    return tmp_path


def bisect(folder: Path, *arguments: str, code: int = 0) -> dict[str, object]:
    """The answer as JSON; of an error its message."""
    out, err, found = in_process.run(["bisect", *arguments, "--json"], folder=folder, settings={})
    assert found == code, err
    content = json.loads(out)
    answer: dict[str, object] = content["answer"] if code == 0 else content["errors"][0]
    return {**answer, "tables": content.get("tables")}


# --- the searches ---


@pytest.mark.parametrize("count", [2, 3, 8, 21])
def test_the_first_that_fails_is_found_past_those_of_unknown_verdict(count: int) -> None:
    for first in range(1, count):
        for unknown in [(), *combinations(range(1, count - 1), 2)][:40]:
            asked: list[int] = []

            def fails(
                at: int, first: int = first, unknown: Sequence[int] = unknown, asked: list[int] = asked
            ) -> bool | None:
                asked.append(at)
                return None if at in unknown else at >= first

            found = first_failing(count, fails)
            assert found is not None
            good, bad = found
            assert good < first <= bad
            assert all(at in unknown for at in range(good + 1, bad))
            assert len(asked) == len(set(asked)) <= 2 + count.bit_length() + len(unknown)


def test_nothing_is_found_where_nothing_changes() -> None:
    assert first_failing(4, lambda at: False) is None
    assert first_failing(4, lambda at: True) is None
    assert first_failing(4, lambda at: None) is None


def test_each_smallest_set_is_found_and_is_minimal() -> None:
    for size in (1, 2, 3):
        for needed in list(combinations(range(12), size))[::7]:
            asked: list[tuple[int, ...]] = []

            def fails(
                some: Sequence[int], needed: Sequence[int] = needed, asked: list[tuple[int, ...]] = asked
            ) -> bool:
                asked.append(tuple(some))
                return set(needed) <= set(some)

            assert smallest_failing(range(12), fails) == (needed, True)
            assert len(asked) < 12 * 12
    assert smallest_failing(range(5), lambda some: True) == ((), True)
    assert smallest_failing(range(5), lambda some: True, lambda: True) == (tuple(range(5)), False)


def test_all_changes_make_the_new_module_and_none_the_old_one() -> None:
    old, new = map(hlo_cli.parse_module, (GOOD, EDITED))
    changes = changes_between(old, new)
    for chosen, expected in (((), old), (changes.all, new)):
        draft = changes.applied(chosen)
        assert draft is not None
        made, other = (hlo_cli.parse_module(each.to_string()) for each in (draft, draft_of(expected)))
        assert hlo_cli.diff(made, other).is_same_program


# --- passes ---


@pytest.mark.parametrize(
    "options",
    [(), ("--against", "good.hlo"), ("--check", "grep -q cosine {} && exit 7"), ("--every",), ("--passes",)],
)
def test_the_pass_that_changes_results_is_found(folder: Path, options: tuple[str, ...]) -> None:
    found = bisect(folder, "dumps", *options)
    assert (found["pass"], found["dumps"]) == ("algsimp", 4)
    assert str(found["last_passing"]).endswith("after_dce.before_end")
    assert found["checked"] == 4


def test_a_real_fault_of_xla_is_found() -> None:
    """jaxlib 0.10.2 itself computes this product with an error of 26.6."""
    found = bisect(Path(__file__).parent / "data", "mesh3d")
    assert (found["pass"], found["failure"]) == ("spmd-partitioning", "computes other results than the first dump")


def test_a_module_that_passes_again_is_noted(folder: Path) -> None:
    (folder / "dumps/module_0001.jit_f.cpu.0004.pipeline.after_undo.before_end.txt").write_text(GOOD)
    (folder / "dumps/module_0001.jit_f.cpu.0005.pipeline.after_again.before_end.txt").write_text(BAD)
    _, err, code = in_process.run(["bisect", "dumps", "--every"], folder=folder, settings={})
    assert code == 0
    assert "passes again after undo" in err
    assert bisect(folder, "dumps", "--every")["pass"] == "algsimp"


def test_a_dump_that_a_command_cannot_judge_is_passed_by(folder: Path) -> None:
    check = "grep -q multiply {} && exit 0; grep -q cosine {} && exit 7; exit 125"
    for name, text in (("0001.pipeline.after_dce", PASSES[1][1]), ("0002.pipeline.after_algsimp", PASSES[1][1])):
        (folder / f"dumps/module_0001.jit_f.cpu.{name}.before_end.txt").write_text(text)
    last = folder / "dumps/module_0001.jit_f.cpu.0003.pipeline.after_end.before_end.txt"
    last.write_text(BAD.replace("multiply", "add"))
    out, _, code = in_process.run(
        ["bisect", "dumps", "--check", check, "--format", "screen"], folder=folder, settings={}
    )
    assert code == 0
    assert "and not after start; 2 dumps cannot be judged" in out.replace("\n", " ")


# --- changes ---


def test_the_change_that_matters_is_found(folder: Path) -> None:
    found = bisect(folder, "good.hlo", "edited.hlo", "--check", "grep -q cosine {} && exit 7")
    assert (found["changes"], found["needed"], found["minimal"]) == (3, 1, True)
    text = str(found["module"])
    assert "cosine" in text
    assert "log(%s)" in text
    assert "constant(0)" in text


def test_changes_that_only_matter_together_are_found(folder: Path) -> None:
    check = "grep -q constant.1. {} && grep -q sine {} && exit 7"
    found = bisect(folder, "good.hlo", "edited.hlo", "--check", check)
    assert (found["changes"], found["needed"]) == (3, 2)
    table = found["tables"]
    assert isinstance(table, dict)
    assert [row["instruction"] for row in table["changes"]["rows"]] == ["o", "r"]


def test_results_are_compared_without_another_failure(folder: Path) -> None:
    found = bisect(folder, "good.hlo", "bad.hlo")
    assert (found["needed"], found["failure"]) == (1, "computes other results than good.hlo")


# --- flags and versions ---


def test_flags_of_a_dump_are_searched_without_defaults(folder: Path) -> None:
    dump = folder / "dump"
    dump.mkdir()
    (dump / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(GOOD)
    text = 'xla_dump_to: "x"\nxla_allow_excess_precision: true\nxla_cpu_enable_fast_math: true\nxla_gpu_autotune_level: 2\n'
    (dump / "module_0001.jit_f.debug_options").write_text(text)
    check = 'test -s {} && case "$XLA_FLAGS" in *fast_math=true*) exit 5;; esac'
    found = bisect(folder, "good.hlo", "--flags", "dump", "--check", check)
    assert (found["flags"], found["omitted"], found["needed"]) == (2, 2, 1)


def test_flags_of_libtpu_have_their_own_variable(folder: Path) -> None:
    check = 'test "$LIBTPU_INIT_ARGS" = --xla_tpu_spmd_threshold_for_allgather_cse=9 && test -z "$XLA_FLAGS" && exit 5; exit 0'
    flags = "--xla_tpu_spmd_threshold_for_allgather_cse=9"
    assert bisect(folder, "--flags", flags, "--check", check)["needed"] == 1


def environments(folder: Path, *versions: str) -> list[str]:
    """Virtual environments whose `python` prints its version of jaxlib."""
    for version in versions:
        (folder / version / "bin").mkdir(parents=True)
        (folder / version / f"lib/python3.12/site-packages/jaxlib-{version}.dist-info").mkdir(parents=True)
        (folder / version / "bin/python").write_text(f"#!/bin/sh\necho {version}\n")
        os.chmod(folder / version / "bin/python", 0o755)
    return [word for version in versions for word in ("--python", version)]


@pytest.mark.parametrize(
    ("pattern", "first", "monotone"),
    [("^0.1", "jaxlib 0.10.2", True), ("^0.9", "jaxlib 0.9.1", False), ("^0", "jaxlib 0.9.1", True)],
)
def test_versions_are_tried_in_their_order(folder: Path, pattern: str, first: str, *, monotone: bool) -> None:
    given = environments(folder, "0.10.2", "0.9.1", "0.11.0")
    found = bisect(folder, *given, "--check", "python", "--matching", pattern)
    assert (found["first_failing"], found["monotone"], found["versions"]) == (first, monotone, 3)


# --- limits and errors ---


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected a directory of per-pass dumps, or two modules"),
        (("good.hlo",), "expected a directory of per-pass dumps, or two modules"),
        (("good.hlo", "--passes"), "--passes requires a directory of per-pass dumps"),
        (("good.hlo", "good.hlo"), "no instruction differs between the two modules: there is nothing to look for"),
        (("good.hlo", "bad.hlo", "--check", "true"), "the command succeeds: there is nothing to look for"),
        (("good.hlo", "bad.hlo", "--check", "false"), "good.hlo fails already: there is nothing to look for"),
        (("good.hlo", "bad.hlo", "--every"), "--every requires per-pass dumps"),
        (("dumps", "--oom", "1"), "after_start.before_end, fails already"),
        (("--flags", "--xla_a=1"), "--flags requires --check"),
        (("--flags", "--xla_a=1", "--check", "false"), "the command fails without flags too"),
        (("--flags", "--xla_a=1", "--check", "false {}"), "{} in --check requires INPUT"),
        (("--flags", "good.hlo", "--check", "false"), "no flags found in good.hlo"),
        (("--flags", "--xla_dump_to=1", "--check", "false"), "no flag differs from its default"),
        (("--python", "dumps", "--check", "false"), "dumps is not a virtual environment"),
        (("--python", "dumps", "--flags", "--xla_a", "--check", "false"), "cannot be used with"),
        (("good.hlo", "bad.hlo", "--args", "x.npz", "--check", "false"), "cannot be used with"),
    ],
)
def test_what_cannot_be_searched_is_an_error(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in str(bisect(folder, *arguments, code=2)["message"])


def test_a_stopped_search_goes_on(folder: Path) -> None:
    """What a stopped search knows is not asked again; at the end, its directory is gone."""
    log = folder / "log"
    check = f"echo x >> {log}; grep -q constant.1. {{}} && grep -q sine {{}} && exit 7"
    options = ("good.hlo", "edited.hlo", "--check", check, "--resume", "kept")
    stopped = bisect(folder, *options, "--max-seconds", "0")
    assert stopped["minimal"] is False
    ran = len(log.read_text().split())
    found = bisect(folder, *options)
    assert (found["needed"], found["minimal"]) == (2, True)
    # Whether both modules fail is asked anew, what was known of all changes is not.
    assert len(log.read_text().split()) - ran == 2 + int(str(found["checks"])) - 1
    assert not (folder / "kept.part").exists()
