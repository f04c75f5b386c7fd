"""The modules in what runtimes store: PJRT's executables, entries of JAX's compilation cache, snapshots, and traces.

An entry of the cache is an executable behind its time of compilation and a description; both are behind zstd or zlib,
which `files.py` undoes. The executables of CPUs and GPUs are an `ExecutableAndOptionsProto`, that of a TPU is a
`TpuExecutableProto`, which is not public: its fields were found by reading those of eight kinds of chips. All but those
of CPUs are stored as Riegeli records, since a message of protobuf ends at 2 GB.

Mirrors jax/_src/compilation_cache.py, xla/python/pjrt_ifrt/{pjrt_executable,executable_metadata}, xla/pjrt/proto,
xla/service/gpu/gpu_executable.proto, and xla/util/split_proto of XLA; github.com/google/riegeli.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from hlo_cli.source import HloError
from hlo_cli.wire import (
    LONGEST_VARINT,
    WireError,
    all_bytes,
    bytes_in,
    field,
    field_spans,
    first_span,
    number_at,
    number_in,
    read_fields,
    read_numbers,
    spans_of,
)

BEFORE, AFTER = "before_optimizations", "after_optimizations"
"""The stages of the modules in an executable, named as in dumps."""
_RUNTIME: Final = b"pjrt_ifrt"
"""Field 2 of `SerializedXlaExecutableMetadata`: the runtime that wrote it."""
_LONGEST: Final = 1 << 26
"""Bytes of a description that are read: it has some hundred for each argument and result."""
_SECONDS: Final = 4
"""The bytes of the time of compilation at the begin of a cache entry, a big-endian number of seconds."""


class StoredModule(NamedTuple):
    """A module in an executable: the bytes of a message that holds it, its name, target (`cpu`), and stage.

    `options` are the bytes of the `CompileOptionsProto` with the flags of the compilation; None if they are not there.
    """

    proto: bytes
    name: str
    target: str
    stage: str
    options: bytes | None = None


def looks_like_executable(head: bytes) -> bool:
    """Whether data begins as an executable or a cache entry does; `modules_in_executable` tells.

    >>> looks_like_executable(_RIEGELI), looks_like_executable(b"\\n\\x05jit_f")
    (True, False)
    """
    return (
        head.startswith(_RIEGELI) or _snapshot_at(head) is not None or _RUNTIME in head[: _SECONDS + 2 * LONGEST_VARINT]
    )


def modules_in_executable(data: bytes, name: str, *, limit: int) -> tuple[StoredModule, ...]:
    """The modules in an executable, the program as it runs last; none if the data is something else.

    `limit` bounds the bytes of decompressed records. HloError for an executable that is corrupt or has no module.

    >>> modules_in_executable(b"\\n\\x05jit_f", "m.pb", limit=100)
    ()
    """
    if (framed := _snapshot_at(data)) is not None:
        return (_of_snapshot(data[slice(*framed)], name),)
    executable = _without_description(data)
    is_certain = executable is not data or data.startswith(_RIEGELI)
    try:
        modules = tuple(_modules_of(executable, limit))
    except WireError as error:
        if not is_certain:
            return ()
        raise HloError(f"{name} is a corrupt executable: {error.diagnostic.message}", hint=_AGAIN) from None
    if is_certain and not modules:
        raise HloError(f"{name} is an executable without HLO", hint="pass a dump of the program")
    return modules


# --- snapshots ---
# `--xla_dump_hlo_unoptimized_snapshots` writes a message behind its length, and the arguments behind it.


def _snapshot_at(data: bytes) -> tuple[int, int] | None:
    """Where the message is if data begins with the length of a `HloUnoptimizedSnapshot`; the end may not be there."""
    with suppress(WireError):
        length, start = number_at(data, 0, min(len(data), LONGEST_VARINT))
        if start == 1 and length == data[0] == 0x0A:  # a message without its length begins with the tag of field 1
            return None
        module, inner = data[start : start + 1], number_at(data, start + 1, len(data))[1]
        if module == data[inner : inner + 1] == b"\n" and length > inner - start:  # a module, and in it a name
            return start, start + length
    return None


def _of_snapshot(snapshot: bytes, name: str) -> StoredModule:
    try:
        module = _at(snapshot, (1,))
        return StoredModule(snapshot, _name_of(module), "", BEFORE)
    except WireError as error:
        raise HloError(f"{name} is a corrupt snapshot: {error.diagnostic.message}", hint=_AGAIN) from None


_AGAIN: Final = "copy the file again; it may be truncated"


def _without_description(data: bytes) -> bytes:
    """The serialized executable in a cache entry or behind its description; the data itself if it has neither."""
    for start in (0, _SECONDS):
        with suppress(WireError):
            length, at = number_at(data, start, len(data))
            if dict(read_fields(data[at : at + min(length, _LONGEST)])).get(2) == _RUNTIME:
                return data[at + length :]
    return data


# --- which executable it is ---


def _modules_of(executable: bytes, limit: int) -> Iterator[StoredModule]:
    """The modules in an executable without its description; none if it is none."""
    if executable.startswith(_RIEGELI):
        kind, message = _message_in_records(executable, limit)
        if kind == _TPU_KIND:
            options = _at(message, (4,))
            yield from (module._replace(options=options) for module in _of_tpu(message))
            return
        executable = message
    if not executable.startswith(b"\n"):  # field 1 of ExecutableAndOptionsProto
        return
    top = {tag >> 3 for tag, _, _ in field_spans(executable, 0, len(executable))}
    if not {1, 2} <= top:  # the options of the compilation are field 2, which a `HloProto` has not
        return
    inner, options = _at(executable, (1,)), _at(executable, (2,))
    is_gpu = inner.startswith(_RIEGELI)
    modules = _of_xla(_message_in_records(inner, limit)[1] if is_gpu else inner, "gpu" if is_gpu else "cpu")
    yield from (module._replace(options=options) for module in modules)


def _of_xla(executable: bytes, target: str) -> Iterator[StoredModule]:
    """The module in a `CompilationResultProto` of a CPU or a `GpuExecutableProto`, with its buffer assignment."""
    fields = dict(read_fields(executable))
    with_config = bytes_in(fields, 1)
    module = _at(with_config, (1,))
    if _has_computations(module):
        proto = with_config + field(3, bytes_in(fields, 2))  # field 3 of HloProto
        yield StoredModule(proto, _name_of(module), target, AFTER)


_TPU_KIND: Final = "xla.TpuExecutableProto"
_TPU_BEFORE: Final = (1, 2, 38)
_TPU_AFTER: Final = (2,)
"""Where the program is as it came in, and as it runs, with its configuration; in eight kinds of chips."""


def _of_tpu(executable: bytes) -> Iterator[StoredModule]:
    before, after = _at(executable, _TPU_BEFORE), _at(executable, _TPU_AFTER)
    if _has_computations(before):
        yield StoredModule(before, _name_of(before), "", BEFORE)
    module = _at(after, (1,))
    if _has_computations(module):
        yield StoredModule(after, _name_of(module), "", AFTER)


def _at(message: bytes, path: Sequence[int]) -> bytes:
    """The bytes of a field of a field; empty without one. A message in several parts is merged: they are joined."""
    for number in path:
        message = b"".join(all_bytes(read_fields(message), number))
    return message


def _has_computations(module: bytes) -> bool:
    """Whether bytes are a `HloModuleProto`: in a snapshot, its name stands there, which may look like a message."""
    return any(tag == _COMPUTATION for tag, _, _ in field_spans(module, 0, len(module)))


_COMPUTATION: Final = 0x1A  # the tag of field 3, a message


def _name_of(module: bytes) -> str:
    """The name of a `HloModuleProto`."""
    return bytes_in(dict(read_fields(module)), 1).decode("utf-8", "replace")


# --- Riegeli ---
# Records in blocks of 64 KiB. Mirrors the format's specification; hashes are not checked, as each length is.


_RIEGELI: Final = b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"
_BLOCK, _BLOCK_HEADER, _CHUNK_HEADER = 1 << 16, 24, 40
_CHUNK_FIELDS: Final = ((8, 16), (24, 25), (25, 32), (32, 40))
"""Where the header of a chunk tells its size, its kind, how many records it has, and their bytes."""
_SIMPLE: Final = ord("r")
_NO_RECORDS: Final = b"smp"
"""Kinds of chunks without records: signature, metadata, padding. Transposed records are not written by XLA."""


def _message_in_records(data: bytes, limit: int) -> tuple[str, bytes]:
    """The type and the bytes of a message that `SplitProto` wrote: a manifest, then the parts of the message."""
    records = list(_records(data, limit))
    if not records:
        raise WireError("no records")
    manifest = read_fields(records[0])
    kind = bytes_in(dict(manifest), 1).decode("utf-8", "replace")
    parts = [dict(read_fields(part)) for part in all_bytes(manifest, 2)]
    if len(parts) != len(records) - 1:
        raise WireError("the manifest does not match the records")
    message = b"".join(_placed(part, record) for part, record in zip(parts, records[1:], strict=True))
    return kind, message  # parts of one field are merged when it is read


def _placed(part: dict[int, int | bytes], record: bytes) -> bytes:
    """A record as a part of the message: field 3 of its entry in the manifest is the path of the field that it is."""
    steps = all_bytes(read_fields(bytes_in(part, 3)), 1) if 3 in part else []
    for step in reversed(steps):
        record = field(number_in(dict(read_fields(step)), 1), record)
    return record


def _records(data: bytes, limit: int) -> Iterator[bytes]:
    """The records of all chunks; WireError if one is corrupt or if they have more than `limit` bytes in all."""
    blocks = range(0, len(data), _BLOCK)
    data = b"".join([data[block + _BLOCK_HEADER : block + _BLOCK] for block in blocks])
    at = 0
    while at < len(data):
        header = data[at : at + _CHUNK_HEADER]
        size, kind, count, decoded = (int.from_bytes(header[a:b], "little") for a, b in _CHUNK_FIELDS)
        at += _CHUNK_HEADER
        if len(header) < _CHUNK_HEADER or size > len(data) - at:
            raise WireError("truncated records", at, is_truncated=True)
        if kind == _SIMPLE:
            limit -= decoded
            if limit < 0:
                raise WireError("records of more bytes than are read", at)
            yield from _simple(data[at : at + size], count, decoded)
        elif kind not in _NO_RECORDS:
            raise WireError(f"records of an unknown kind {chr(kind)!r}", at)
        at += max(size, count)  # a chunk has at least a byte for each record


def _simple(chunk: bytes, count: int, decoded: int) -> Iterator[bytes]:
    """The records of a chunk that stores all sizes, then all values."""
    length, start = number_at(chunk, 1, len(chunk))
    if length > len(chunk) - start:
        raise WireError("truncated records", is_truncated=True)
    sizes = read_numbers(_uncompressed(chunk[:1], chunk[start : start + length], LONGEST_VARINT * count))
    values = _uncompressed(chunk[:1], chunk[start + length :], decoded)
    if len(sizes) != count or sum(sizes) != len(values):
        raise WireError("sizes of records that do not match")
    start = 0
    for size in sizes:
        yield values[start : start + size]
        start += size


def _uncompressed(compression: bytes, data: bytes, limit: int) -> bytes:
    if compression == b"\0":
        return data
    if compression != b"s":
        raise WireError(f"records with compression {compression.decode('latin-1')!r}, which is not read")
    size, start = number_at(data, 0, len(data))
    if size > limit:
        raise WireError("records of more bytes than declared")
    return unsnappy(data[start:], size)


def unsnappy(data: bytes, size: int) -> bytes:
    """The bytes that Snappy compressed; WireError if they are not `size`. Mirrors its format_description.txt.

    >>> unsnappy(bytes((5, 0x00, 97, 0x01, 0x01)), 5)
    b'aaaaa'
    """
    declared, start = number_at(data, 0, len(data))
    if declared != size:
        raise WireError("compressed bytes of another size than declared")
    out = bytearray()
    while start < len(data) and len(out) <= size:
        tag = data[start]
        start += 1
        if tag & 3 == 0:  # a literal, whose length is in the tag or in one to four bytes behind it
            length = tag >> 2
            if length >= 60:
                more = length - 59
                length = int.from_bytes(data[start : start + more], "little")
                start += more
            out += data[start : start + length + 1]
            start += length + 1
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | int.from_bytes(data[start : start + 1], "little")
            start += 1
        else:
            width = 2 * (tag & 3) - 2
            length, offset = (tag >> 2) + 1, int.from_bytes(data[start : start + width], "little")
            start += width
        if not 0 < offset <= len(out):
            raise WireError("corrupt compressed bytes", start)
        copied = out[-offset:][:length]
        out += (copied * (-(-length // len(copied))))[:length]  # a copy may overlap what it writes
    if len(out) != size:
        raise WireError("corrupt compressed bytes", start)
    return bytes(out)


# --- profiler traces ---
# A profiler stores the programs that ran in the plane `/host:metadata`.
#
# Mirrors tsl/profiler/protobuf/xplane.proto. A trace is an `XSpace` of planes, whose maps hold the names of events and
# of statistics; each program is an event there, with its `HloProto` as the statistic `Hlo Proto`. Of a trace of
# hundreds of MB, nothing but the programs is copied.


_METADATA_PLANE: Final = b"/host:metadata"
_STATISTIC: Final = (b"Hlo Proto", b"hlo_proto")
_PLANES, _PLANE_NAME, _EVENTS, _STATISTICS = 0x0A, 0x12, 0x22, 0x2A
_KEY, _VALUE = 0x08, 0x12
_NAME, _EVENT_STATISTICS, _STATISTIC_ID, _BYTES = 0x12, 0x2A, 0x08, 0x32
_MODULE, _MODULE_NAME = 0x0A, 0x0A


class TracedModule(NamedTuple):
    """A program of a trace: the name of its module, the bytes of its `HloProto`, and its name, such as `jit_f(8)`."""

    name: str
    proto: bytes
    program: str


def is_trace(data: bytes) -> bool:
    """Whether bytes look like a profiler's trace, not like the proto of one module.

    >>> is_trace(b"\\n\\x10\\x12\\x0e/host:metadata"), is_trace(b"\\n\\x05jit_f")
    (True, False)
    """
    if _METADATA_PLANE not in data and b"/host:CPU" not in data and b"/device:" not in data:
        return False
    try:
        names = (first_span(data, plane, _PLANE_NAME) for plane in spans_of(data, (0, len(data)), _PLANES))
        return any(data[slice(*name)].startswith((b"/", b"Task ")) for name in names)
    except WireError:
        return False


def modules_in_trace(data: bytes, name: str) -> tuple[TracedModule, ...]:
    """The programs in a trace, in its order; HloError if there is none, or if the trace is corrupt."""
    try:
        planes = spans_of(data, (0, len(data)), _PLANES)
        modules = tuple(module for plane in planes for module in _modules_in_plane(data, plane))
    except WireError as error:
        raise HloError(
            f"{name} is a corrupt profiler trace (at byte {error.at:,})",
            hint="record it again; the file may be truncated",
        ) from None
    if not modules:
        hint = "record it with jax.profiler.trace, which stores the HLO of all executed programs"
        raise HloError(f"{name} is a profiler trace without HLO modules", hint=hint)
    return modules


def _modules_in_plane(data: bytes, plane: tuple[int, int]) -> Iterator[TracedModule]:
    """The programs in a plane; only the metadata plane has any."""
    if data[slice(*first_span(data, plane, _PLANE_NAME))] != _METADATA_PLANE:
        return
    named = set()
    for entry in spans_of(data, plane, _STATISTICS):
        if data[slice(*first_span(data, first_span(data, entry, _VALUE), _NAME))] in _STATISTIC:
            named.add(first_span(data, entry, _KEY)[0])
    for entry in spans_of(data, plane, _EVENTS):
        event = first_span(data, entry, _VALUE)
        for statistic in spans_of(data, event, _EVENT_STATISTICS):
            proto = first_span(data, statistic, _BYTES)
            if proto != (0, 0) and first_span(data, statistic, _STATISTIC_ID)[0] in named:
                name = _text(data, first_span(data, first_span(data, proto, _MODULE), _MODULE_NAME))
                program = _text(data, first_span(data, event, _NAME))
                yield TracedModule(name or program, data[slice(*proto)], program)


def _text(data: bytes, span: tuple[int, int]) -> str:
    return data[slice(*span)].decode("utf-8", "replace")
