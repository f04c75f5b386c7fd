"""An opcode that gets a row is known everywhere: to the parser, in words, to costs, schedules, fusion, memory and lint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROWS = """
import sys

from hlo_cli.ir import operation_table as table
from hlo_cli.ir.operation_table import Operation

table.ELEMENTWISE_ROWS += (Operation("gamma", 1, "Computes the gamma function", "one per element", ("elementwise", "transcendental")),)
table.COMMUNICATION_ROWS += (
    Operation("all-shuffle", None, "Shuffles", "anyhow", ("collective",), optional=("replica_groups",), least=1),
)
"""
MAIN = "from hlo_cli.cli import main\nmain(sys.argv[1:])"
MODULE = """HloModule m, is_scheduled=true, num_partitions=2

ENTRY e {
  p = f32[8,128]{1,0} parameter(0)
  g = f32[8,128]{1,0} gamma(p)
  n = f32[8,128]{1,0} negate(g)
  b = ((f32[8,128]{1,0}), f32[8,128]{1,0}, u32[]) all-shuffle-start(n), replica_groups={{0,1}}
  m = f32[8,128]{1,0} gamma(n)
  d = f32[8,128]{1,0} all-shuffle-done(b)
  t = f32[8,128]{1,0} add(m, d)
  ROOT s = f32[8,128]{1,0} all-shuffle(t), replica_groups={{0,1}}
}
"""


def run(script: str, *arguments: str) -> list[str]:
    """The words that a script prints in a process of its own, whose table of operations has the new rows."""
    command = [sys.executable, "-c", ROWS + dedent(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def test_the_library_knows_new_opcodes() -> None:
    words = run(
        """
        import hlo_cli
        from hlo_cli.analysis.query.module_summary import module_summary
        from hlo_cli.analysis.schedule.async_overlap import async_pairs

        module = hlo_cli.parse_module(sys.argv[1])
        cost = hlo_cli.module_cost(module)
        [pair] = async_pairs(module).pairs
        print(len(module.notes), int(cost.transcendentals), cost.unknown, module_summary(module)["collectives"])
        print(pair.operation, pair.form, str(hlo_cli.parse_module(str(module))) == str(module))
        """,
        MODULE,
    )
    assert words == ["0", "2048", "0", "2", "all-shuffle", "sugared", "True"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("parse --format hlo --desugar", "calls=%async_wrapped"),
        ("layout", "f32[8,128]{1,0}"),
        ("fuse --table kernel_kinds", "collective"),
        ("schedule", "all-shuffle"),
        ("memspace", "gamma"),
    ],
)
def test_commands_take_new_opcodes(command: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(MODULE)
    assert said in run(MAIN, *command.split(), str(path))


def test_explanations_have_the_words_of_the_row() -> None:
    assert "one per element" in " ".join(run(MAIN, "parse", "--explain", "f32[8] gamma(f32[8] a)"))


def test_lint_and_the_fusion_pass_take_new_opcodes(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(
        "ENTRY e { p = f32[512]{0} parameter(0)  g = f32[512]{0} gamma(p)  ROOT n = f32[512]{0} negate(g) }"
    )
    assert "%gamma_negate_fusion" in run(MAIN, "fuse", "--run-pass", "--format", "hlo", str(path))
    assert run(MAIN, "lint", "--select", "HLO0", str(path)) == []
