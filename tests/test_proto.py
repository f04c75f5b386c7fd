"""Protos say what text says: modules read from them, written to them, and read again, by us and by XLA."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from hlo_cli import load
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.messages import ENUMS, FLOATS, MESSAGES, TEXTS, VARINT_TYPES
from hlo_cli.syntax.proto.write_module import module_to_bytes, unrepresentable_attributes, wrapped_operations
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.wire import field, fixed, packed, read_fields, varint
from protos import PROTOS, elided_in, has_short_forms, read, said, text_beside
from strategies import Model, dump_text, dumps, models, name_of, structure
from test_parse_laws import thorough
from test_strict import ACCEPTED, with_line

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)
each_proto = pytest.mark.parametrize("path", PROTOS, ids=name_of)

SMALL = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, num_partitions=2

%f (a: f32[2]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  ROOT %b = f32[2]{0} negate(%a), metadata={op_name="jit(f)/neg" profile_type={1,2}}
}

ENTRY %e (p: f32[2]) -> f32[2] {
  %p = f32[2]{0:T(128)S(1)} parameter(0), sharding={devices=[2]<=[2]}
  %c = f32[] constant(1.5)
  %w = f32[2]{0} broadcast(%c), dimensions={}
  %q = f32[2]{0} call(%p), to_apply=%f, control-predecessors={%c}
  ROOT %s = f32[2]{0} add(%q, %w), backend_config={"window":"x"}
}

"""


@each_proto
def test_a_proto_says_what_its_text_says(path: Path) -> None:
    from_proto, from_text = load(path), parse_module(dump_text(text_beside(path)))
    elided = elided_in(from_text)
    flags = unrepresentable_attributes(from_text)
    assert said(from_proto, elided=elided) == said(from_text, elided=elided)
    assert [c.name for c in from_proto.computations] == [c.name for c in from_text.computations]
    assert from_proto.errors == ()
    assert set(flags) <= {f"allow_spmd_sharding_propagation_to_{of}" for of in ("parameters", "output")}


@each_dump
def test_a_dump_is_the_same_after_it_was_written(path: Path) -> None:
    module = parse_module(dump_text(path))
    again = read(module_to_bytes(module))
    assert said(again, elided=elided_in(module)) == said(module, given=wrapped_operations(module))


@given(models())
@thorough
def test_a_module_is_the_same_after_it_was_written(model: Model) -> None:
    module = parse_module(model.canonical())
    try:
        data = module_to_bytes(module)
    except HloError:
        return
    again = read(data)
    assert [structure(again)[i] for i in (0, 2, 3, 4)] == [structure(module)[i] for i in (0, 2, 3, 4)]


@pytest.mark.parametrize("line", [line for line in ACCEPTED if not line.startswith("ROOT")])
def test_every_attribute_is_the_same_after_it_was_written(line: str) -> None:
    module = parse_module(with_line(line))
    if has_short_forms(module) or any(isinstance(i.shape, UnknownShape) for i in module.instructions):
        return
    again = read(module_to_bytes(module))
    assert again.instruction_count == module.instruction_count
    for before in module.instructions:
        after = again.computation(before.computation.name).instructions[before.index]
        values = {a.name: after.value(a.name) for a in after.attributes}
        for attribute in before.attributes:
            value = before.value(attribute.name)
            if attribute.name != "mode":  # which XLA reads and forgets
                assert _comparable(values.get(attribute.name)) == _comparable(value)


def _comparable(value: object) -> object:
    return value.replace(" ", "") if isinstance(value, str) else value


def test_what_a_small_module_says_survives() -> None:
    module, again = parse_module(SMALL), read(module_to_bytes(parse_module(SMALL)))
    assert said(again, without=("entry_computation_layout",)) == said(module)
    assert str(again.entry_computation_layout) == "{(f32[2]{0:T(128)S(1)})->f32[2]{0}}"
    assert "profile_type={1,2}" in str(again)


def test_names_are_unique_in_protos_as_xla_makes_them() -> None:
    body = "{ p = f32[] parameter(0)  q.3 = f32[] negate(p)  ROOT p.1 = f32[] negate(q.3) }"
    text = f"HloModule m  f {body} ENTRY e {{ p = f32[] parameter(0)  ROOT q.3 = f32[] call(p), to_apply=f }}"
    names = [[i.name for i in c.instructions] for c in read(module_to_bytes(parse_module(text))).computations]
    assert names == [["p", "q.3", "p.1"], ["p.2", "q.0"]]


def test_values_that_a_dump_leaves_out_are_left_out_of_its_proto() -> None:
    text = "HloModule m  ENTRY e { c = (f32[9]{0}, s32[]) constant({...})  ROOT d = f32[99]{0} constant({...}) }"
    again = read(module_to_bytes(parse_module(text)))
    assert all(i.literal is not None and i.literal.is_elided for i in again.entry.instructions)
    assert str(again).count("constant({...})") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT s = ((f32[2]), f32[2]) negate-start(p) }",
            "s uses a short form that protos do not support",
        ),
        ("HloModule m  ENTRY e { ROOT p = parameter(0) }", "missing shape"),
        ("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0), odd=1 }", "p: cannot represent odd=1 in a proto"),
        (
            "HloModule m  ENTRY e { a = f32[] parameter(0)  ROOT b = f32[] negate(x) }",
            "cannot write a proto: undefined operand 'x' in e",
        ),
    ],
)
def test_what_a_proto_cannot_say_is_refused(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        module_to_bytes(parse_module(text))


def _in_proto(module: bytes) -> bytes:
    return field(1, module) + field(3, b"")


def _in_snapshot(module: bytes) -> bytes:
    return field(1, _in_proto(module)) + field(2, bytes.fromhex("0a02100b42040000c03f")) + field(4, b"Host")


def _in_unoptimized_snapshot(module: bytes) -> bytes:
    return field(1, module) + field(2, b"\x0a\x00") + field(3, 1)


@pytest.mark.parametrize("holder", [bytes, _in_proto, _in_snapshot, _in_unoptimized_snapshot])
@pytest.mark.parametrize("zipped", [False, True])
def test_whatever_message_holds_a_module_it_is_read(holder: Any, zipped: bool, tmp_path: Path) -> None:
    data = holder(module_to_bytes(parse_module(SMALL)))
    path = tmp_path / ("m.hlo.pb.gz" if zipped else "m.pb")
    path.write_bytes(gzip.compress(data) if zipped else data)
    assert said(load(path), without=("entry_computation_layout",)) == said(parse_module(SMALL))


def _with_unknown_fields(data: bytes, kinds: tuple[int, ...]) -> bytes:
    """A message with fields that nobody knows at both ends of it, and of those in it."""
    unknown = field(3001, 7) + field(3002, b"later") + fixed(3003, b"\0" * 4) + fixed(3004, b"\0" * 8)
    inner = (
        field(n, _with_unknown_fields(v, kinds[1:]) if kinds and n == kinds[0] and isinstance(v, bytes) else v)
        for n, v in read_fields(data)
    )
    return unknown + b"".join(inner) + unknown


def test_fields_that_nobody_knows_are_passed_over() -> None:
    data = module_to_bytes(parse_module(SMALL))
    later = _with_unknown_fields(data, (3, 2, 3, 5))
    assert len(later) > len(data) + 400
    assert said(read(later)) == said(read(data))
    assert read(later).errors == ()


def test_lists_may_stand_unpacked_and_fields_in_any_order() -> None:
    """As any writer of protos may have them, though XLA does not."""
    data = module_to_bytes(parse_module(SMALL))

    def shuffled(instruction: bytes) -> bytes:
        fields = []
        for number, value in read_fields(instruction):
            if number in (36, 37, 38) and isinstance(value, bytes):
                fields += [field(number, n) for n in _numbers(value)]
            else:
                fields.append(field(number, value))
        return b"".join(reversed(fields)) if len(_numbers_of(instruction, 36)) < 2 else b"".join(fields)

    def in_computation(computation: bytes) -> bytes:
        inner = ((n, shuffled(v) if n == 2 and isinstance(v, bytes) else v) for n, v in read_fields(computation))
        return b"".join(field(n, v) for n, v in inner)

    changed = b"".join(
        field(n, in_computation(v) if n == 3 and isinstance(v, bytes) else v) for n, v in read_fields(data)
    )
    assert changed != data
    assert said(read(changed)) == said(read(data))


def _numbers(data: bytes) -> list[int]:
    found = []
    while data:
        number = next(v for _, v in read_fields(b"\x08" + data[: next(i for i, b in enumerate(data) if b < 128) + 1]))
        assert isinstance(number, int)
        found.append(number)
        data = data[len(varint(number)) :]
    return found


def _numbers_of(instruction: bytes, number: int) -> list[int]:
    return [
        n
        for at, value in read_fields(instruction)
        if at == number and isinstance(value, bytes)
        for n in _numbers(value)
    ]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in PROTOS
        if (path.with_name(path.name.removesuffix(".hlo.pb") + "-buffer-assignment.txt")).exists()
    ],
    ids=name_of,
)
def test_a_buffer_assignment_says_what_its_text_says(path: Path) -> None:
    module = load(path)
    assignment = module.buffer_assignment
    assert assignment is not None
    text = path.with_name(path.name.removesuffix(".hlo.pb") + "-buffer-assignment.txt").read_text()
    listed = {int(index): int(size) for index, size in re.findall(r"(?m)^allocation (\d+): size (\d+)", text)}
    assert {a.index: a.size_bytes for a in assignment.allocations} == listed
    values = set(re.findall(r"(?m)^ value: <\d+ ([^ {]+)[^>]*> \(size=(\d+),offset=(\d+)\)", text))
    assert values
    for allocation in assignment.allocations:
        for assigned in allocation.assigned:
            buffer = assignment.logical_buffer(assigned.logical_buffer_id)
            assert buffer is not None
            assert buffer.defined_at.instruction in set(module.instructions)
            name = buffer.defined_at.instruction.name
            assert (name, str(assigned.size_bytes), str(assigned.offset_bytes)) in values
            assert assigned.offset_bytes + assigned.size_bytes <= allocation.size_bytes


def test_text_has_no_buffer_assignment() -> None:
    assert parse_module(SMALL).buffer_assignment is None
    assert read(module_to_bytes(parse_module(SMALL))).buffer_assignment is None


# What XLA says


def _hlo() -> Any:
    return pytest.importorskip("jaxlib._hlo")


def _printed(module: Any) -> list[str]:
    """The parts of a module's text, without stack frames, which XLA counts in the order in which it prints them.

    Nor is it told how computations follow each other: XLA brings those that it reads from text into its own order.
    """
    options = _hlo().HloPrintOptions()
    options.print_large_constants = True
    return _parts(_FRAME.sub("", module.to_string(options)))


_FRAME = re.compile(r" ?stack_frame_id=[0-9]+|(?m:^[0-9]+ [{\"].*\n)|, metadata=\{ ?stack_frame_id=[0-9]+\}")


def _parts(text: str) -> list[str]:
    return sorted(part.strip() for part in text.split("\n\n"))


def _theirs(text: str) -> bytes:
    try:
        data = _hlo().hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except RuntimeError as error:
        pytest.skip(f"XLA does not read what it wrote: {str(error)[:100]}")
    assert isinstance(data, bytes)
    return data


@pytest.mark.oracle
@each_dump
def test_what_xla_writes_prints_as_xla_prints_it(path: Path) -> None:
    hlo = _hlo()
    data = _theirs(dump_text(path))
    theirs = hlo.HloModule.from_serialized_hlo_module_proto(data)
    ours = read(data)
    if has_short_forms(parse_module(theirs.to_string())):
        assert _printed(hlo.HloModule.from_serialized_hlo_module_proto(module_to_bytes(ours))) == _printed(theirs)
    else:
        assert _parts(_FRAME.sub("", str(ours))) == _printed(theirs)
        assert [c.name for c in ours.computations] == [c.name for c in parse_module(theirs.to_string()).computations]


@pytest.mark.oracle
@each_dump
def test_xla_reads_what_is_written(path: Path) -> None:
    hlo, module = _hlo(), parse_module(dump_text(path))
    theirs = hlo.HloModule.from_serialized_hlo_module_proto(_theirs(dump_text(path)))
    ours = hlo.HloModule.from_serialized_hlo_module_proto(module_to_bytes(module))
    assert _as_from_text(ours, without_values=bool(elided_in(module))) == _as_from_text(
        theirs, without_values=bool(elided_in(module))
    )
    printed = parse_module(ours.to_string())
    if not has_short_forms(printed):
        assert [c.name for c in printed.computations] == [c.name for c in read(module_to_bytes(module)).computations]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "line",
    ["a = f32[4] parameter(0)  ROOT r = (f32[2], s32[2]) topk(a), k=2"]
    + [
        "a = f32[4] parameter(0)  b = f32[] parameter(1)  ROOT r = (f32[4], f32[]) scan(a, b), dimensions={0}, "
        f"num_carries=1, to_apply=f{associative}"
        for associative in ("", ", is_associative=true")
    ],
)
def test_what_xla_adds_to_attributes_is_written(line: str) -> None:
    function = "f { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT t = (f32[], f32[]) tuple(x, y) }"
    text = f"HloModule m  {function}  ENTRY e {{ {line} }}"
    read = _hlo().HloModule.from_serialized_hlo_module_proto
    assert read(module_to_bytes(parse_module(text))).to_string() == read(_theirs(text)).to_string()


_CONSTANT = re.compile(r"(?m)^(.*) (constant\(.*?\))(?=, [a-z_]+=|$)")


def _as_from_text(module: Any, *, without_values: bool) -> list[str]:
    """What XLA prints; reading text it takes -0 for 0, loses the `E(4)` of constants, and makes up what is left out."""

    def constant(found: re.Match[str]) -> str:
        values = "constant" if without_values else re.sub(r"-0(?=[,)} ])", "0", found[2])
        return f"{re.sub(r':?E[(]4[)]', '', found[1])} {values}"

    return [_CONSTANT.sub(constant, part) for part in _printed(module)]


def test_packed_numbers_are_those_that_were_written() -> None:
    numbers = [0, 1, 127, 128, 2**31, 2**64 - 1]
    assert _numbers(packed(numbers)) == numbers


def test_half_a_character_is_written_as_it_is() -> None:
    """As a text in memory may have it; no file does."""
    module = parse_module('HloModule m  ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="\ud83d"} }')
    assert b"\xed\xa0\xbd" in module_to_bytes(module)


def test_every_type_of_the_table_is_known() -> None:
    """A type that is none would count as a message, and its numbers would be lost."""
    messages = set(re.findall(r"^(\w+) ", MESSAGES, re.MULTILINE))
    enums = set(re.findall(r"^(\w+) ", ENUMS, re.MULTILINE))
    types = {kind.removeprefix("*") for kind in re.findall(r"\d+:\w+:(\*?\w+)", MESSAGES)}
    assert types <= messages | enums | VARINT_TYPES | FLOATS.keys() | TEXTS
