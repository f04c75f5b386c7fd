"""What a path may be besides a file: archives, places in them, and URLs; each answers as the directory does, or says why not."""

from __future__ import annotations

import gzip
import http.server
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from hlo_cli import cli
from hlo_cli.inputs import containers
from hlo_cli.inputs.input import read_inputs
from hlo_cli.read_traces import find_traces
from hlo_cli.source import HloError
from processes import until

DUMP = Path("fixtures/tpu/v5e_conv").resolve()
NAME = "after_optimizations.txt"
FILES: Mapping[str, bytes] = {
    f"dump/{path.name}": path.read_bytes()
    for path in sorted(DUMP.iterdir())
    if path.name.startswith(("after", "before"))
}


def zipped(files: Mapping[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)


def tarred(mode: str) -> Callable[[Mapping[str, bytes], Path], None]:
    def pack(files: Mapping[str, bytes], path: Path) -> None:
        with tarfile.open(path, f"w{mode}") as file:  # type: ignore[call-overload]
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))

    return pack


def tar_zst(files: Mapping[str, bytes], path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    tarred("")(files, path)
    path.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))


PACKERS: Mapping[str, Callable[[Mapping[str, bytes], Path], None]] = {
    "d.zip": zipped,
    "d.tar": tarred(""),
    "d.tar.gz": tarred(":gz"),
    "d.tar.bz2": tarred(":bz2"),
    "d.tar.xz": tarred(":xz"),
    "d.tar.zst": tar_zst,
    "artifact": zipped,
}


def words(capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str, str]:
    code = cli.main(list(line), standalone=False)
    out, err = capsys.readouterr()
    return code, out, err


def error_of(path: str) -> HloError:
    with pytest.raises(HloError) as caught:
        read_inputs([path])
    return caught.value


# --- archives ---


@pytest.mark.parametrize("name", PACKERS)
def test_an_archive_stands_for_its_directory(name: str, tmp_path: Path) -> None:
    PACKERS[name](FILES, tmp_path / name)
    whole, alone, matched, plain = (
        read_inputs([path])[0]
        for path in (
            f"{tmp_path}/{name}",
            f"{tmp_path}/{name}/dump/{NAME}",
            f"{tmp_path}/{name}/dump/aft*s.txt",
            str(DUMP),
        )
    )
    assert whole.path == alone.path == matched.path == f"{tmp_path}/{name}/dump/{NAME}"
    assert whole.source.text == alone.source.text == matched.source.text == plain.source.text
    assert whole.siblings.keys() == plain.siblings.keys() != set()
    assert whole.choice == (plain.choice or "").replace(str(DUMP), f"{tmp_path}/{name}/dump")


@pytest.mark.parametrize("command", ["memspace", "lint", "schedule", "overview", "layout"])
def test_commands_answer_alike(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    zipped(FILES, tmp_path / "d.zip")
    with zipfile.ZipFile(tmp_path / "d.zip") as file:
        file.extractall(tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    packed, plain = words(capsys, command, "d.zip"), words(capsys, command, "d")
    assert packed == (plain[0], plain[1].replace("d/dump", "d.zip/dump"), plain[2].replace("d/dump", "d.zip/dump"))


def test_two_archives_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {name: data.replace(b"bf16", b"f16") if name.endswith(NAME) else data for name, data in FILES.items()}
    for name, files in (("a.zip", FILES), ("b.tar.gz", FILES), ("c.zip", other)):
        PACKERS["d.zip" if name.endswith("zip") else "d.tar.gz"](files, tmp_path / name)
    assert words(capsys, "diff", f"{tmp_path}/a.zip", f"{tmp_path}/b.tar.gz")[0] == 0
    assert words(capsys, "diff", f"{tmp_path}/a.zip", f"{tmp_path}/c.zip", "--exit-code")[0] == 1


def test_traces_in_an_archive(tmp_path: Path) -> None:
    trace = Path("fixtures/traces/cpu_steps/trace.xplane.pb").read_bytes()
    zipped({"plugins/profile/2025_06_01_12_00_00/host.xplane.pb": trace}, tmp_path / "t.zip")
    assert find_traces(f"{tmp_path}/t.zip").paths == (
        f"{tmp_path}/t.zip/plugins/profile/2025_06_01_12_00_00/host.xplane.pb",
    )


def test_an_archive_in_an_archive(tmp_path: Path) -> None:
    tarred(":gz")(FILES, tmp_path / "d.tar.gz")
    zipped({"d.tar.gz": (tmp_path / "d.tar.gz").read_bytes()}, tmp_path / "o.zip")
    assert read_inputs([f"{tmp_path}/o.zip/d.tar.gz"])[0].path == f"{tmp_path}/o.zip/d.tar.gz/dump/{NAME}"
    assert error_of(f"{tmp_path}/o.zip").diagnostic.hint == f"did you mean '{tmp_path}/o.zip/d.tar.gz/'?"


def test_names_that_would_leave_an_archive_are_not_in_it(tmp_path: Path) -> None:
    tarred("")(
        {"../../etc/m.txt": b"HloModule m", "__MACOSX/._m.txt": b"\0", "a/./m.txt": b"HloModule m"}, tmp_path / "e.tar"
    )
    assert containers.listing(f"{tmp_path}/e.tar") == ([], ["a"])
    assert read_inputs([f"{tmp_path}/e.tar/b/../a/m.txt"])[0].module == "m"


def test_missing_members(tmp_path: Path) -> None:
    zipped(FILES, tmp_path / "d.zip")
    error = error_of(f"{tmp_path}/d.zip/dump/after_optimisations.txt")
    assert error.diagnostic.message.endswith("/d.zip/dump/after_optimisations.txt' not found")
    assert error.diagnostic.hint == f"did you mean '{tmp_path}/d.zip/dump/{NAME}'?"
    assert error_of(f"{tmp_path}/d.zip/no/m.txt").diagnostic.message == f"directory '{tmp_path}/d.zip/no' not found"


def test_damaged_archives(tmp_path: Path) -> None:
    zipped(FILES, tmp_path / "d.zip")
    whole = (tmp_path / "d.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:1000])
    assert "cut.zip is a damaged zip archive" in str(error_of(f"{tmp_path}/cut.zip"))
    middle = bytearray(whole)
    with zipfile.ZipFile(tmp_path / "d.zip") as file:
        start = file.getinfo(f"dump/{NAME}").header_offset + 200
    middle[start : start + 200] = bytes(200)
    (tmp_path / "bad.zip").write_bytes(middle)
    assert f"bad.zip/dump/{NAME} is damaged" in str(error_of(f"{tmp_path}/bad.zip"))
    encrypted = bytearray(whole)
    for match in re.finditer(rb"PK\x01\x02", whole):
        encrypted[match.start() + 8] |= 1
    (tmp_path / "key.zip").write_bytes(encrypted)
    assert f"{NAME} is encrypted" in str(error_of(f"{tmp_path}/key.zip"))
    tarred("")({"m.txt": b"HloModule m" * 1000}, tmp_path / "d.tar")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "d.tar").read_bytes()[:2000])
    assert "cut.tar is a damaged tar archive: unexpected end of data" in str(error_of(f"{tmp_path}/cut.tar"))
    packed = gzip.compress((tmp_path / "d.tar").read_bytes())
    (tmp_path / "cut.tar.gz").write_bytes(packed[:-20])
    assert "truncated gzip data in" in str(error_of(f"{tmp_path}/cut.tar.gz"))


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_NO_BOMB", 1 << 20)
    zipped({"m.txt": bytes(1 << 22)}, tmp_path / "b.zip")
    assert "unpacks to 4,194,304 bytes" in str(error_of(f"{tmp_path}/b.zip"))
    tarred(":gz")({"m.txt": bytes(1 << 22)}, tmp_path / "b.tar.gz")
    assert "b.tar.gz, unpacked, has more than 1,048,576 bytes" in str(error_of(f"{tmp_path}/b.tar.gz"))
    monkeypatch.setattr(containers, "_MOST_MEMBERS", 3)
    zipped({f"{number}.txt": b"" for number in range(9)}, tmp_path / "many.zip")
    assert "has more than 3 files" in str(error_of(f"{tmp_path}/many.zip"))


def test_a_changed_archive_is_read_again(tmp_path: Path) -> None:
    zipped({"m.txt": b"HloModule a\n\nENTRY e { ROOT p = f32[] parameter(0) }"}, tmp_path / "d.zip")
    assert read_inputs([f"{tmp_path}/d.zip"])[0].module == "a"
    zipped({"m.txt": b"HloModule bb\n\nENTRY e { ROOT p = f32[] parameter(0) }"}, tmp_path / "d.zip")
    assert read_inputs([f"{tmp_path}/d.zip"])[0].module == "bb"


# --- servers ---

TEXT = FILES[f"dump/{NAME}"]


class Handler(http.server.BaseHTTPRequestHandler):
    """A server that is well, moved, missing, wrong about its length, silent, slow, or endless."""

    archive = b""
    many = b""
    requested: ClassVar[Counter[str]] = Counter()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def handle_one_request(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked was interrupted
            super().handle_one_request()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.requested[path] += 1
        if path in ("/ok", f"/{NAME}"):
            self._send(TEXT)
        elif path in ("/d.tar.gz", "/download"):
            self._send(self.archive)
        elif path == "/many.zip":
            self._send(self.many)
        elif path == "/moved":
            self._moved("/ok")
        elif path == "/loop":
            self._moved("/loop")
        elif path == "/to-disk":
            self._moved("file:///etc/hostname")
        elif path == "/cut":
            self._send(TEXT, len(TEXT) + 10)
        elif path == "/huge":
            self._send(b"", 1 << 40)
        elif path in ("/silent", "/slow"):
            self._send(b"HloModule m\n", 1 << 20)
            while path == "/slow" and not self.server.is_over.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write(b"\n")
                self.wfile.flush()
            self.server.is_over.wait(20)  # type: ignore[attr-defined]
        else:
            self.send_error(403 if path == "/secret" else 404)

    def _moved(self, where: str) -> None:
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, data: bytes, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("served") / "d.tar.gz"
    tarred(":gz")(FILES, path)
    Handler.archive = path.read_bytes()
    many = tmp_path_factory.mktemp("served") / "many.zip"
    zipped({f"module_{number:04}.jit_f{number}.after_optimizations.txt": TEXT for number in range(6)}, many)
    Handler.many = many.read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.is_over = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    before = os.environ.get("no_proxy")
    os.environ["no_proxy"] = "*"
    yield f"http://127.0.0.1:{server.server_port}"
    os.environ.pop("no_proxy") if before is None else os.environ.update(no_proxy=before)
    server.is_over.set()  # type: ignore[attr-defined]
    server.shutdown()


@pytest.mark.parametrize(
    "path", ["/ok", "/moved", "/ok?token=1", f"/{NAME}", "/d.tar.gz", "/d.tar.gz?token=1", f"/d.tar.gz/dump/{NAME}"]
)
def test_urls_are_read(path: str, url: str) -> None:
    [found] = read_inputs([url + path])
    assert found.source.text.encode() == TEXT
    assert found.source.name.startswith(url)


def test_a_url_in_commands(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words(capsys, f"{url}/d.tar.gz")[0] == 0
    assert words(capsys, "diff", f"{url}/ok", str(DUMP / NAME))[0] == 0
    assert (
        words(capsys, "memspace", f"{url}/ok#2")[2]
        == f"error: module '{url}/ok#2' not found: {url}/ok contains 1 module\n"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/missing", "cannot read {}: 404 Not Found"),
        ("/secret", "cannot read {}: 403 Forbidden"),
        ("/loop", "cannot read {}: 302 The HTTP server returned a redirect error that would lead to an infinite loop."),
        ("/to-disk", "cannot read {}: 302 Found - Redirection to url 'file:///etc/hostname' is not allowed"),
        ("/cut", f"{{}} ended after {len(TEXT):,} of {len(TEXT) + 10:,} bytes"),
        ("/huge", "{} has 1,099,511,627,776 bytes; the limit is 2,147,483,648"),
        ("/download", "{} is an archive, and its name does not say so"),
    ],
)  # fmt: skip
def test_what_servers_refuse(path: str, message: str, url: str) -> None:
    assert error_of(url + path).diagnostic.message == message.format(url + path)


def test_waits_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_STALLED", 0.2)
    assert error_of(f"{url}/silent").diagnostic.message == f"{url}/silent sent nothing for 0.2 seconds"
    monkeypatch.setattr(containers, "_LONGEST", 0.4)
    began = time.monotonic()
    assert error_of(f"{url}/slow").diagnostic.message == f"{url}/slow takes more than 0.4 seconds"
    assert time.monotonic() - began < 5


def test_an_archive_is_sent_once_for_all_processes(url: str) -> None:
    """In a program of its own, as processes are copied only while it has no other thread."""
    line = [
        sys.executable,
        "-m",
        "hlo_cli",
        "lint",
        f"{url}/many.zip",
        "--jobs",
        "3",
        "--exit-zero",
        "--format",
        "json",
    ]
    Handler.requested.clear()
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert Handler.requested == {"/many.zip": 1}


@pytest.mark.parametrize("path", ["/silent", "/slow"])
def test_an_interrupt_ends_a_download_quietly(path: str, url: str) -> None:
    Handler.requested.clear()
    line = [sys.executable, "-m", "hlo_cli", url + path]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: Handler.requested[path] > 0)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")
    assert time.monotonic() - began < 5


def test_nothing_listens() -> None:
    message = error_of("http://127.0.0.1:1/m.txt").diagnostic.message
    assert message == "cannot read http://127.0.0.1:1/m.txt: connection refused"


def test_a_password_is_not_shown() -> None:
    assert "secret" not in error_of("http://me:secret@127.0.0.1:1/m.txt").diagnostic.message


# --- stores of fsspec ---


@pytest.fixture
def store() -> str:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name, data in FILES.items():
        system.pipe(f"/bucket/{name}", data)
    system.pipe("/bucket/d.tar.gz", b"")
    return "memory://bucket"


def test_a_store_is_a_directory(store: str, tmp_path: Path) -> None:
    [whole] = read_inputs([f"{store}/dump"])
    [alone] = read_inputs([f"{store}/dump/{NAME}"])
    [matched] = read_inputs([f"{store}/dump/aft*s.txt"])
    assert whole.path == alone.path == matched.path == f"{store}/dump/{NAME}"
    assert whole.siblings.keys() == alone.siblings.keys() != set()
    assert str(error_of(f"{store}/dump/no.txt")).startswith(f"error: file '{store}/dump/no.txt' not found")
    assert "is empty" in str(error_of(f"{store}/d.tar.gz"))


def test_unknown_stores() -> None:
    pytest.importorskip("fsspec")
    assert error_of("cns://cell/m.txt").diagnostic.message == "cannot read cns://cell/m.txt: protocol not known: cns"
