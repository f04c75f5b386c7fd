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


@pytest.mark.parametrize("groups", ["{{0,1,2,3}}", "{{0,1},{2,3}}"])
def test_exposed_has_the_wait_time_of_late_devices(
    groups: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begins = [[100, 110, 700, 120], [400, 90, 95, 300]]
    found = traced(tmp_path, begins, groups)
    assert main(["profile", str(tmp_path / "t.xplane.pb"), "--exposed", "--json"], standalone=False) == 0
    exposed = json.loads(capsys.readouterr().out)
    parts = [[int(each) for each in part.split(",")] for part in groups.strip("{}").split("},{")]
    waited = sum(
        max(step[each] for each in part) - step[device] for step in begins for part in parts for device in part
    )
    assert exposed["answer"]["waiting_seconds"] == pytest.approx(waited * 1e-9)
    assert sum(each.waited for each in late_devices(found, waits_of(found))) == pytest.approx(waited * 1e-9)
    (row,) = exposed["tables"]["transfers"]["rows"]
    assert row["waiting_seconds"] * DEVICES == pytest.approx(waited * 1e-9)
    assert (row["calls"], row["device_calls"]) == (8, 2)


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
        "CPU:2 is late at sum: other devices wait 1.7 µs in all, 435.0 ns per step; it takes longer for x"
    )
    assert main(["profile", path, "--by", "device", "--json"], standalone=False) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    late = {row["device"]: row["late_seconds"] for row in tables["devices"]["rows"]}
    assert late["CPU:2"] == pytest.approx(3 * 580e-9)
    assert late["CPU:1"] == 0
    first = tables["late_devices"]["rows"][0]
    assert (first["device"], first["instruction"], first["late_times"], first["late_cause"]) == ("CPU:2", "sum", 3, "x")
    assert first["late_reason"] == "x, 1.8 µs more"


ALL = "replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true, to_apply=add"


def computed(folder: Path, operations: str, rows: dict[str, list[tuple[int, int]]], steps: range) -> Profile:
    """Three executions of 1,000 ns, each with the begin and the end of each operation on each device."""
    text = f"""HloModule jit_f, num_partitions={DEVICES}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{
  p = f32[256] parameter(0)
  x = f32[256] exponential(p)
  {operations}
}}"""
    ran = [
        Ran(name, 1000 * run + begin, end - begin, run + 1, device, f"tf_XLAEigen/{device}")
        for run in range(3)
        for name, times in rows.items()
        for device, (begin, end) in enumerate(times)
    ]
    path = folder / "t.xplane.pb"
    path.write_bytes(cpu_file(ran, parse_module(text), [(n, 1000 * n, 1000 * n + 1000) for n in steps]))
    return profile(path)


def names_of(found: Profile) -> list[tuple[str, str, str | None, int]]:
    """The late devices: at which collective, because of which operation, and by how many nanoseconds."""
    return [
        (
            found.devices[each.device],
            found.operations[each.operation].name,
            None if each.cause is None else found.operations[each.cause].name,
            round(each.delay * 1e9),
        )
        for each in late_devices(found, waits_of(found))
    ]


def test_what_runs_after_a_collective_is_not_its_cause(tmp_path: Path) -> None:
    begins = [300 if device == 2 else 50 for device in range(DEVICES)]
    rows = {
        "x": [(begin - 10, begin) for begin in begins],
        "s1": [(begin, 310) for begin in begins],
        "y": [(310, 810 if device == 2 else 350) for device in range(DEVICES)],
    }
    found = computed(tmp_path, f"s1 = f32[256] all-reduce(x), {ALL}\n  ROOT y = f32[256] sine(s1)", rows, range(3))
    assert names_of(found) == [("CPU:2", "s1", None, 750)]
    assert late_devices(found, waits_of(found))[0].starts_late


def test_each_collective_has_the_cause_since_the_one_before(tmp_path: Path) -> None:
    first = [300 if device == 2 else 50 for device in range(DEVICES)]
    second = [560 if device == 2 else 350 for device in range(DEVICES)]
    rows = {
        "x": [(0, end) for end in first],
        "s1": [(begin, 310) for begin in first],
        "y": [(310, end) for end in second],
        "sum": [(begin, 570) for begin in second],
    }
    other = ALL.replace("channel_id=1", "channel_id=2")
    operations = (
        f"s1 = f32[256] all-reduce(x), {ALL}\n  y = f32[256] sine(s1)\n  ROOT sum = f32[256] all-reduce(y), {other}"
    )
    found = computed(tmp_path, operations, rows, range(3))
    assert names_of(found) == [("CPU:2", "s1", "x", 750), ("CPU:2", "sum", "y", 630)]
    assert not any(each.starts_late for each in late_devices(found, waits_of(found)))


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}", [("CPU:1", "sum", "x", 30)]),
        (f"all-reduce(x), {ALL}", []),
    ],
)
def test_who_ends_before_the_last_begins_does_not_wait(
    operation: str, expected: list[tuple[str, str, str | None, int]], tmp_path: Path
) -> None:
    """Devices 2 and 3 take no part in the permute; the events of the sum contradict one another."""
    begins = (100, 110, 140, 700)
    rows = {"x": [(0, begin) for begin in begins], "sum": [(begin, begin + 20) for begin in begins]}
    assert names_of(computed(tmp_path, f"ROOT sum = f32[256] {operation}", rows, range(3))) == expected


def test_a_delay_outside_of_steps_is_in_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = [300 if device == 2 else 100 for device in range(DEVICES)]
    rows = {"x": [(0, end) for end in ends], "sum": [(end, 310) for end in ends]}
    found = computed(tmp_path, f"ROOT sum = f32[256] all-reduce(x), {ALL}", rows, range(1, 3))
    (first,) = late_devices(found, waits_of(found))
    assert (round(first.delay * 1e9), round(first.step_delay * 1e9), first.times, first.steps) == (600, 400, 3, 2)
    assert (
        main(["profile", str(tmp_path / "t.xplane.pb"), "--by", "device", "--format", "screen"], standalone=False) == 0
    )
    assert "other devices wait 600.0 ns in all, 200.0 ns per step" in " ".join(capsys.readouterr().out.split())


def test_groups_that_no_module_states_are_said_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = [
        Ran(name, begin, end - begin, 1, device, f"tf_XLAEigen/{device}")
        for device, late in enumerate((100, 110, 300))
        for name, begin, end in (("fusion", 0, late), ("all-reduce.1", late, 310))
    ]
    path = tmp_path / "t.xplane.pb"
    words = "Replica groups are unknown without HLO: each collective counts as one of all devices."
    for devices, is_said in ((3, True), (2, False)):
        path.write_bytes(cpu_file([each for each in ran if each.device < devices], steps=[(0, 0, 1000)]))
        assert main(["profile", str(path), "--by", "device", "--format", "screen"], standalone=False) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "all-reduce.1" in shown
        assert (words in shown) == is_said


def test_hosts_with_other_clocks_are_to_be_read_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(tmp_path, [[100, 110, 700, 120]])
    content = (tmp_path / "t.xplane.pb").read_bytes()
    for host in ("a", "b"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(content)
    (tmp_path / "t.xplane.pb").unlink()
    assert main(["profile", str(tmp_path), "--by", "device", "--format", "screen"], standalone=False) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the clocks of hosts differ. For those within a host, pass its trace alone." in shown
    assert (
        main(["profile", str(tmp_path / "a.xplane.pb"), "--by", "device", "--format", "screen"], standalone=False) == 0
    )
    assert "CPU:2 is late at sum" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("begins", [[100, 110, 690, 120], [100, 100, 100, 100]])
def test_steps_are_idle_for_the_share_that_their_devices_are(
    begins: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where devices begin and end at other times: in the head, in each row, and in the total."""
    idle = 100 - sum(max(begins[at : at + 2]) + 10 for at in (0, 2)) / 20
    traced(tmp_path, [begins] * 3, "{{0,1},{2,3}}")
    assert main(["profile", str(tmp_path / "t.xplane.pb"), "--by", "step", "--format", "screen"], standalone=False) == 0
    shown = capsys.readouterr().out
    assert f"{idle + 1e-9:.0f}% idle" in shown
    assert [line.split()[4] for line in shown.splitlines() if line[:1].isdigit() and ".0  " in line] == (
        [f"{idle + 1e-9:.0f}"] * 4
    )
    assert "A step lasts" not in shown
