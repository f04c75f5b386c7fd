"""Which device others wait for: planted delays in traces written here, in groups of devices, and by device."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from hlo_cli import Profile, parse_module, profile
from hlo_cli.analysis.profile.critical_path import late_devices, waits_of
from hlo_cli.cli import main
from share import every
from traces_of_cpus import Ran, cpu_file

DEVICES = 4


def module(groups: str) -> str:
    return f"""HloModule jit_f, num_partitions={DEVICES}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{
  p = f32[256] parameter(0)
  x = f32[256] exponential(p)
  ROOT sum = f32[256] all-reduce(x), replica_groups={groups}, channel_id=1, use_global_device_ids=true, to_apply=add
}}"""


def traced(folder: Path, begins: list[list[int]], groups: str = "{{0,1,2,3}}", *, computes: bool = True) -> Profile:
    """A step of 1,000 ns for each list: the begin of the sum on each device, after what computes since the step began.

    In a group, the sum ends 10 ns after the last device has come.
    """
    parts = [[int(each) for each in part.split(",")] for part in groups.strip("{}").split("},{")]
    ran = []
    for step, of_devices in enumerate(begins):
        for device, begin in enumerate(of_devices):
            end = max(of_devices[other] for part in parts if device in part for other in part) + 10
            first = 0 if computes else begin - 5
            ran += [
                Ran("x", 1000 * step + first, begin - first, step + 1, device, f"tf_XLAEigen/{device}"),
                Ran("sum", 1000 * step + begin, end - begin, step + 1, device, f"tf_XLAEigen/{device}"),
            ]
    path = folder / "t.xplane.pb"
    path.write_bytes(
        cpu_file(ran, parse_module(module(groups)), [(n, 1000 * n, 1000 * n + 1000) for n in range(len(begins))])
    )
    return profile(path)


@pytest.mark.parametrize("groups", ["{{0,1,2,3}}", "{{0,1},{2,3}}", "{{0,3},{1,2}}"])
@pytest.mark.parametrize("seed", every(2, range(6)))
def test_waits_and_delays_are_those_of_a_count(groups: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    begins = [[random.randrange(10, 800) for _ in range(DEVICES)] for _ in range(5)]
    found = traced(tmp_path, begins, groups)
    parts = [[int(each) for each in part.split(",")] for part in groups.strip("{}").split("},{")]
    delays, waited = dict.fromkeys(range(DEVICES), 0), dict.fromkeys(range(DEVICES), 0)
    for of_devices in begins:
        for part in parts:
            *_, before, last = sorted(part, key=lambda device: of_devices[device])
            delays[last] += of_devices[last] - of_devices[before]
            waited[last] += sum(of_devices[last] - of_devices[device] for device in part)
    late = {found.devices[each.device]: each for each in late_devices(found, waits_of(found))}
    for device in range(DEVICES):
        each = late.get(f"CPU:{device}")
        assert round((each.delay if each else 0) * 1e9) == delays[device]
        assert round((each.waited if each else 0) * 1e9) == waited[device]


def test_the_cause_is_the_operation_that_takes_longer(tmp_path: Path) -> None:
    found = traced(tmp_path, [[100, 110, 700, 120]] * 3)
    (first,) = late_devices(found, waits_of(found))
    assert found.devices[first.device] == "CPU:2"
    assert first.cause is not None
    assert found.operations[first.cause].name == "x"
    assert round(first.cause_seconds * 1e9) == 3 * (700 - 110)
    assert not first.starts_late


def test_a_device_that_starts_late_has_no_operation_as_cause(tmp_path: Path) -> None:
    found = traced(tmp_path, [[100, 110, 700, 120]] * 3, computes=False)
    (first,) = late_devices(found, waits_of(found))
    assert (first.cause, first.starts_late) == (None, True)


def test_by_device_names_the_late_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(tmp_path, [[100, 110, 700, 120]] * 3 + [[100, 90, 95, 100]])
    path = str(tmp_path / "t.xplane.pb")
    assert main(["profile", path, "--by", "device", "--format", "screen"], standalone=False) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith(
        "The others wait until CPU:2 comes to sum: 1.7 µs in all, 435.0 ns per step; it takes longer"
    )
    assert main(["profile", path, "--by", "device", "--json"], standalone=False) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    late = {row["device"]: row["late_seconds"] for row in tables["devices"]["rows"]}
    assert late["CPU:2"] == pytest.approx(3 * 580e-9)
    assert late["CPU:1"] == 0
    first = tables["late_devices"]["rows"][0]
    assert (first["device"], first["instruction"], first["late_times"], first["late_cause"]) == ("CPU:2", "sum", 3, "x")
    assert first["late_reason"] == "x, 1.8 µs more"
