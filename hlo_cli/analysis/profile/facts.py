"""What the metadata of a TPU's events declare about an operation: costs, category, and source.

Mirrors `SetOpMetadataFromHloEventMetadata` of xprof/utils/op_metrics_db_utils.cc, and for categories
tsl/profiler/convert/xla_op_utils.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hlo_cli.analysis.profile.columns import real, text
from hlo_cli.analysis.profile.occurrences import OperationKey
from hlo_cli.analysis.profile.profile import Traffic
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.traces.trace import EventMetadata

_READ, _WRITE = 1, 2
_HBM, _CMEM, _VMEM = 1, 2, 3
_FORMATTING: Final = frozenset((opcodes.TRANSPOSE, opcodes.COPY, opcodes.RESHAPE, opcodes.DYNAMIC_RESHAPE))
_MOST_BYTES: Final = 10
"""The bytes of the longest integer on the wire."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The costs of one call, None if the trace declares none; `model_flops` are without those of rematerialization."""

    flops: float | None = None
    model_flops: float | None = None
    traffic: Traffic | None = None
    category: str = ""
    op_name: str = ""
    source: str = ""

    @property
    def has_costs(self) -> bool:
        """Whether the trace declares flops or bytes."""
        return self.flops is not None or self.traffic is not None


NO_FACTS: Final = Facts()


def facts_among(keys: Iterable[OperationKey], declared: Mapping[OperationKey, EventMetadata]) -> Facts:
    """The facts of the first key that has some."""
    found = next((declared[key] for key in keys if key in declared), None)
    return NO_FACTS if found is None else facts_of(found)


def facts_of(metadata: EventMetadata) -> Facts:
    """The facts in the metadata of an event.

    >>> facts = facts_of(EventMetadata(1, "%add", statistics={"flops": 8, "tf_op": "jit(f)/add:", "source": "a.py:3"}))
    >>> facts.flops, facts.op_name, facts.source, facts.traffic
    (8.0, 'jit(f)/add', 'a.py:3', None)
    """
    statistics = metadata.statistics
    model_flops = real(statistics.get("model_flops"))
    is_json = "symbol_id" not in statistics  # JSON files omit it, and the flops
    flops = real(statistics.get("flops", model_flops if is_json else None))
    accessed = real(statistics.get("bytes_accessed"))
    breakdown = statistics.get("memory_access_breakdown")
    parts = list(_parts(breakdown)) if isinstance(breakdown, bytes) else []
    traffic = None
    if accessed is not None or parts:
        by_space = dict.fromkeys(((s, o) for s in (_CMEM, _VMEM) for o in (_READ, _WRITE)), 0)
        main = 0.0 if parts else accessed or 0.0
        for operation, space, size in parts:
            if space == _HBM:
                main += size
            elif (space, operation) in by_space:
                by_space[space, operation] += size
        traffic = Traffic(accessed or 0.0, main, *map(float, by_space.values()))
    return Facts(
        flops,
        model_flops,
        traffic,
        text(statistics.get("hlo_category")),
        text(statistics.get("tf_op")).removesuffix(":"),
        text(statistics.get("source")),
    )


def category_of(instruction: Instruction) -> str:
    """The category from HLO alone, such as `loop fusion` or `data formatting`, as `xla::HloCategory` has it.

    >>> from hlo_cli import parse_module
    >>> category_of(parse_module("r = f32[4] copy(f32[4] a)").entry.root)
    'data formatting'
    """
    if instruction.opcode in _FORMATTING:
        return "data formatting"
    if instruction.opcode == opcodes.FUSION:
        kind = (instruction.attribute("kind") or "").removeprefix("k").lower()
        return f"{kind} fusion".strip()
    if instruction.opcode in operations.ELEMENTWISE:
        return "non-fusion elementwise"
    return instruction.opcode


def _parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Operation, memory space, and bytes of the parts of a `MemoryAccessBreakdown`, up to where it is corrupt."""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            part = {key: found for key, found in _fields(value) if isinstance(found, int)}
            yield part.get(1, 0), part.get(2, 0), part.get(3, 0)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _integer(data, at)
        value, at = _integer(data, at)
        if tag & 7 == 2:
            yield tag >> 3, data[at : at + value]
            at += value
        elif tag & 7 == 0:
            yield tag >> 3, value
        else:
            return


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """An integer on the wire and the place after it."""
    value = 0
    for shift, byte in enumerate(data[at : at + _MOST_BYTES]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value % (1 << 64), at + shift + 1
    return 0, len(data)
