"""What XLA makes of a text, and of the proto that we write of it: both as its own proto, compared field by field.

Numbers of computations and instructions are XLA's to give, and become names; so are those of stack frames, of which the
frames themselves are compared. The order of instructions is the schedule's to say. What differs on purpose is left out:

- the device assignment, where we keep `num_partitions`, for which a proto has no other place
- `E(n)` of the constants of a text: XLA takes their shape from the literal, and forgets it; we do not
- the sign of a `-0` without a point, which XLA reads as an integer; what printed it had the sign, and we keep it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hlo_cli.library import module_to_bytes, parse_module
from hlo_cli.syntax.proto.messages import fields_of
from hlo_cli.wire import read_fields, read_numbers

Decoded = dict[str, list[Any]]
_LEFT_OUT: Final = ("id", "device_assignment", "element_size_in_bits")
_NEGATIVE_ZERO: Final = re.compile(r"-0(?=[ ,)}])")


def differences(text: str) -> list[str] | None:
    """Where the two differ; None if XLA does not take the text. Asks jaxlib, which may end the process."""
    from jaxlib import _hlo

    text = _NEGATIVE_ZERO.sub("0", text)
    try:
        theirs = _hlo.hlo_module_from_text(text)
    except (ValueError, RuntimeError):
        return None
    ours = _hlo.HloModule.from_serialized_hlo_module_proto(module_to_bytes(parse_module(text)))
    one, other = (_named(each.as_serialized_hlo_module_proto()) for each in (theirs, ours))
    return list(_compared(one, other, ""))


def _named(data: bytes) -> Decoded:
    module = _decoded("HloModuleProto", data)
    computations = module["computations"]
    names = {_number(each): each["name"][0] for each in computations}
    frames = _Frames(module.pop("stack_frame_index", [{}])[0])
    inside = {each["name"][0]: {_number(i): i["name"][0] for i in each["instructions"]} for each in computations}
    for computation in computations:
        known = inside[computation["name"][0]]
        computation["instructions"].sort(key=lambda each: str(each["name"]))  # the schedule says the order
        computation["root_id"] = [known[computation.get("root_id", [0])[0]]]
        for instruction in computation["instructions"]:
            for field, by in (
                ("operand_ids", known),
                ("control_predecessor_ids", known),
                ("called_computation_ids", names),
            ):
                if field in instruction:
                    instruction[field] = [by[number] for number in instruction[field]]
            for metadata in instruction.get("metadata", ()):
                metadata["stack_frame_id"] = [frames.above(number) for number in metadata.get("stack_frame_id", ())]
    module["entry_computation_id"] = [names[module.get("entry_computation_id", [0])[0]]]
    for schedule in module.get("schedule", ()):
        schedule["sequences"] = sorted(_sequence(each, names, inside) for each in schedule["sequences"])
    module["computations"] = sorted(computations, key=lambda each: str(each["name"]))
    return module


class _Frames:
    """The tables of a module that say where its instructions come from."""

    def __init__(self, tables: Decoded) -> None:
        self._tables = tables

    def above(self, number: int) -> list[tuple[Any, ...]]:
        """A frame and those that called it: file, function and the numbers of lines and columns of each."""
        found: list[tuple[Any, ...]] = []
        while 0 < number <= len(frames := self._tables.get("stack_frames", ())) and len(found) <= len(frames):
            frame = frames[number - 1]
            location = self._entry("file_locations", frame.get("file_location_id", [0])[0]) or {}
            file, function = (location.get(f"{each}_name_id", [0])[0] for each in ("file", "function"))
            numbers = [location.get(each, [0])[0] for each in ("line", "end_line", "column", "end_column")]
            found.append((self._entry("file_names", file), self._entry("function_names", function), *numbers))
            number = frame.get("parent_frame_id", [0])[0]
        return found

    def _entry(self, table: str, number: int) -> Any:
        entries = self._tables.get(table, ())
        return entries[number - 1] if 0 < number <= len(entries) else None


def _sequence(
    entry: Decoded, names: Mapping[int, str], inside: Mapping[str, Mapping[int, str]]
) -> tuple[str, list[str]]:
    name = names[entry.get("key", [0])[0]]
    return name, [inside[name][number] for number in entry["value"][0].get("instruction_ids", ())]


def _number(each: Decoded) -> int:
    number = each.get("id", [0])[0]
    assert isinstance(number, int)
    return number


def _decoded(kind: str, data: bytes) -> Decoded:
    """A message by the names of its fields; those of a map in the order of its keys."""
    by_number = {field.number: (name, field) for name, field in fields_of(kind).items()}
    found: Decoded = {}
    for number, value in read_fields(data):
        name, field = by_number[number]
        values = found.setdefault(name, [])
        if field.is_number and isinstance(value, bytes):
            values.extend(read_numbers(value))
        elif field.is_message and isinstance(value, bytes):
            values.append(_decoded(field.type, value))
        else:
            values.append(value)
    if "map" in found:
        found["map"].sort(key=lambda entry: str(entry.get("key")))
    return found


def _compared(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other} - {*_LEFT_OUT}):
            yield from _compared(one.get(name, []), other.get(name, []), f"{path}.{name}")
    elif isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str | bytes):
        if len(one) != len(other):
            yield f"{path}: {len(one)} in XLA's, {len(other)} in ours: {str(one)[:80]} {str(other)[:80]}"
        else:
            for number, (each, its) in enumerate(zip(one, other, strict=True)):
                yield from _compared(each, its, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {str(one)[:80]} in XLA's, {str(other)[:80]} in ours"
