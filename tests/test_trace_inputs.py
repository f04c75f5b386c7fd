"""Which traces an argument names: files, compressed ones, directories of profiles with several dates and hosts, stdin."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
from pathlib import Path

import pytest

import hlo_cli
from hlo_cli.read_traces import find_traces, read_traces
from hlo_cli.source import HloError
from strategies import FIXTURES

FOLDER = FIXTURES / "traces/cpu_steps"
XPLANE = FOLDER / "trace.xplane.pb"
JSON = FOLDER / "trace.json.gz"


def profile(folder: Path, date: str, *names: str) -> Path:
    """A profile as jax.profiler writes it, with empty files."""
    place = folder / "plugins/profile" / date
    place.mkdir(parents=True)
    for name in names:
        (place / name).touch()
    return place


def names(argument: Path) -> list[str]:
    return [os.path.relpath(path, argument) for path in find_traces(str(argument)).paths]


def test_the_latest_profile_of_a_directory_is_read_with_all_its_hosts(tmp_path: Path) -> None:
    profile(tmp_path, "2026_01_02_03_04_05", "a.xplane.pb")
    latest = profile(
        tmp_path, "2026_11_02_03_04_05", "b.xplane.pb", "a.xplane.pb", "a.trace.json.gz", "a.op_stats_v2.pb"
    )
    (latest / "perfetto_trace.json.gz").touch()
    (latest / "jit_f(7).hlo_proto.pb").touch()
    os.utime(latest / "a.xplane.pb", (0, 0))  # dates in names count, not those of files
    for argument in (tmp_path, tmp_path / "plugins", tmp_path / "plugins/profile"):
        found = find_traces(str(argument))
        assert [os.path.basename(path) for path in found.paths] == ["a.xplane.pb", "b.xplane.pb"]
        assert found.note is not None
        assert "2026_11_02_03_04_05, the latest of 2 profiles" in found.note
    assert find_traces(str(latest)).note is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a.trace.json.gz", "b.xplane.pb.gz"], ["b.xplane.pb.gz", "a.trace.json.gz"]),
        (["a.trace.json.gz", "perfetto_trace.json.gz"], ["a.trace.json.gz"]),
        (["perfetto_trace.json.gz"], ["perfetto_trace.json.gz"]),
        (["x_kernel_trace.csv", "x_kernel_stats.csv"], ["x_kernel_trace.csv"]),
        (["r.sqlite", "r_nvtx_gpu_proj_trace.csv", "r.nsys-rep"], ["r.sqlite"]),
        (["a.xplane.pb", "r.sqlite"], ["a.xplane.pb"]),
    ],
)
def test_the_best_form_of_each_host_is_read(tmp_path: Path, files: list[str], expected: list[str]) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert names(tmp_path) == expected


def test_formats_are_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    for content in (XPLANE.read_bytes(), gzip.compress(XPLANE.read_bytes()), bz2.compress(XPLANE.read_bytes())):
        path.write_bytes(content)
        assert hlo_cli.read_trace(path).format == "xplane"
    path.write_bytes(JSON.read_bytes())
    assert hlo_cli.read_trace(path).format == "trace.json"
    (trace,) = read_traces(["-"], stdin=io.BytesIO(XPLANE.read_bytes()))
    assert (trace.name, trace.format) == ("<stdin>", "xplane")


def test_globs_name_traces(tmp_path: Path) -> None:
    for name in ("a.xplane.pb", "b.xplane.pb"):
        shutil.copy(XPLANE, tmp_path / name)
    assert len(read_traces([f"{tmp_path}/*.xplane.pb"])) == len(read_traces([str(tmp_path)])) == 2
    with pytest.raises(HloError, match="traces of 2 hosts"):
        hlo_cli.read_trace(tmp_path)


def test_notes_on_the_selection_are_those_of_the_trace(tmp_path: Path) -> None:
    for date in ("2026_01_02_03_04_05", "2026_01_02_03_04_06"):
        shutil.copy(XPLANE, profile(tmp_path, date) / "vm.xplane.pb")
    (trace,) = read_traces([str(tmp_path)])
    assert "the latest of 2 profiles" in trace.notes[0]


def test_what_is_no_trace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HloError, match="no traces found in"):
        find_traces(str(tmp_path))
    with pytest.raises(HloError, match=r"file '.*nothing' not found"):
        find_traces(str(tmp_path / "nothing"))
    for content, message in (
        (b"", "is empty"),
        (b"HloModule m", "is not a profiler trace"),
        (b"{}", "without traceEvents"),
    ):
        (tmp_path / "t").write_bytes(content)
        with pytest.raises(HloError, match=message):
            hlo_cli.read_trace(tmp_path / "t")
    (tmp_path / "my report.nsys-rep").write_bytes(b"\xab\xcd")
    with pytest.raises(HloError) as caught:
        hlo_cli.read_trace(tmp_path / "my report.nsys-rep")
    assert f"nsys export --type sqlite '{tmp_path}/my report.nsys-rep'" in str(caught.value.diagnostics[0].hint)
    (tmp_path / "t.gz").write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(HloError, match="decompresses to more than"):
        read_traces([str(tmp_path / "t.gz")], maximum_bytes=1 << 16)


def test_links_in_a_circle_and_unreadable_directories_are_passed(tmp_path: Path) -> None:
    place = profile(tmp_path, "2026_01_02_03_04_05", "a.xplane.pb")
    (place / "again").symlink_to(tmp_path)
    assert names(place) == ["a.xplane.pb"]


def test_two_recordings_of_a_host_are_not_one_profile(tmp_path: Path) -> None:
    """Of two runs in a directory the latest is read, which a note says; files of processes that ran at once are all."""
    [trace] = read_traces([str(FIXTURES / "traces/cpu_edit")])
    assert os.path.basename(trace.name) == "after.xplane.pb.gz"
    assert "using after.xplane.pb.gz, the latest of 2 recordings in " in trace.notes[0]
    assert "such as before.xplane.pb.gz, to see it" in trace.notes[0]
    for name in ("a", "b"):
        shutil.copy(XPLANE, tmp_path / f"{name}.xplane.pb")
    assert len(read_traces([str(tmp_path)])) == 2
