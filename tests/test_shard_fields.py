"""The fields `parameter`, `replication`, and `shard_bytes` in filters, columns, and assertions."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from dumps import FIXTURES
from expecting import judged
from hlo_cli import parse_module
from hlo_cli.cli import main
from hlo_cli.commands.modules.instruction_tables import instructions_where

LEAD = "HloModule m, num_partitions=4"
BEFORE = """ENTRY e {
  w = f32[1024,1024] parameter(0), sharding={replicated}
  x = f32[64,1024] parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  t = (f32[8], f32[8]) parameter(2), sharding={{replicated}, {devices=[4]<=[4]}}
  u = f32[8] parameter(3)
  n = f32[64,1024] negate(x)
  ROOT y = f32[64,1024] negate(n), sharding={devices=[4,1]<=[4]}
}
"""
AFTER = BEFORE.replace("ENTRY e", "ENTRY e_spmd")


def chosen(expression: str, text: str) -> list[str]:
    module = parse_module(f"{LEAD}\n{text}")
    return [i.name for i in filter(instructions_where(expression, module), module.instructions)]


@pytest.mark.parametrize(
    ("expression", "before", "after"),
    [
        ("parameter", ["w", "x", "t", "u"], ["w", "x", "t", "u"]),
        ("replication > 1", ["w", "x", "t"], ["w", "x", "t"]),
        ("replication == 2", ["x"], ["x"]),
        ("replication == 1", ["y"], ["y"]),
        ("shard_bytes == 128KiB", ["x"], []),
        ("shard_bytes == 256KiB", [], ["x", "n", "y"]),
        ("shard_bytes == 40", ["t"], []),
        ("shard_bytes < padded_bytes", ["x", "t", "y"], []),
        ("has(replication)", ["w", "x", "t", "y"], ["w", "x", "t", "y"]),
        ("parameter and replication > 1 and padded_bytes >= 4MiB", ["w"], ["w"]),
    ],
)
def test_fields_before_and_after_partitioning(expression: str, before: list[str], after: list[str]) -> None:
    assert chosen(expression, BEFORE) == before
    assert chosen(expression, AFTER) == after


def test_an_unknown_replication_is_neither_one_nor_many() -> None:
    """A partitioned module without shardings, as for TPU, passes no assertion about copies."""
    bare = parse_module(f"{LEAD}, is_scheduled=true ENTRY e_spmd {{ ROOT w = f32[1024] parameter(0) }}")
    [result] = judged(bare, "none(parameter and replication > 1)")
    assert result.is_met is None
    [result] = judged(bare, "none(parameter and replication > 1 and padded_bytes > 1MiB)")
    assert result.is_met is True


def test_assertions_with_the_sibling_of_a_dump(tmp_path: Path) -> None:
    """The shardings of TPU parameters are those of the dump before optimizations."""
    expectations = tmp_path / "expect.toml"
    expectations.write_text('expect = ["none(parameter and replication > 1 and padded_bytes > 1KiB)"]\n')
    assert run("lint", str(FIXTURES / "tpu" / "v5e_offload"), "--expect", str(expectations), "--select", "HLO9")[0] == 1


def test_columns() -> None:
    code, out = run(
        "parse",
        str(FIXTURES / "tpu" / "v4_collectives"),
        "--where",
        "parameter",
        "--columns",
        "name,replication,shard_bytes",
    )
    assert code == 0
    head, *rows = [line.split("\t") for line in out.splitlines()]
    assert head == ["#name", "replication", "shard_bytes"]
    assert rows
    assert all(row[1].isdecimal() and row[2].isdecimal() for row in rows)


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main(list(arguments), standalone=False)
    return int(code or 0), out.getvalue()
