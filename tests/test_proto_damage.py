"""Protos that are cut, changed or made to do harm: an error says where, and nothing takes long or falls over."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from hlo_cli import cli
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.corruption import find_damage
from hlo_cli.syntax.proto.messages import MessageBuilder
from hlo_cli.syntax.proto.read_values import ShapeReader
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.wire import field, varint
from protos import PROTOS, read
from strategies import name_of
from test_proto import SMALL
from timing import soon

each_proto = pytest.mark.parametrize("path", PROTOS, ids=name_of)

_PLACE = re.compile(r"byte ([0-9,]+)")


def look_at_all(data: bytes) -> None:
    """Read a module and all that it says; an HloError is what a broken proto gives."""
    module = read(data)
    for instruction in module.instructions:
        _ = (
            instruction.metadata,
            instruction.literal and instruction.literal.to_string(),
            instruction.shape.padded_bytes,
        )
        for attribute in instruction.attributes:
            instruction.value(attribute.name)
    assert parse_module(str(module)).instruction_count == module.instruction_count
    _ = module.buffer_assignment


def error_of(data: bytes) -> str:
    """The message of the error that reading gives, which names a byte of the file if it is damaged."""
    with pytest.raises(HloError) as caught:
        look_at_all(data)
    message = caught.value.diagnostic.message
    if place := _PLACE.search(message):
        assert int(place[1].replace(",", "")) <= len(data)
    return message


def test_every_prefix_of_a_module_is_an_error_or_a_module() -> None:
    data = module_to_bytes(parse_module(SMALL))
    whole = 0
    for end in range(len(data)):
        with suppress(HloError):
            look_at_all(data[:end])
            assert find_damage(data[:end]) is None
            whole += 1
    assert whole < 20  # a module may end after each of its fields


@each_proto
def test_a_dump_that_ends_too_early_says_in_which_field(path: Path) -> None:
    data, random = path.read_bytes(), Random(name_of(path))
    for _ in range(20):
        end = random.randrange(200, data.index(b"\x1a", 1000) if random.random() < 0.3 else len(data) // 2)
        message = error_of(data[:end])
        assert f"byte {end:,}, hlo_module" in message
        assert "end of file inside this field" in message


@each_proto
def test_changed_bytes_give_a_module_or_an_error(path: Path) -> None:
    data, random = path.read_bytes(), Random(name_of(path))
    errors = 0
    with soon(60):
        for _ in range(12):
            changed = bytearray(data)
            for _ in range(random.choice((1, 1, 3, 30))):
                changed[random.randrange(len(changed))] = random.choice((0, 0xFF, 0x7F, 0x80, random.randrange(256)))
            try:
                look_at_all(bytes(changed))
            except HloError:
                errors += 1
    assert errors


def in_module(*instructions: bytes) -> bytes:
    """A module with one computation of some instructions; the first is its root."""
    computation = field(1, b"e") + b"".join(field(2, i) for i in instructions) + field(5, 1) + field(6, 1)
    return field(1, b"m") + field(2, b"e") + field(3, computation) + field(6, 1)


def an_instruction(*more: bytes, shape: bytes = bytes((0x10, 11)), opcode: bytes = b"negate") -> bytes:
    """An instruction without operands."""
    return field(1, b"r") + field(2, opcode) + field(3, shape) + field(35, 1) + b"".join(more)


def nested(number: int, inner: bytes, depth: int) -> bytes:
    """A message many times within itself; as bytes are added in front, this takes time that grows as the depth."""
    heads, length = [], len(inner)
    for _ in range(depth):
        head = varint(number << 3 | 2) + varint(length)
        heads.append(head)
        length += len(head)
    return b"".join(reversed(heads)) + inner


def a_tuple(depth: int) -> bytes:
    """The shape of tuples within tuples."""
    heads, length = [], 2
    for _ in range(depth):
        head = bytes((0x10, 13)) + varint(4 << 3 | 2) + varint(length)
        heads.append(head)
        length += len(head)
    return b"".join(reversed(heads)) + bytes((0x10, 11))


@pytest.mark.parametrize(
    "made",
    [
        lambda: in_module(an_instruction(shape=a_tuple(100_000))),
        lambda: in_module(an_instruction(field(8, nested(10, b"", 100_000)), opcode=b"constant")),
        lambda: in_module(an_instruction(field(8, field(1, a_tuple(50_000))), opcode=b"constant")),
        lambda: in_module(an_instruction(field(88, field(1, field(1, b"\1" * 100_000))))),
        lambda: nested(1, in_module(an_instruction()), 100_000),
    ],
    ids=["shape", "literal", "shape of a literal", "original value", "holders"],
)
def test_messages_within_messages_are_refused_at_some_depth(made: Callable[[], bytes]) -> None:
    data = made()
    with soon(5):
        error_of(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an HLO module proto"),
        (b"\n\x05saved\x12\x03abc", "not an HLO module proto"),
        (b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "varint of more than ten bytes"),
        (in_module(an_instruction()) + b"\x1a\xff\xff\xff\xff\x07", "end of file inside this field"),
        (in_module(an_instruction()) + b"\xff" * 30 + b"\1", "varint of more than ten bytes"),
        (in_module(an_instruction()) + b"\x0b", "invalid field tag"),
        (in_module(an_instruction(field(36, b"\x09"))), "e.r refers to unknown instruction id 9"),
        (in_module(an_instruction(field(36, b"\x81"))), "operand_ids[0]: truncated varint"),
        (in_module(an_instruction(field(38, b"\x09"))), "refers to unknown computation id 9"),
        (in_module(an_instruction(field(38, b"\x01"))), "call"),
        (in_module(an_instruction(), an_instruction()), "duplicate instruction id in e"),
        (in_module(an_instruction(shape=bytes((0x10, 99)))), "unknown PrimitiveType value 99"),
        (in_module(an_instruction(opcode=b"a(b")), "not an HLO module proto"),
        (in_module(an_instruction(shape=field(2, b"f32"))), "expected PrimitiveType, found bytes"),
        (in_module(an_instruction(field(13, b"x"), opcode=b"get-tuple-element")), "expected int, found bytes"),
        (
            in_module(an_instruction(field(40, field(1, 2) + field(5, field(1, 2))))),
            "nested tuple sharding",
        ),
        (
            in_module(an_instruction()) + field(7, field(1, field(1, 1) + field(2, field(1, b"\5")))),
            "the schedule of e",
        ),
    ],
)
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    assert message in error_of(data)


def test_sizes_that_no_memory_holds_are_refused() -> None:
    """An array of 2^62 elements in a literal that holds none of them."""
    shape = field(2, 11) + field(3, varint(1 << 62)) + field(5, field(1, b"\0"))
    with soon(1):
        assert error_of(in_module(an_instruction(field(8, field(1, shape)), shape=shape, opcode=b"constant")))


def test_whole_protos_have_no_damage() -> None:
    for path in PROTOS:
        assert find_damage(path.read_bytes()) is None


@pytest.mark.parametrize("command", [("parse",), ("parse", "--tree"), ("parse", "--format", "hlo"), ("layout",)])
def test_no_command_falls_over_a_broken_proto(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, random, path = min((p.read_bytes() for p in PROTOS), key=len), Random(str(command)), tmp_path / "m.hlo.pb"
    for _ in range(30):
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(changed)
        code = cli.main([*command, str(path)], standalone=False)
        assert code in (0, 2)
        assert ("error: " in capsys.readouterr().err) == (code == 2)


def test_an_element_of_a_tuple_has_to_have_a_type() -> None:
    nothing = MessageBuilder("ShapeProto")
    shape = MessageBuilder("ShapeProto").add("element_type", "tuple").add("tuple_shapes", [nothing])
    with pytest.raises(HloError, match="tuple element has no type"):
        _ = ShapeReader()[shape.to_bytes()]
