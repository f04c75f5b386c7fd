"""Snapshots that XLA:CPU wrote of jit(lambda m, x, n, h: (where(m, x @ x.T, 0.5)[:2], n + 1, h * 2)), and of an MLP.

The values are those that jax 0.10.2 printed: seed 0 of numpy, m = random((3, 3)) < 0.5, x and h standard normal.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hlo_cli import cli
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.read_snapshot import read_snapshot

SNAPSHOTS = Path(__file__).parent / "data" / "snapshots"
SCHEDULED = SNAPSHOTS / "module_0002.jit_f.snapshot.1160036981.pb"
UNOPTIMIZED = SNAPSHOTS / "module_0002.jit_f.execution_0000.hlo_unoptimized_snapshot.pb"
DELIMITED = SNAPSHOTS / "delimited.hlo_unoptimized_snapshot.pb"
RESULTS: tuple[list[float], ...] = (
    [0.5, -0.53539866, 1.76735508, -0.53539866],
    [1, 2, 3, 4],
    [-0.6328125, 0.82421875, 2.078125],
)


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of `hlo run`, and what it writes to both streams, on one line."""
    code = cli.main(["run", *arguments, "--format", "screen"], standalone=False)
    written = capsys.readouterr()
    return code, " ".join(f"{written.out} {written.err}".split())


@pytest.mark.parametrize("path", [SCHEDULED, UNOPTIMIZED])
def test_a_snapshot_runs_with_its_own_arguments(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(str(path), capsys=capsys)
    assert code == 0
    assert "the arguments are those in the snapshot" in text
    assert "random arguments" not in text
    cli.main(["run", str(path), "-o", str(tmp_path / "r.npz")], standalone=False)
    with np.load(tmp_path / "r.npz") as saved:
        for at, expected in enumerate(RESULTS):
            values = saved[f"result_{at}"].astype(np.float64).ravel()[: len(expected)]
            assert values == pytest.approx(expected, rel=1e-6)


def test_the_recorded_result_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(str(SCHEDULED), capsys=capsys)
    assert "the result in the snapshot differs by at most 6.7e-08 of its largest magnitude" in text
    assert "the result in the snapshot" not in run(str(UNOPTIMIZED), capsys=capsys)[1]


def test_arguments_behind_a_delimited_message_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    found = read_snapshot(DELIMITED.read_bytes())
    assert found is not None
    assert [str(each.shape) for each in found.arguments] == ["f32[32,64]{1,0}", "f32[64]{0}", "f32[8,32]{1,0}"]
    assert run(str(DELIMITED), capsys=capsys)[1].count(" 33 33 33") > 0  # 1 + the sum of 32 ones


def test_a_seed_makes_up_others(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(str(SCHEDULED), "--seed", "0", capsys=capsys)
    assert "random arguments (seed 0)" in text
    assert "snapshot" not in text.replace(str(SCHEDULED), "")


def test_a_snapshot_is_a_file_of_arguments_too(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(str(UNOPTIMIZED), "--args", str(SCHEDULED), capsys=capsys)
    assert "-0.5354" in text
    assert run(str(DELIMITED), "--args", str(DELIMITED), capsys=capsys)[0] == 0


@pytest.mark.parametrize("path", [SCHEDULED, UNOPTIMIZED, DELIMITED])
def test_a_cut_or_damaged_snapshot_is_an_error_or_none(path: Path) -> None:
    data = path.read_bytes()
    whole = read_snapshot(data)
    assert whole is not None
    for cut in range(0, len(data), max(1, len(data) // 150)):
        damaged = bytearray(data)
        damaged[cut] ^= 0xFF
        for each in (data[:cut], bytes(damaged)):
            with suppress(HloError):
                read_snapshot(each)
