"""Where results go: names of files that promise a form, standard output by its names, disks that are full, terminals."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from hlo_cli import cli
from hlo_cli.commands.modules.many import short_paths
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.render.registry import FOREIGN, FORMATS
from hlo_cli.report.numbers import format_bytes

DUMP = Path(__file__).parent.parent / "fixtures" / "tpu" / "v5e_conv"
BROKEN = "HloModule m\nENTRY e {\n  x = f32[2]{0} parameter(0)\n  ROOT y = f32[3]{0} negate(x)\n}\n"

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/fd and limits of files")


def hlo(*arguments: str) -> int:
    return cli.main(list(arguments), standalone=False)


def started(
    *arguments: str,
    stdout: int | IO[bytes] = subprocess.PIPE,
    preexec_fn: Callable[[], None] | None = None,
    pass_fds: tuple[int, ...] = (),
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, as a shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "hlo_cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=preexec_fn,
        pass_fds=pass_fds,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parent.parent), **environment},
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("ending", ["pdf", "PNG", "xlsx", "json.gz", "yaml", "hlo", "pb", "npy"])
def test_a_form_that_is_not_written_is_refused(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"x.{ending}"
    assert hlo("layout", str(DUMP), "-o", str(target)) == 2
    assert f"unsupported format .{ending.rpartition('.')[2].lower()}" in " ".join(capsys.readouterr().err.split())
    assert not target.exists()


@pytest.mark.parametrize("name", ["x.txt", "x", "tmp.a8Gx2Pq", "x.v2", "x.log"])
def test_other_names_promise_nothing(name: str, tmp_path: Path) -> None:
    assert hlo("layout", str(DUMP), "-o", str(tmp_path / name)) == 0
    assert (tmp_path / name).read_text().startswith("#count\t")


def test_a_given_format_overrides_the_name(tmp_path: Path) -> None:
    assert hlo("layout", str(DUMP), "--format", "md", "-o", str(tmp_path / "x.pdf")) == 0
    assert (tmp_path / "x.pdf").read_text().lstrip().startswith("**")


def test_no_format_is_foreign() -> None:
    assert not FOREIGN & {each.name for each in FORMATS}


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        (("parse", str(DUMP)), b"HloModule "),
        (("parse", str(DUMP), "--select", "opcode == copy"), b""),
        (("diff", str(DUMP), "--normalize"), b"HloModule "),
    ],
)
def test_hlo_is_written_where_a_command_writes_it(line: tuple[str, ...], begins: bytes, tmp_path: Path) -> None:
    assert hlo(*line, "-o", str(tmp_path / "x.hlo")) == 0
    assert (tmp_path / "x.hlo").read_bytes().startswith(begins)


@linux_only
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "-"])
def test_standard_output_by_name(name: str, tmp_path: Path) -> None:
    expected = started("layout", "f32[3,5]").stdout
    assert started("layout", "f32[3,5]", "-o", name).stdout == expected
    with open(tmp_path / "log", "wb") as log:
        log.write(b"before\n")
        log.flush()
        assert started("layout", "f32[3,5]", "-o", name, stdout=log).returncode == 0
    assert (tmp_path / "log").read_bytes() == b"before\n" + expected


@linux_only
def test_a_pipe_by_its_number() -> None:
    reading, writing = os.pipe()
    done = started("layout", "f32[3,5]", "-o", f"/dev/fd/{writing}", pass_fds=(writing,))
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read().startswith(b"#letter\t")
    assert (done.returncode, done.stdout) == (0, b"")


@linux_only
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("form", ["hlo", "pb"])
def test_half_a_result_is_an_error(unbuffered: str, form: str, tmp_path: Path) -> None:
    def full_after_a_while() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    with open(tmp_path / "x", "wb") as target:
        done = started(
            *("parse", str(DUMP), "--format", form),
            stdout=target,
            preexec_fn=full_after_a_while,
            PYTHONUNBUFFERED=unbuffered,
            PYTHONDONTWRITEBYTECODE="1",  # a compiled file would be cut off, too, and read by the next test
        )
    assert done.returncode == 2
    assert b"error: output: File too large" in done.stderr


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_that_know_it(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert OutputOptions().style(1).color is expected


def test_a_link_to_itself_does_not_hide_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module_0001.m.after_optimizations.txt").write_text(BROKEN)
    (tmp_path / "loop").symlink_to("loop")
    for also in ([], ["--each"]):
        assert hlo("parse", str(tmp_path), *also, "--format", "json") == 0
        assert '"m"' in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="names of files there have no control characters")
@pytest.mark.parametrize("form", ["full", "concise", "summary", "github", "gitlab", "junit", "sarif"])
def test_names_of_files_reach_no_terminal_raw(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a\x1b[31mb.hlo").write_text(BROKEN)
    (tmp_path / "a\x1b[31mc.hlo").write_text(BROKEN[:40])
    assert hlo("lint", f"{tmp_path}/*.hlo", "--format", form) == 2
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "31mb" in printed.out or form == "summary"


def test_shown_paths_differ_as_the_files_do() -> None:
    paths = ["r/a/before_optimizations.txt", "r/a/after_optimizations.txt", "r/b/after_optimizations.txt", "x/../r/b/"]
    for chosen in (paths, paths[:2], [*paths, "r/b/after_optimizations.txt.gz"]):
        assert len(set(short_paths(chosen))) == len(chosen)
    assert short_paths(["a.txt", "a.txt"]) == ["a.txt", "a.txt"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("memspace", str(DUMP)), "memory.csv"),
        (("memspace", str(DUMP)), "memory.html"),
        (("lint", str(DUMP)), "findings.sarif"),
        (("parse", str(DUMP)), "module.hlo"),
        (("schedule", str(DUMP), "--reorder", "memory"), "new.hlo"),
        (("report", str(DUMP)), "report.html"),
        (("graph", str(DUMP)), "graph.svg"),
        (("layout", "f32[8,128]"), "layout.txt"),
        (("tile-index", "f32[8,128]", "--all"), "map.npy"),
        (("help", "memory"), "memory.html"),
        ((str(DUMP),), "overview.json"),
    ],
)
def test_a_file_that_was_written_is_named_with_its_size(
    arguments: tuple[str, ...], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert hlo(*arguments, "-o", str(path)) in (0, 1)
    err = capsys.readouterr().err
    assert err.endswith(f"note: wrote {path} ({format_bytes(path.stat().st_size)})\n")
    assert err.count("wrote") == 1


def test_what_is_quiet_or_went_to_standard_output_is_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hlo("memspace", str(DUMP), "-q", "-o", str(tmp_path / "memory.csv")) == 0
    assert hlo("memspace", str(DUMP), "-o", "-") == 0
    assert hlo("memspace", str(tmp_path / "none.hlo"), "-o", str(tmp_path / "new.csv")) == 2
    assert "wrote" not in capsys.readouterr().err
