"""What does rocprofv3 write besides tables? Databases (rocpd, its default since ROCm 7) and JSON: kernels and copies.

Mirrors share/rocprofiler-sdk-rocpd/*.sql and generateJSON.cpp of ROCm's rocprofiler-sdk. Kernels have no instruction:
they are joined by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hlo_cli.ir.traces.trace import PS_PER_NS, Trace, Value
from hlo_cli.source import HloError
from hlo_cli.syntax.traces.builder import KernelTrace

if TYPE_CHECKING:
    from hlo_cli.syntax.traces.databases import Cell, Database, Row
    from hlo_cli.wire import Buffer

FORMAT: Final = "rocprof"
_GPU_TYPES: Final = ("GPU", 2)
"""What a GPU is in a database, and in JSON: rocprofiler_agent_type_t."""
_DIRECTIONS: Final = (
    ("HOST_TO_DEVICE", "MemcpyH2D"),
    ("DEVICE_TO_HOST", "MemcpyD2H"),
    ("DEVICE_TO_DEVICE", "MemcpyD2D"),
)
"""Names of copies, and those that XLA's profiler gives them."""
_ARCHITECTURE: Final = re.compile(r"gfx(\d{1,2})([0-9a-f])[0-9a-f]")
_MAX_DIGITS: Final = 9  # of an index or a count; more are damage


class _Agents:
    """The devices of a recording by the ids that its kernels have; those that are no GPUs are known as such."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        self._numbers: dict[object, int] = {}
        self._others: set[object] = set()

    def add(self, id: object, kind: object, number: object, facts: Mapping[str, Any]) -> None:
        """Adds a device with what is known of it."""
        if kind not in _GPU_TYPES:
            self._others.add(id)
            return
        given = number if isinstance(number, int) and 0 <= number < 10**_MAX_DIGITS else len(self._numbers)
        taken = set(self._numbers.values())
        self._numbers[id] = given if given not in taken else max(taken) + 1
        self._trace.device(self._numbers[id]).statistics |= _statistics_of(facts)

    def number(self, id: object) -> int | None:
        """The number of a GPU; a device that is not described gets the next. None for another device, with a note."""
        if id in self._others:
            note = f"{self._trace.name} has kernels of agents that are not GPUs; they are omitted"
            self._trace.notes += [] if note in self._trace.notes else [note]
            return None
        if id not in self._numbers:
            self._numbers[id] = max(self._numbers.values(), default=-1) + 1
            self._trace.device(self._numbers[id]).statistics |= {"device_vendor": "AMD"}
        return self._numbers[id]

    def is_gpu(self, id: object) -> bool:
        """Whether an id is that of a GPU."""
        return id in self._numbers


def _statistics_of(facts: Mapping[str, Any]) -> dict[str, Value]:
    """The statistics that XLA's profiler gives the plane of an AMD GPU."""
    found: dict[str, Value] = {"device_vendor": "AMD"}
    name = facts.get("name")
    if isinstance(name, str):
        found["device_name"] = name
        if match := _ARCHITECTURE.match(name):
            found |= {"compute_cap_major": int(match[1]), "compute_cap_minor": int(match[2], 16)}
    product, cores = facts.get("product_name"), facts.get("cu_count")
    if isinstance(product, str) and product:
        found["gpu_device_name"] = product
    if isinstance(cores, int) and 0 < cores < 10**_MAX_DIGITS:
        found["core_count"] = cores
    return found


def _add(trace: KernelTrace, device: int | None, stream: object, name: str, begin: object, end: object) -> None:
    if device is None:
        return
    if not (isinstance(begin, int) and isinstance(end, int)) or end < begin:
        trace.skip()
        return
    line = stream if isinstance(stream, int) else 0
    trace.add_kernel(device, line, name, begin * PS_PER_NS, (end - begin) * PS_PER_NS, {})


def _copy_name(name: str) -> str:
    return next((ours for theirs, ours in _DIRECTIONS if theirs in name), "Memcpy")


# --- databases ---
# Tables have a suffix for each recording, and views without it; several recordings may be in one file.


_KERNELS, _COPIES = "rocpd_kernel_dispatch", "rocpd_memory_copy"
_SYMBOLS, _AGENTS, _TEXTS = "rocpd_info_kernel_symbol", "rocpd_info_agent", "rocpd_string"
COLUMNS: Final = {
    _KERNELS: "start end agent_id kernel_id stream_id queue_id",
    _COPIES: "start end name_id src_agent_id dst_agent_id stream_id queue_id",
    _SYMBOLS: "id kernel_name display_name",
    _AGENTS: "id type type_index name product_name extdata",
    _TEXTS: "id string",
}
_NAME: Final = re.compile(rf"({'|'.join(COLUMNS)})(_[0-9A-Za-z_-]{{1,100}})?")


def known_table(name: str) -> str | None:
    """The table that a table of a recording is, None for others.

    >>> known_table("rocpd_string_0a1b"), known_table("rocpd_string"), known_table("other")
    ('rocpd_string', 'rocpd_string', None)
    """
    match = _NAME.fullmatch(name)
    return match[1] if match else None


def is_rocpd(database: Database) -> bool:
    """Whether a database has kernels of rocprofv3."""
    return any(known_table(name) == _KERNELS for name in database.tables)


def read_rocpd(database: Database, name: str) -> Trace:
    """Reads the kernels of a database."""
    trace = KernelTrace(name, FORMAT)
    for table in sorted(name for name in database.tables if known_table(name) == _KERNELS):
        _Recording(database, trace, table.removeprefix(_KERNELS)).read()
    return trace.trace()


class _Recording:
    """The tables of one recording, whose names end alike."""

    def __init__(self, database: Database, trace: KernelTrace, suffix: str) -> None:
        self._database, self._trace, self._suffix = database, trace, suffix
        self._agents = _Agents(trace)

    def read(self) -> None:
        """Adds all kernels and copies."""
        for row in self._rows(_AGENTS, "id", "type"):
            facts = {"name": row.get("name"), "product_name": row.get("product_name"), **_json_of(row.get("extdata"))}
            self._agents.add(row["id"], row["type"], row.get("type_index"), facts)
        names = {row["id"]: row.get("display_name") or row.get("kernel_name") for row in self._rows(_SYMBOLS, "id")}
        for row in self._rows(_KERNELS, "start", "end"):
            name = names.get(row.get("kernel_id"))
            text = name if isinstance(name, str) else ""
            _add(self._trace, self._agents.number(row.get("agent_id")), _stream_of(row), text, row["start"], row["end"])
        texts = {row["id"]: row["string"] for row in self._rows(_TEXTS, "id", "string")}
        for row in self._rows(_COPIES, "start", "end"):
            ends = [row.get("dst_agent_id"), row.get("src_agent_id")]
            agent = next((each for each in ends if self._agents.is_gpu(each)), None)
            if agent is not None:
                name = _copy_name(str(texts.get(row.get("name_id"), "")))
                _add(self._trace, self._agents.number(agent), _stream_of(row), name, row["start"], row["end"])

    def _rows(self, table: str, *required: str) -> Iterator[Row]:
        return self._database.rows(f"{table}{self._suffix}", *required)


def _stream_of(row: Row) -> Cell:
    """The stream, 0 where there is none: then the queue counts."""
    return row.get("stream_id") or row.get("queue_id")


def _json_of(text: Cell) -> Mapping[str, Any]:
    if isinstance(text, (str, bytes)):
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            return found if isinstance(found, dict) else {}
    return {}


# --- JSON ---


JSON_KEY: Final = "rocprofiler-sdk-tool"
"""The only member of the object."""


def read_rocprof_json(data: Buffer, name: str) -> Trace:
    """Reads `*_results.json`; HloError if it is damaged or has no kernels."""
    trace = KernelTrace(name, FORMAT)
    text = bytes(data)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        content = _beginning(text)
        if content is None:
            hint = "record it again, or use `--output-format rocpd`"
            raise HloError(f"{name} is corrupt JSON of rocprofv3: {error}", hint=hint) from None
        trace.notes.append(f"{name} is truncated or corrupt JSON; what follows its last complete record is omitted")
    tools = content.get(JSON_KEY) if isinstance(content, dict) else None
    for tool in tools if isinstance(tools, list) else [tools]:
        _add_tool(trace, tool)
    return trace.trace()


_JSON_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([{}\[\]])', re.DOTALL)
"""A string, which may be truncated, or a bracket outside of strings."""
_CLOSING: Final = {b"{": b"}", b"[": b"]"}


def _beginning(text: bytes) -> object:
    """The content of truncated JSON up to the last object that is complete; None without any.

    >>> _beginning(b'{"a": [{"b": 1}, {"b": 2}, {"b')
    {'a': [{'b': 1}, {'b': 2}]}
    """
    end = _open_brackets(text)[1]
    closing = b"".join(reversed(_open_brackets(text[:end])[0]))
    with suppress(ValueError, RecursionError):
        found: object = json.loads(text[:end] + closing)
        return found
    return None


def _open_brackets(text: bytes) -> tuple[Sequence[bytes], int]:
    """What closes the brackets that are open at the end of a text, outermost first, and the end of its last object."""
    closing: list[bytes] = []
    end = 0
    for match in _JSON_BRACKET.finditer(text):
        bracket = match[1]
        if bracket in _CLOSING:
            closing.append(_CLOSING[bracket])
        elif bracket is not None:
            if not closing or closing.pop() != bracket:
                break
            end = match.end() if bracket == b"}" else end
    return closing, end


def _add_tool(trace: KernelTrace, tool: object) -> None:
    agents = _Agents(trace)
    for agent in _listed(tool, "agents"):
        number = agent.get("logical_node_type_id")
        agents.add(_handle(agent, "id"), agent.get("type"), number, agent)
    names = {
        _handle(each, "kernel_id"): each.get("formatted_kernel_name") or each.get("kernel_name")
        for each in _listed(tool, "kernel_symbols")
    }
    for each in _listed(tool, "buffer_records", "kernel_dispatch"):
        info = each.get("dispatch_info")
        found = info if isinstance(info, dict) else {}
        text = names.get(_handle(found, "kernel_id"))
        stream = _handle(each, "stream_id") or _handle(found, "queue_id")
        times = each.get("start_timestamp"), each.get("end_timestamp")
        device = agents.number(_handle(found, "agent_id"))
        _add(trace, device, stream, text if isinstance(text, str) else "", *times)
    for each in _listed(tool, "buffer_records", "memory_copy"):
        source, target = _handle(each, "src_agent_id"), _handle(each, "dst_agent_id")
        to_gpu, from_gpu = agents.is_gpu(target), agents.is_gpu(source)
        if to_gpu or from_gpu:
            name = f"Memcpy{'D' if from_gpu else 'H'}2{'D' if to_gpu else 'H'}"
            times = each.get("start_timestamp"), each.get("end_timestamp")
            _add(trace, agents.number(target if to_gpu else source), _handle(each, "stream_id"), name, *times)


def _listed(tool: object, *path: str) -> Iterator[dict[str, Any]]:
    """The objects in a list inside of others; none where it is missing."""
    for name in path:
        tool = tool.get(name) if isinstance(tool, dict) else None
    yield from (each for each in tool if isinstance(each, dict)) if isinstance(tool, list) else ()


def _handle(record: Mapping[str, Any], name: str) -> int | None:
    """An id, which is a number or an object with one."""
    value = record.get(name)
    value = value.get("handle") if isinstance(value, dict) else value
    return value if isinstance(value, int) else None
