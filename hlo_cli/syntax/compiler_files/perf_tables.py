"""What XLA measured on a GPU: its tables of matmul and collective times in protobuf's text format.

Mirrors `GemmPerfTable` of xla/xla_data.proto, and `DeviceHloInstructionProfiles` of
xla/service/gpu/model/hlo_op_profile.proto, as `matmul_perf_table_gen` and `collective_perf_table_gen` of xla/tools
write them. Both can stand in one file, one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from statistics import median
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.compiler_files.text_format import TextMessage, read_whole_message, whole_number

_COLLECTIVES: Final = frozenset(
    (
        opcodes.ALL_GATHER,
        opcodes.ALL_REDUCE,
        opcodes.ALL_TO_ALL,
        opcodes.COLLECTIVE_PERMUTE,
        opcodes.REDUCE_SCATTER,
    )
)
_SIZES: Final = ("b", "m", "n", "k")
_DIMENSION_FIELDS: Final = (
    "lhs_batch_dimensions",
    "lhs_contracting_dimensions",
    "rhs_batch_dimensions",
    "rhs_contracting_dimensions",
)
_MAX_SECONDS: Final = 3600
"""Of one matmul or collective: XLA's generators measure each shape several times, so that more is a wrong rate."""
_MAX_SHOWN: Final = 24  # characters of a wrong number: more than those of 2^64


@dataclass(frozen=True, slots=True)
class PerfTable:
    """The times of one device, in seconds; several measurements of one shape are their median.

    `matmuls` are by types, such as `bf16xbf16->f32`, then by batch, m, n, and k. `collectives` are by opcode, then by
    groups and devices in a group (0 and the number of pairs of a permute), then by bytes of the payload, the smallest
    first: those of the operands on one device; of an all-gather, of the result.
    """

    device: str
    matmuls: Mapping[str, Mapping[tuple[int, int, int, int], float]]
    collectives: Mapping[str, Mapping[tuple[int, int], Mapping[int, float]]]

    @property
    def count(self) -> int:
        """The number of times."""
        matmuls = sum(map(len, self.matmuls.values()))
        return matmuls + sum(len(times) for series in self.collectives.values() for times in series.values())


def read_perf_tables(source: Source) -> Mapping[str, PerfTable]:
    """The tables in a text by device, such as `sm_90` or `gfx950`; raises HloError if there are none.

    >>> entry = 'b: 1 m: 256 n: 256 k: 512 flops { key: "f32xf32->f32" value: 16777216000000 }'
    >>> text = 'entries { key: "gfx950" value { entries { ' + entry + " } } }"
    >>> table = read_perf_tables(Source("t.txtpb", text))["gfx950"]
    >>> table.count, f"{table.matmuls['f32xf32->f32'][1, 256, 256, 512]:.1e}"
    (1, '4.0e-06')
    """
    found: dict[str, _Rows] = {}
    for entry in read_whole_message(source).messages("entries"):
        rows = found.setdefault(entry.text("key"), _Rows())
        for number, each in enumerate(entry.message("value").messages("entries"), 1):
            try:
                rows.add(each)
            except ValueError as error:
                message = f"entry {number} of {entry.text('key') or 'a device without a name'}: {error}"
                raise HloError(f"{source.name}: {message}") from None
    tables = {device: rows.table(device) for device, rows in found.items()}
    if not any(table.count for table in tables.values()):
        hint = "expected the text of xla.GemmPerfTable or xla.gpu.DeviceHloInstructionProfiles"
        raise HloError(f"{source.name}: no measured matmuls or collectives", hint=hint)
    return {device: table for device, table in tables.items() if table.count}


class _Rows:
    """The measurements of one device, as they are read."""

    def __init__(self) -> None:
        self.matmuls: dict[str, dict[tuple[int, int, int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
        self.collectives: dict[str, dict[tuple[int, int], dict[int, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )

    def add(self, entry: TextMessage) -> None:
        """Adds an entry of either table; ValueError if it is not valid. Cycles of other operations are not read."""
        instruction = entry.message("instruction")
        opcode = instruction.text("opcode").removesuffix("-start")
        if opcode in _COLLECTIVES:
            self._add_collective(opcode, instruction, _positive(entry, "network_throughput_bytes_per_sec"))
        elif opcode == opcodes.DOT and entry.text("flops").strip("0"):
            self._add_dot(instruction, entry)
        elif not opcode:
            self._add_matmul(entry)

    def _add_matmul(self, entry: TextMessage) -> None:
        batch, m, n, k = (_positive(entry, name) for name in _SIZES)
        rates = entry.messages("flops")
        if not rates:
            raise ValueError("no flops")
        for rate in rates:
            types = rate.text("key")
            if "->" not in types:
                raise ValueError(f"expected types such as bf16xbf16->f32, found '{types}'")
            flops = _positive(rate, "value", f"flops of {types}")
            self.matmuls[types][batch, m, n, k].append(_seconds(2 * batch * m * n * k, flops))

    def _add_dot(self, dot: TextMessage, entry: TextMessage) -> None:
        """Adds a dot with its operands, the form of tables before `GemmPerfTable`."""
        sides = [each.message("shape") for each in entry.messages("operands")]
        if len(sides) < 2:
            raise ValueError("a dot without its two operands")
        lhs, rhs = (_whole(side, "dimensions") for side in sides[:2])
        numbers = dot.message("dot_dimension_numbers")
        dims = [_whole(numbers, name) for name in _DIMENSION_FIELDS]
        batch = prod(_at(lhs, dims[0]))
        k = prod(_at(lhs, dims[1]))
        m = prod(size for position, size in enumerate(lhs) if position not in (*dims[0], *dims[1]))
        n = prod(size for position, size in enumerate(rhs) if position not in (*dims[2], *dims[3]))
        _check_positive({"batch": batch, "m": m, "n": n, "k": k})
        names = [side.text("element_type").lower() for side in (*sides[:2], dot.message("shape"))]
        types = f"{names[0]}x{names[1]}->{names[2]}"
        self.matmuls[types][batch, m, n, k].append(_seconds(2 * batch * m * n * k, _positive(entry, "flops")))

    def _add_collective(self, opcode: str, instruction: TextMessage, bytes_per_second: int) -> None:
        shape = instruction.message("shape")
        if shape.messages("tuple_shapes"):
            shape = shape.messages("tuple_shapes")[-1]  # of a start: operands, then results
        size = prod(_whole(shape, "dimensions"))
        name = shape.text("element_type").lower()
        primitive = PRIMITIVE_TYPES.get(name)
        if primitive is None:
            raise ValueError(f"unknown element type '{shape.text('element_type')}'")
        groups, devices = _groups_of(instruction)
        payload = size * primitive.bits // 8 * (devices if opcode == opcodes.REDUCE_SCATTER else 1)
        _check_positive({"devices in a group": devices, "bytes": payload})
        # The generator divides the operand of a reduce-scatter by the time, not the result.
        self.collectives[opcode][groups, devices][payload].append(_seconds(payload, bytes_per_second))

    def table(self, device: str) -> PerfTable:
        """All that was read."""
        matmuls = {
            types: {shape: median(times) for shape, times in sorted(shapes.items())}
            for types, shapes in self.matmuls.items()
        }
        collectives = {
            opcode: {key: {size: median(times) for size, times in sorted(sizes.items())} for key, sizes in keys.items()}
            for opcode, keys in self.collectives.items()
        }
        return PerfTable(device, matmuls, collectives)


def _at(sizes: Sequence[int], positions: Sequence[int]) -> Iterator[int]:
    return (sizes[position] for position in positions if position < len(sizes))


def _groups_of(instruction: TextMessage) -> tuple[int, int]:
    """The number of groups, and of devices in a group; 0 and the number of pairs of a permute."""
    pairs = instruction.messages("source_target_pairs")
    if pairs:
        return 0, len(pairs)
    devices = instruction.message("iota_collective_device_list")
    if not devices.number("num_devices_per_group"):
        devices = instruction.message("collective_device_list").message("iota_replica_group_list")
    if devices.number("num_devices_per_group"):
        return devices.number("num_replica_groups"), devices.number("num_devices_per_group")
    listed = instruction.message("collective_device_list").messages("replica_groups")
    groups = listed or instruction.messages("replica_groups")
    return len(groups), len(groups[0].texts("replica_ids")) if groups else 0


def _check_positive(numbers: Mapping[str, int]) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"expected a positive number for {name}, found {number}")


def _positive(message: TextMessage, name: str, meaning: str = "") -> int:
    """A field that is a positive number; ValueError for all else, which `TextMessage.number` reads as 0."""
    number, text = message.number(name), message.text(name)
    if number < 1:
        raise ValueError(f"expected a positive number for {meaning or name}, found {_shown(text or '0')}")
    return number


def _whole(message: TextMessage, name: str) -> list[int]:
    """The whole numbers of a field; ValueError for all else."""
    texts = message.texts(name)
    numbers = list(map(whole_number, texts))
    for text, number in zip(texts, numbers, strict=True):
        if not number and text.strip("0"):
            raise ValueError(f"expected a whole number for {name}, found {_shown(text)}")
    return numbers


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text):,} characters)"


def _seconds(work: int, per_second: int) -> float:
    """The time of some work, in flops or bytes; ValueError if it cannot have been measured."""
    if work > _MAX_SECONDS * per_second:
        raise ValueError(f"at {per_second:,} per second, it takes more than an hour: the rate is wrong")
    return work / per_second
