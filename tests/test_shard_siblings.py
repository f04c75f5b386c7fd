"""The dump of the same program before optimizations, found next to any other dump of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_cli

BEFORE = "HloModule jit_f, num_partitions=2\nENTRY e { ROOT p = f32[8] parameter(0), sharding={devices=[2]<=[2]} }\n"
AFTER = "HloModule jit_f, is_scheduled=true, num_partitions=2\nENTRY e_spmd { ROOT p = f32[4] parameter(0) }\n"
NUMBERED = "module_0007.jit_f"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("before_optimizations.txt", "after_optimizations.txt"),
        (f"{NUMBERED}.before_optimizations.txt", f"{NUMBERED}.cpu_after_optimizations.txt"),
        (f"{NUMBERED}.before_optimizations.txt", f"{NUMBERED}.sm_9.0_gpu_after_optimizations.txt"),
        (f"{NUMBERED}.before_optimizations.txt", f"{NUMBERED}.0042.spmd.after_a.before_b.txt"),
        (f"{NUMBERED}.before_optimizations.txt", f"passes/{NUMBERED}.0042.spmd.after_a.before_b.txt"),
    ],
)
def test_the_program_is_found(tmp_path: Path, before: str, after: str) -> None:
    for name, text in ((before, BEFORE), (after, AFTER)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    module = hlo_cli.load(tmp_path / after)
    assert module.program is not None
    assert str(module.program.entry.root.sharding) == "{devices=[2]<=[2]}" if module.program.entry.root else False
    assert hlo_cli.load(tmp_path / before).program is None


def test_the_program_of_another_module_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_g.before_optimizations.txt").write_text(BEFORE)
    (tmp_path / f"{NUMBERED}.cpu_after_optimizations.txt").write_text(AFTER)
    assert hlo_cli.load(tmp_path / f"{NUMBERED}.cpu_after_optimizations.txt").program is None


def test_an_unreadable_program_is_none(tmp_path: Path) -> None:
    (tmp_path / "before_optimizations.txt").write_bytes(b"\0\1\2")
    (tmp_path / "after_optimizations.txt").write_text(AFTER)
    assert hlo_cli.load(tmp_path / "after_optimizations.txt").program is None
