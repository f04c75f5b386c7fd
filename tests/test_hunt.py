"""The hunter: alarms of XLA and of ours are told apart, and a slice of its programs has none of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_cli import parse_module, run
from hunt import hunt, judge

TEXT = "HloModule m, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] tanh(p) }\n"
WRONG = TEXT.replace("tanh", "cosine")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "executed", "kind"),
    [
        ((TEXT, TEXT), TEXT, "same"),
        ((TEXT, WRONG), WRONG, "xla"),
        ((TEXT, WRONG), TEXT, "ours"),
        ((TEXT, TEXT), WRONG, "ours"),
    ],
)
def test_who_is_wrong_is_seen_from_what_xla_computes(
    texts: tuple[str, str], executed: str, kind: str, tmp_path: Path
) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    names = ("before_optimizations", "0001.simplification.after_algsimp.before_dce", "cpu_after_optimizations")
    for name, text in zip(names, (*texts, texts[-1]), strict=True):
        (dumps / f"module_0001.jit_f.{name}.txt").write_text(text)
    argument = np.array([0.5, 1, 2, 3], np.float32)
    np.save(tmp_path / "arg0.npy", argument)
    np.save(tmp_path / "result0.npy", np.asarray(run(parse_module(executed), [argument]).result))
    assert judge(tmp_path, 0, "fused").kind == kind


@pytest.mark.oracle
@pytest.mark.slow
def test_a_slice_of_the_hunt_has_no_alarm_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    found = list(hunt(3, "cpu", tmp_path, seconds=300, most=4))
    assert len(found) == 4
    assert [each for each in found if each.kind in ("ours", "crash")] == []
    assert sum(each.kind == "same" for each in found) >= 2
