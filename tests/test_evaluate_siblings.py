"""What a text omits, and the proto or another dump next to it has: values of constants, and places of results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_cli import HloError, compare_runs, load, parse_module, sharding_of
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.syntax.proto.messages import MessageBuilder
from hlo_cli.syntax.proto.write_attributes import sharding_draft
from hlo_cli.syntax.proto.write_module import module_to_bytes

WHOLE = "HloModule m  ENTRY e { p = f32[3] parameter(0)  c = f32[3] constant({1, 2, 3})  ROOT r = f32[3] add(p, c) }"
ELIDED = WHOLE.replace("{1, 2, 3}", "{...}")
ARGUMENT = np.zeros(3, np.float32)


def dump(folder: Path, stage: str, text: str, proto: bytes | None = None) -> None:
    (folder / f"{stage}.txt").write_text(text)
    if proto is not None:
        (folder / f"{stage}.hlo.pb").write_bytes(proto)


def test_omitted_constants_are_those_of_the_proto(tmp_path: Path) -> None:
    dump(tmp_path, "after_optimizations", ELIDED, module_to_bytes(parse_module(WHOLE)))
    assert np.asarray(run(load(tmp_path), [ARGUMENT]).result).tolist() == [1, 2, 3]


def test_omitted_constants_are_those_before_optimizations(tmp_path: Path) -> None:
    dump(tmp_path, "before_optimizations", WHOLE)
    dump(tmp_path, "after_optimizations", ELIDED.replace("f32[3] constant", "f32[3]{0:T(128)} constant"))
    assert np.asarray(run(load(tmp_path), [ARGUMENT]).result).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "other",
    [
        WHOLE.replace("c = ", "d = ").replace("(p, c)", "(p, d)"),
        WHOLE.replace("f32[3] constant({1, 2, 3})", "s32[3] constant({1, 2, 3})"),
    ],
)
def test_constants_of_another_name_or_type_are_not_taken(tmp_path: Path, other: str) -> None:
    dump(tmp_path, "before_optimizations", other)
    dump(tmp_path, "after_optimizations", ELIDED)
    with pytest.raises(HloError, match="the dump omits the values of the constant"):
        run(load(tmp_path), [ARGUMENT])


def test_a_comparison_takes_constants_of_the_other_stage() -> None:
    whole, elided = parse_module(WHOLE), parse_module(ELIDED)
    assert compare_runs(elided, whole).verdict == "identical"
    assert compare_runs(whole, elided).verdict == "identical"
    with pytest.raises(HloError, match="cannot evaluate c: the dump omits"):
        compare_runs(elided, elided)


BEFORE = """HloModule m, num_partitions=2
ENTRY main { p = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}  ROOT r = f32[4,2] negate(p) }"""
AFTER = """HloModule m, num_partitions=2
ENTRY main_spmd { p = f32[2,2] parameter(0), sharding={devices=[2,1]<=[2]}  ROOT r = f32[2,2] negate(p) }"""


@pytest.mark.parametrize(
    ("sharding", "is_known"), [("{devices=[2,1]<=[2]}", True), ("{replicated}", False), ("{devices=[1,2]<=[2]}", False)]
)
def test_places_of_results_are_those_that_the_proto_states(tmp_path: Path, sharding: str, is_known: bool) -> None:
    """A sharding that does not fit the shape of a device is not that of the result."""
    stated = MessageBuilder("HloModuleProto").add("spmd_output_sharding", sharding_draft(sharding_of(sharding)))
    dump(tmp_path, "before_optimizations", BEFORE)
    dump(tmp_path, "after_optimizations", AFTER, module_to_bytes(parse_module(AFTER)) + stated.to_bytes())
    found = compare_runs(load(tmp_path, stage="before_optimizations"), load(tmp_path, stage="after_optimizations"))
    assert found.verdict == ("identical" if is_known else "unknown")


def test_places_of_results_that_nothing_states_are_unknown(tmp_path: Path) -> None:
    dump(tmp_path, "before_optimizations", BEFORE)
    dump(tmp_path, "after_optimizations", AFTER)
    found = compare_runs(load(tmp_path, stage="before_optimizations"), load(tmp_path, stage="after_optimizations"))
    assert found.verdict == "unknown"
