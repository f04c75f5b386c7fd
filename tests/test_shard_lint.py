"""Rules on shardings that read the dump before optimizations: its shardings of parameters, and its mesh."""

from __future__ import annotations

from pathlib import Path

import hlo_cli
from dumps import FIXTURES, compiled_dumps
from hlo_cli.analysis.sharding.parameters import entry_arrays
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings

MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
BEFORE = (
    f"HloModule m, num_partitions=8, {MESHES}\nENTRY e {{ ROOT p = f32[64] parameter(0), sharding={{replicated}} }}\n"
)
AFTER = """HloModule m, is_scheduled=true, num_partitions=8
ENTRY e_spmd {
  p = f32[64]{0:T(128)} parameter(0)
  a = f32[128]{0:T(128)} all-gather(p), dimensions={0}, channel_id=1, replica_groups=GROUPS, use_global_device_ids=true
  ROOT n = f32[128]{0:T(128)} negate(a)
}
"""


def found(code: str, path: Path, least: int = 1 << 20) -> list[str]:
    settings = LintSettings(select=(code,), min_replicated_bytes=least)
    return [each.message for each in lint_module(hlo_cli.load(path), settings)]


def test_replicated_arguments_of_a_tpu_program() -> None:
    """After partitioning, they have no shardings of their own."""
    messages = found("HLO504", FIXTURES / "tpu" / "v5e_offload", least=1)
    assert len(messages) == 3
    assert all("is replicated on 4 devices" in each for each in messages)
    assert found("HLO504", FIXTURES / "tpu" / "v4_collectives", least=1) == []


def test_groups_are_compared_with_the_mesh_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "before_optimizations.txt").write_text(BEFORE)
    after = tmp_path / "after_optimizations.txt"
    for groups, is_found in (
        ("{{0,1},{2,3},{4,5},{6,7}}", False),
        ("[2,4]<=[4,2]T(1,0)", False),
        ("{{0,4},{1,5},{2,6},{3,7}}", False),  # a part of the axis data
        ("[1,8]<=[8]", False),
        ("{{0,3},{1,2},{4,7},{5,6}}", True),
        ("mesh['axis_0'=4,'axis_1'=2], device_ids=(0,3,1,2,4,7,5,6) {'axis_1'}", True),
    ):
        after.write_text(AFTER.replace("GROUPS", groups))
        assert bool(found("HLO082", after)) is is_found, groups
    (tmp_path / "before_optimizations.txt").unlink()
    assert found("HLO082", after) == []  # no mesh is named


def test_groups_of_compiled_programs_are_along_axes() -> None:
    settings = LintSettings(select=("HLO082", "HLO083", "HLO509"))
    partitioned = [dump for dump in compiled_dumps() if "num_partitions=" in dump.text]
    assert len(partitioned) > 5
    for dump in partitioned:
        assert lint_module(hlo_cli.load(dump.path), settings) == ()


def test_groups_that_cannot_be_read_are_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(AFTER.replace("GROUPS", "torus(2,4)"))
    assert found("HLO083", path) == ["a: could not parse replica_groups=torus(2,4)"]
    assert found("HLO051", path) == found("HLO010", path) == []


def test_copies_of_shards_of_compiled_programs() -> None:
    """What the rule finds is what `hlo shard` finds: copies on some devices, and the bytes that a device would save."""
    settings, count = LintSettings(select=("HLO510",), min_replicated_bytes=1), 0
    for dump in compiled_dumps():
        if "num_partitions=" not in dump.text:
            continue
        module = hlo_cli.load(dump.path)
        arrays = entry_arrays(module)
        expected = [
            each.saving_bytes
            for each in arrays.parameters
            if each.saving_bytes and 1 < (each.replication or 0) < arrays.partitions
        ]
        assert sorted(each.cost_bytes or 0 for each in lint_module(module, settings)) == sorted(expected)
        count += len(expected)
    assert count > 0
