"""Prints of PyTorch/XLA: metrics, and the analysis of graphs that `PT_XLA_DEBUG_LEVEL` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.commands.prints.torch_xla import _seconds
from in_process import run

RULE = "=" * 80
BLOCK = """\
Compilation Analysis: {rule}
Compilation Analysis: Compilation Cause
Compilation Analysis:   {cause}
Compilation Analysis: Graph Info:
Compilation Analysis:   Graph Hash: {hash}
Compilation Analysis:   Number of Graph Inputs: 35
Compilation Analysis: Python Frame Triggered Execution:
Compilation Analysis:   mark_step (/env/torch_xla/core/xla_model.py:1055)
Compilation Analysis:   train_loop (/home/user/train.py:48)
Compilation Analysis:   <module> (/home/user/train.py:73)
Compilation Analysis: {rule}

Post Compilation Analysis: {rule}
Post Compilation Analysis: Graph input size: {input:.6f} GB
Post Compilation Analysis: Graph output size: 2.000000 GB
Post Compilation Analysis: Aliased Input size: 1.250000 GB
Post Compilation Analysis: Intermediate tensor size: 4.500000 GB
Post Compilation Analysis: Compiled program size: 0.250000 GB
Post Compilation Analysis: {rule}

"""
EXECUTION = "Execution Analysis: {rule}\nExecution Analysis: Execution Cause\nExecution Analysis:   mark_step\n"
METRICS = """\
Metric: CompileTime
  TotalSamples: 4
  Accumulator: 01m02s350ms013.4us
  ValueRate: 778ms572.062us / second
Metric: ExecuteTime
  TotalSamples: 400
  Accumulator: 02s350ms013.4us
Metric: InboundData
  TotalSamples: 3
  Accumulator: 1.95KB
Counter: aten::nonzero
  Value: 33
Counter: aten::_local_scalar_dense
  Value: 40
Counter: MarkStep
  Value: 400
"""


def answered(text: str, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The words of the screen and the numbers of the answer."""
    path = tmp_path / "log.txt"
    path.write_text(text)
    out, err, code = run([str(path), "--format", "json"], folder=Path(), settings={})
    assert code == 0, err
    screen, _, _ = run([str(path), "--format", "screen"], folder=Path(), settings={"COLUMNS": "200"})
    return " ".join(screen.split()), json.loads(out)["answer"]


def test_the_memory_of_one_graph_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    """An aliased input is the memory of an output too."""
    text = BLOCK.format(rule=RULE, cause="mark_step", hash="abc", input=1.5).split("\n\n")[1]
    screen, numbers = answered(text, tmp_path)
    assert screen.startswith(
        "The graph needs 7 GB = 1.5 inputs + 2 outputs − 1.25 aliased + 4.5 temporaries + 0.25 program "
    )
    assert numbers["total_gb"] == pytest.approx(1.5 + 2 - 1.25 + 4.5 + 0.25)


def test_several_graphs_tell_causes_and_the_line_of_the_program(tmp_path: Path) -> None:
    blocks = [BLOCK.format(rule=RULE, cause="mark_step", hash=f"h{n}", input=1.5 + n) for n in range(3)]
    blocks.append(BLOCK.format(rule=RULE, cause="user torch_xla.sync", hash="h0", input=1.25))
    screen, numbers = answered("".join(blocks) + EXECUTION.format(rule=RULE) * 5, tmp_path)
    assert screen.startswith("PyTorch/XLA compiled 4 graphs and executed 5 ")
    assert "The graph needs 9 GB" in screen
    assert "3 compilations by mark_step." in screen
    assert "The last compilation came from /home/user/train.py:48 (train_loop)." in screen
    assert "Most executions compile a new graph" in screen
    assert (numbers["graphs"], numbers["distinct_graphs"], numbers["executions"]) == (4, 3, 5)


def test_graphs_that_are_reused_are_as_they_should_be(tmp_path: Path) -> None:
    text = BLOCK.format(rule=RULE, cause="mark_step", hash="a", input=1) * 2 + EXECUTION.format(rule=RULE) * 40
    assert "Compiling once for each set of shapes is usual" in answered(text, tmp_path)[0]


def test_metrics_say_where_time_goes_and_what_ran_on_the_host(tmp_path: Path) -> None:
    screen, numbers = answered(METRICS, tmp_path)
    assert screen.startswith("PyTorch/XLA compiled 4 times in 62.4 s, executed 400 times in 2.4 s ")
    assert "2 operations ran on the host instead of the device: aten::_local_scalar_dense 40 times" in screen
    assert "Most executions compile" not in screen
    assert (numbers["compilations"], numbers["executions"], numbers["fallbacks"]) == (4, 400, 73)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("02s350ms013.4us", 2.3500134),
        ("1d02h03m04s005ms006.5us", 93_784.0050065),
        ("186ms062.970us", 0.18606297),
        ("12ms", 0.012),
        ("1.95KB", None),
        ("9.00", None),
        ("", None),
    ],
)
def test_times_in_the_form_of_torch(text: str, seconds: float | None) -> None:
    assert _seconds(text) == (None if seconds is None else pytest.approx(seconds))
