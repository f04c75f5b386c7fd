"""Where a TPU allocates more of its fast memory than values need, the screen says what the rest is."""

from __future__ import annotations

import re

import pytest

from hlo_cli import cli
from strategies import FIXTURES

SEVENTH = FIXTURES / "tpu" / "7x_transformer"


def notes(dump: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["memspace", str(FIXTURES / "tpu" / dump), "--format", "screen"], standalone=False) == 0
    return " ".join("".join(capsys.readouterr()).split())


def test_scratch_of_kernels_explains_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    """The compiler's own files: the scratch of a kernel, and the first of the values behind it."""
    text = (SEVENTH / "after_optimizations.txt").read_text()
    scratch = max(int(size) for size in re.findall(r'"memory_space":"1","offset":"0","size":"(\d+)"', text))
    assigned = (SEVENTH / "after_optimizations-buffer-assignment.txt").read_text()
    allocated = int(re.findall(r"size (\d+), color 1, page 0, preallocated-temp", assigned)[0])
    assert f"offset={scratch})" in assigned
    assert scratch < allocated < scratch + (1 << 20)
    assert "32 MiB of the allocated VMEM are scratch of kernels (scoped memory)" in notes("7x_transformer", capsys)


@pytest.mark.parametrize("dump", ["v5e_conv", "v5p_scan", "v4_collectives"])
def test_nothing_is_said_where_values_fill_the_memory(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "scratch of kernels" not in notes(dump, capsys)
