"""What lies in an archive or at a URL: files, directories, and the content of each, within limits of size and time.

Nothing is unpacked to the disk: a zip is read in place; a compressed tar and what a server sends go to a file without a
name, which the system removes however this process ends.
"""

from __future__ import annotations

import io
import os
import posixpath
import queue
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.forms import (
    ARCHIVE_NAME,
    OpenFile,
    archive_above,
    beginning,
    compression_of,
    damage_errors,
    decompressed_stream,
    is_packed,
    is_remote,
    scheme_of,
)
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import tarfile
    import zipfile

Item = TypeVar("Item")

_MOST_BYTES: Final = 1 << 31
"""Bytes that a compressed tar or a server may give: as many as are read of one file."""
_MOST_MEMBERS: Final = 200_000
"""Files in an archive: per-pass dumps of the largest models have some 10,000."""
_MOST_DIRECTORY: Final = 1 << 26
"""Bytes of the table of a zip, some 300 for each file, before it is read at once."""
_BOMB: Final = 200
"""How many times its size an archive may unpack to: HLO text shrinks by 5 to 50, a bomb by 1,000 and more."""
_NO_BOMB: Final = 1 << 28
"""Bytes that any archive may unpack to."""
_DEPTH: Final = 3
"""Archives in archives, such as a dump that a build server packed again."""
_PART: Final = 1 << 20
"""Bytes that are read at once."""
_STALLED: Final = 30.0
"""Seconds without data after which a server is given up, connecting and looking up its name included."""
_LONGEST: Final = 600.0
"""Seconds for a whole transfer: 2 GiB at 3.5 MB/s."""
_KEPT_SECONDS: Final = 300
"""Seconds after which a file of a server is read anew: a command is done by then, and a program wants the news."""


# --- the places that `paths` asks for ---


def kind_of(path: str) -> str | None:
    """What is at a path in an archive or at a URL: "file", "folder", or None. HloError for a URL that does not answer.

    >>> kind_of("no/such.zip/m.txt") is None
    True
    """
    found = _place(path)
    return None if found is None else found[0].kind_of(found[1])


def has_file(path: str) -> bool:
    """Whether there is a file at a path in an archive or at a URL, as far as its directory can be listed."""
    found = _place(path)
    return found is not None and found[0].has_file(found[1])


def listing(path: str) -> tuple[list[str], list[str]]:
    """The names of the files and of the directories in an archive, in a directory of one, or at a URL."""
    found = _place(path)
    if found is None:
        raise HloError(f"directory '{path}' not found")
    return found[0].listing(found[1])


@contextmanager
def open_inside(path: str) -> Iterator[OpenFile]:
    """Opens a file in an archive or at a URL; FileNotFoundError if there is none."""
    found = _place(path)
    if found is None or found[0].kind_of(found[1]) is None:
        raise FileNotFoundError(path)
    with found[0].open(found[1]) as file:
        yield file


def matches(base: str, pattern: str) -> list[str]:
    """The paths below a directory in an archive or at a URL that a glob matches, sorted."""
    if is_remote(base) and scheme_of(base) not in ("http", "https"):
        _filesystem(f"{base}/{pattern}")  # its error names the whole pattern
    found = _place(base)
    if found is None:
        return []
    tree, inner = found
    parts = pattern.split("/")
    return sorted(posixpath.join(base, each) for each in tree.below(inner) if _fits(each.split("/"), parts))


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether the parts of a path match those of a glob, `**` any number of them.

    >>> _fits(["a", "b", "m.txt"], ["**", "*.txt"]), _fits(["a", "m.txt"], ["*.txt"])
    (True, False)
    """
    from fnmatch import fnmatchcase

    reached = {0}
    for part in parts:
        reached |= {at + 1 for at in reached if pattern[at : at + 1] == ["**"]}
        after = {at for at in reached if pattern[at : at + 1] == ["**"]}
        reached = after | {at + 1 for at in reached if at < len(pattern) and fnmatchcase(part, pattern[at])}
    return len(pattern) in reached


class Tree(Protocol):
    """Files and directories in an archive or at a server; `inner` is a path below it, empty for the tree itself."""

    def kind_of(self, inner: str) -> str | None: ...
    def has_file(self, inner: str) -> bool: ...
    def listing(self, inner: str) -> tuple[list[str], list[str]]: ...
    def below(self, inner: str) -> Iterable[str]: ...
    @contextmanager
    def open(self, inner: str) -> Iterator[OpenFile]: ...


def _place(path: str) -> tuple[Tree, str] | None:
    """The tree that a path is in, and the path in it; the innermost of archives in archives."""
    outer, inner = _outermost(path)
    if not outer:
        return None
    if is_remote(outer) and scheme_of(outer) not in ("http", "https") and not ARCHIVE_NAME.search(outer):
        return _Remote(outer), ""
    tree = _top(outer)
    for _ in range(_DEPTH):
        if tree.kind_of(inner) is not None or not isinstance(tree, _Archive):
            break
        within = next(filter(tree.is_archive, _ancestors(inner)), None)
        if within is None:
            break
        tree, inner = _nested(tree, within), inner[len(within) + 1 :]
    if isinstance(tree, _Archive) and inner and tree.is_archive(inner):
        return _nested(tree, inner), ""
    return tree, inner


def _outermost(path: str) -> tuple[str, str]:
    """The archive or URL that a path begins with, and the path in it."""
    if is_remote(path):
        host = path.find("/", path.index("://") + 3)
        found = ARCHIVE_NAME.search(path, host) if host > 0 else None
        end = path.find("/", found.end()) if found is not None else -1  # after its query, in which a slash is %2F
        return (path, "") if end < 0 else (path[:end], _normal(path[end:]))
    outer = archive_above(path)
    return outer, _normal(path[len(outer) :])


def _normal(inner: str) -> str:
    """A path in an archive without `.` and `..`, as its names are kept.

    >>> _normal("/dump/passes/../m.txt"), _normal("/")
    ('dump/m.txt', '')
    """
    path = posixpath.normpath(inner.replace(os.sep, "/").strip("/"))
    return "" if path == "." else path


def _ancestors(inner: str) -> Iterator[str]:
    parts = inner.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _top(outer: str) -> Tree:
    """The archive or the single file at a path outside of any archive."""
    if is_remote(outer):
        return _sent(outer, _period())
    status = os.stat(outer)
    return _on_disk(outer, status.st_mtime_ns, status.st_size, status.st_ino)


# Few are kept: a command reads one or two archives, each of them many times.
@lru_cache(maxsize=4)
def _on_disk(path: str, *_state: int) -> Tree:
    with open(path, "rb", buffering=0) as file:
        return _tree_of(_Window.copied(file), path)


@lru_cache(maxsize=4)
def _sent(url: str, _period: int) -> Tree:
    chunks = _http_chunks(url) if scheme_of(url) in ("http", "https") else _fsspec_chunks(url)
    tree = _tree_of(_stored(_in_time(chunks, url), url), url)
    if isinstance(tree, _Archive) and not ARCHIVE_NAME.search(url):  # the paths in it could not be told from URLs
        words = f"{shown(url)} is an archive, and its name does not say so"
        raise HloError(words, hint="download it, and pass the file")
    return tree


@lru_cache(maxsize=4)
def _nested(outer: _Archive, inner: str) -> Tree:
    name = posixpath.join(outer.name, inner)
    with outer.open(inner) as file:
        return _tree_of(_stored(_parts_of(file.stream), name), name)


def _parts_of(stream: Any) -> Iterator[bytes]:
    while part := stream.read(_PART):
        yield part


def _tree_of(window: _Window, name: str) -> Tree:
    """The archive in a file, or the file itself."""
    head = window.at(0, 1 << 9)
    kind = compression_of(head)
    if kind is not None:
        if not is_packed(beginning(window.at(0, _PART), 1 << 9)):
            return _Single(window)
        window = _decompressed(window, kind, name)
        head = window.at(0, 1 << 9)
    if not is_packed(head):
        return _Single(window)
    return _zip(window, name) if head.startswith(b"PK") else _tar(window, name)


# --- files without a name ---


class _Descriptor:
    """A file of the system that is closed when nothing reads from it any more."""

    def __init__(self, file: Any) -> None:
        self._number = os.dup(file.fileno())

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._number)

    def at(self, place: int, count: int) -> bytes:
        """Bytes at a place."""
        if hasattr(os, "pread"):
            return os.pread(self._number, count, place)
        os.lseek(self._number, place, os.SEEK_SET)  # Windows, which does not copy processes either
        return os.read(self._number, count)


class _Window(io.RawIOBase):
    """A part of a file with a position of its own, so that copies of this process can read it too."""

    def __init__(self, file: _Descriptor, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self.size, self._position = file, start, size, 0

    @classmethod
    def copied(cls, file: Any) -> _Window:
        """All of a file, which may be closed after."""
        return cls(_Descriptor(file), 0, os.fstat(file.fileno()).st_size)

    def part(self, start: int, size: int) -> _Window:
        """A part of this part."""
        return _Window(self._file, self._start + start, max(min(size, self.size - start), 0))

    def at(self, start: int, count: int) -> bytes:
        """Bytes at a place."""
        return self._file.at(self._start + start, max(min(count, self.size - start), 0))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._position = max(offset + (0, self._position, self.size)[whence], 0)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        data = self.at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def _stored(parts: Iterable[bytes], name: str, limit: int = _MOST_BYTES) -> _Window:
    """Parts of a file in a file without a name; HloError if they are too many."""
    size = 0
    with tempfile.TemporaryFile(buffering=0) as file:
        for part in parts:
            size += len(part)
            if size > limit:
                raise HloError(f"{name} has more than {limit:,} bytes", hint="pass a part of it")
            file.write(part)
        return _Window.copied(file)


def _unpacked_limit(packed: int) -> int:
    """The bytes that an archive of a size may unpack to.

    >>> _unpacked_limit(1000), _unpacked_limit(1 << 30)
    (268435456, 2147483648)
    """
    return min(max(_NO_BOMB, _BOMB * packed), _MOST_BYTES)


def _decompressed(window: _Window, kind: str, name: str) -> _Window:
    try:
        stream, limit = decompressed_stream(io.BufferedReader(window), kind), _unpacked_limit(window.size)
        return _stored(_parts_of(stream), f"{name}, unpacked,", limit)
    except EOFError:
        raise HloError(f"truncated {kind} data in {name}", hint="copy the file again") from None
    except damage_errors() as error:
        raise HloError(f"invalid {kind} data in {name}: {error}", hint="copy the file again") from None


class _Single:
    """A file that is no archive."""

    def __init__(self, window: _Window) -> None:
        self._window = window

    def kind_of(self, inner: str) -> str | None:
        return None if inner else "file"

    def has_file(self, inner: str) -> bool:
        return not inner

    def listing(self, inner: str) -> tuple[list[str], list[str]]:
        return [], []

    def below(self, inner: str) -> Iterable[str]:
        return ()

    @contextmanager
    def open(self, inner: str) -> Iterator[OpenFile]:
        if inner:
            raise FileNotFoundError(inner)
        yield OpenFile(self._window.part(0, self._window.size), self._window.size)


# --- archives ---


@dataclass(frozen=True, slots=True)
class _Member:
    """One file in an archive: its size, and what opens it."""

    size: int
    opener: Callable[[], Any]


_COPY_AGAIN: Final = "copy the archive again"


class _Archive:
    """The files of an archive by their path, and the names in each of its directories."""

    def __init__(self, name: str, members: Mapping[str, _Member]) -> None:
        self.name, self._members = name, members
        self._folders: dict[str, tuple[set[str], set[str]]] = {"": (set(), set())}
        for path in members:
            folder, _, base = path.rpartition("/")
            self._folders.setdefault(folder, (set(), set()))[0].add(base)
            while folder:
                above, _, base = folder.rpartition("/")
                self._folders.setdefault(above, (set(), set()))[1].add(base)
                folder = above

    def kind_of(self, inner: str) -> str | None:
        return "file" if inner in self._members else "folder" if inner in self._folders else None

    def has_file(self, inner: str) -> bool:
        return inner in self._members

    def is_archive(self, inner: str) -> bool:
        """Whether a file in it is named as an archive."""
        return inner in self._members and ARCHIVE_NAME.search(inner) is not None

    def listing(self, inner: str) -> tuple[list[str], list[str]]:
        files, folders = self._folders.get(inner, (set(), set()))
        return sorted(files), sorted(folders)

    def below(self, inner: str) -> Iterable[str]:
        head = f"{inner}/" if inner else ""
        paths = (*self._members, *self._folders)
        return (path[len(head) :] for path in paths if path.startswith(head) and path != inner)

    @contextmanager
    def open(self, inner: str) -> Iterator[OpenFile]:
        member = self._members.get(inner)
        if member is None:
            raise FileNotFoundError(inner)
        with member.opener() as stream:
            yield OpenFile(stream, member.size)


def _member_path(name: str) -> str:
    """The path of a member; empty for one that would leave the archive, and for what macOS adds to archives."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or not parts or parts[0] == "__MACOSX" or parts[-1].startswith("._"):
        return ""
    return "/".join(parts)


def _archive(name: str, found: Iterable[tuple[str, _Member]]) -> _Archive:
    members: dict[str, _Member] = {}
    for path, member in found:
        if path:
            members[path] = member
        if len(members) > _MOST_MEMBERS:
            raise HloError(f"{name} has more than {_MOST_MEMBERS:,} files", hint="pass a part of it")
    return _Archive(name, members)


def _zip(window: _Window, name: str) -> _Archive:
    import zipfile

    _check_zip_table(window, name)
    try:
        file = zipfile.ZipFile(io.BufferedReader(window))
        infos = file.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise HloError(f"{name} is a damaged zip archive: {error}", hint="copy the file again") from None
    total = sum(info.file_size for info in infos)
    if total > max(_NO_BOMB, _BOMB * window.size):
        words = f"{name} unpacks to {total:,} bytes, {total // window.size:,} times its size"
        raise HloError(words, hint="if this is intended, unpack it first, and pass the directory")
    named = ((_member_path(info.filename), info) for info in infos if not info.is_dir())
    return _archive(name, ((path, _zip_member(file, info, f"{name}/{path}")) for path, info in named))


def _zip_member(file: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> _Member:
    return _Member(info.file_size, lambda: _zip_stream(file, info, name))


_END_OF_ZIP: Final = b"PK\x05\x06"
_END_BYTES: Final = 22 + (1 << 16)
"""Bytes of the record that ends a zip, with its comment."""


def _check_zip_table(window: _Window, name: str) -> None:
    """HloError for a zip whose table of files is too large to be read at once."""
    tail = window.at(max(window.size - _END_BYTES, 0), _END_BYTES)
    at = tail.rfind(_END_OF_ZIP)
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    if size > _MOST_DIRECTORY:  # 2^32 - 1 for one of more than 65,535 files with a table of 4 GiB
        raise HloError(f"{name} has too many files (limit {_MOST_MEMBERS:,})", hint="unpack a part of it")


@contextmanager
def _zip_stream(file: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[Any]:
    """The content of a member; HloError, also while it is read, for a damaged or encrypted one."""
    import zipfile

    if info.flag_bits & 1:
        raise HloError(f"{name} is encrypted", hint="unpack it with its password, and pass the directory")
    try:
        with file.open(info) as stream:
            yield stream
    except NotImplementedError as error:  # a method of compression that Python lacks
        raise HloError(f"cannot read {name}: {error}", hint="unpack it first, and pass the directory") from None
    except EOFError:
        raise HloError(f"{name} is truncated", hint=_COPY_AGAIN) from None
    except zipfile.BadZipFile as error:
        raise HloError(f"{name} is damaged: {error}", hint=_COPY_AGAIN) from None
    except damage_errors() as error:
        raise HloError(f"{name} is damaged: {error}", hint=_COPY_AGAIN) from None


def _tar(window: _Window, name: str) -> _Archive:
    import tarfile

    try:
        with tarfile.open(fileobj=io.BufferedReader(window), mode="r:") as file:
            return _archive(name, _tar_members(file, window, name))
    except (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError) as error:
        raise HloError(f"{name} is a damaged tar archive: {error}", hint="copy the file again") from None


def _tar_members(file: tarfile.TarFile, window: _Window, name: str) -> Iterator[tuple[str, _Member]]:
    """The regular files; links and devices are left out, and a member that is cut says so when it is read."""
    for info in file:
        if info.isreg() and not info.issparse():
            path = _member_path(info.name)
            yield path, _Member(info.size, _tar_opener(window, info.offset_data, info.size, f"{name}/{path}"))


def _tar_opener(window: _Window, start: int, size: int, name: str) -> Callable[[], _Window]:
    def opener() -> _Window:
        if start + size > window.size:
            raise HloError(f"{name} is truncated", hint=_COPY_AGAIN)
        return window.part(start, size)

    return opener


# --- servers ---


_INSTALL: Final = "pip install 'hlo-cli[remote]'"
_LONGEST_SHOWN: Final = 500  # a longer URL, such as a signed link with its keys, is of no use in a message


_DOWNLOADS: Final = {
    "gs": "gcloud storage cat {}",
    "s3": "aws s3 cp {} -",
    "hdfs": "hdfs dfs -cat {}",
}
"""The commands that write what a URL names to standard output, by scheme."""
_COPIES: Final = {
    "gs": "gcloud storage cp -r {} dump/",
    "s3": "aws s3 cp --recursive {} dump/",
    "hdfs": "hdfs dfs -get {} dump/",
}
"""The commands that copy a directory."""


class _Remote:
    """A file or a directory at a server that fsspec knows."""

    def __init__(self, url: str) -> None:
        self._url = url

    def kind_of(self, inner: str) -> str | None:
        return _type_at(_joined(self._url, inner), _period())

    def has_file(self, inner: str) -> bool:
        """By the list of its directory, asked once for all the files that may lie beside a dump."""
        folder, _, base = _joined(self._url, inner).rpartition("/")
        with suppress(HloError):  # a store may give files and no lists
            return base in _names_at(folder, _period())[0]
        return False

    def listing(self, inner: str) -> tuple[list[str], list[str]]:
        return _names_at(_joined(self._url, inner), _period())

    def below(self, inner: str) -> Iterable[str]:
        pending = [""]
        while pending:
            folder = pending.pop()
            files, folders = self.listing(posixpath.join(inner, folder))
            yield from (posixpath.join(folder, each) for each in (*files, *folders))
            pending += [posixpath.join(folder, each) for each in folders]

    @contextmanager
    def open(self, inner: str) -> Iterator[OpenFile]:
        with _sent(_joined(self._url, inner), _period()).open("") as file:
            yield file


def _joined(url: str, inner: str) -> str:
    return f"{url.rstrip('/')}/{inner}" if inner else url


def _period() -> int:
    return int(time.monotonic()) // _KEPT_SECONDS


@lru_cache(maxsize=1 << 12)
def _type_at(url: str, _now: int) -> str | None:
    def ask() -> Iterator[str | None]:
        system, path = _filesystem(url)
        try:
            yield "folder" if system.info(path)["type"] == "directory" else "file"
        except FileNotFoundError:
            yield None

    return next(_in_time(ask(), url))


@lru_cache(maxsize=1 << 6)
def _names_at(url: str, _now: int) -> tuple[list[str], list[str]]:
    def ask() -> Iterator[tuple[list[str], list[str]]]:
        system, path = _filesystem(url)
        found = system.ls(path, detail=True)
        named = [(posixpath.basename(str(each["name"]).rstrip("/")), each["type"] == "directory") for each in found]
        own = posixpath.basename(path.rstrip("/"))  # object stores list a directory as one of its own files
        files = sorted(name for name, is_folder in named if not is_folder and name and name != own)
        yield files, sorted(name for name, is_folder in named if is_folder and name)

    return next(_in_time(ask(), url))


def _filesystem(url: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path in it; HloError if a package is not installed."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise HloError(f"{shown(url)} needs fsspec, which is not installed", hint=_hint(_other_way(url))) from None
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        raise HloError(f"cannot read {shown(url)}: {error}", hint=_hint(_other_way(url))) from None
    return system, str(path)


def _other_way(url: str) -> str:
    """The command that brings the content of a URL here without `hlo`; empty if none is known.

    >>> _other_way("gs://bucket/dump/module.txt"), _other_way("gs://bucket/dump/")
    ('gcloud storage cat gs://bucket/dump/module.txt | hlo -', 'gcloud storage cp -r gs://bucket/dump/ dump/')
    """
    scheme = scheme_of(url)
    if scheme not in _DOWNLOADS or len(url) > _LONGEST_SHOWN:
        return ""
    if url.endswith("/") or "*" in url:
        return _COPIES[scheme].format(quote(url))
    return f"{_DOWNLOADS[scheme].format(quote(url))} | hlo -"


def _hint(other: str) -> str:
    return f"run `{_INSTALL}`" + (f", or `{other}`" if other else "")


def shown(url: str) -> str:
    """A URL in a message: without its password, and not longer than is of use.

    >>> shown("https://me:secret@example.org/m.txt")
    'https://example.org/m.txt'
    """
    return re.sub(r"(?<=://)[^/@]{0,300}@", "", url[:_LONGEST_SHOWN])


def _fsspec_chunks(url: str) -> Iterator[bytes]:
    system, path = _filesystem(url)
    with system.open(path, "rb") as file:
        yield from _parts_of(file)


def _http_chunks(url: str) -> Iterator[bytes]:
    """What a server sends for a URL; redirects are followed to http and https only."""
    from urllib import error, request

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    asked = request.Request(url.partition("#")[0], headers={"User-Agent": "hlo", "Accept": "*/*"})
    try:
        answer = opener.open(asked, timeout=_STALLED)
    except error.HTTPError as refused:
        refused.close()
        raise
    with answer as response:
        declared = response.headers.get("Content-Length", "")
        size = int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else None
        if size is not None and size > _MOST_BYTES:
            raise HloError(f"{shown(url)} has {size:,} bytes; the limit is {_MOST_BYTES:,}", hint="pass a part of it")
        received = 0
        while part := response.read1(_PART):
            received += len(part)
            yield part
        if size is not None and received < size:
            raise HloError(f"{shown(url)} ended after {received:,} of {size:,} bytes", hint="try again")


class _Stopped(Exception):
    """Nobody waits for the answer any more."""


def _in_time(items: Iterator[Item], url: str) -> Iterator[Item]:
    """The items of an iterator that asks a server; HloError for its errors, and if it is silent or takes too long.

    It runs in a thread: neither the lookup of a name nor a server that sends a byte now and then has a limit otherwise.
    """
    answers: queue.Queue[tuple[Item | None, Exception | None]] = queue.Queue(maxsize=4)
    is_over = threading.Event()

    def put(item: Item | None, error: Exception | None) -> None:
        while not is_over.is_set():
            with suppress(queue.Full):
                answers.put((item, error), timeout=_PATIENCE)
                return
        raise _Stopped

    def ask() -> None:
        with suppress(_Stopped):
            try:
                for item in items:
                    put(item, None)
                put(None, StopIteration())
            except _Stopped:
                raise
            except Exception as error:  # noqa: BLE001 - each store of fsspec has errors of its own
                put(None, error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield from _answered(answers, url)
        thread.join(_PATIENCE)  # processes are copied only while no other thread runs
    finally:
        is_over.set()


_PATIENCE: Final = 0.2
"""Seconds between two looks at whether anybody still waits."""


def _answered(answers: queue.Queue[tuple[Item | None, Exception | None]], url: str) -> Iterator[Item]:
    end = time.monotonic() + _LONGEST
    while True:
        try:
            item, error = answers.get(timeout=max(min(_STALLED, end - time.monotonic()), 0))
        except queue.Empty:
            if time.monotonic() < end:
                raise _silent_error(url) from None
            words = f"{shown(url)} takes more than {_LONGEST:g} seconds"
            raise HloError(words, hint="download it first, and pass the file") from None
        if isinstance(error, StopIteration):
            return
        if error is not None:
            raise _remote_error(error, url) from None
        yield cast("Item", item)
        if time.monotonic() >= end:  # a server that sends a little all the time
            raise HloError(f"{shown(url)} takes more than {_LONGEST:g} seconds", hint="download it first") from None


def _silent_error(url: str) -> HloError:
    """The error of a server that accepts the connection and sends nothing."""
    hint = "download it first, and pass the file"
    return HloError(f"{shown(url)} sent nothing for {_STALLED:g} seconds", hint=hint)


def _remote_error(error: Exception, url: str) -> HloError:
    """The error of a server, or of the way to it, as one line."""
    if isinstance(error, HloError):
        return error
    if isinstance(error, FileNotFoundError):
        return HloError(f"{shown(url)} not found")
    if isinstance(error, TimeoutError):  # the socket noticed it before the reader did
        return _silent_error(url)
    code = getattr(error, "code", None)
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    reason = (getattr(reason, "strerror", None) or str(reason)).partition("\n")[0]
    words = f"{code} {reason}" if isinstance(code, int) else f"{reason[:1].lower()}{reason[1:_LONGEST_SHOWN]}"
    hint = "log in with the tool of the store, or pass a signed URL" if code in (401, 403) else None
    return HloError(f"cannot read {shown(url)}: {words}", hint=hint)
