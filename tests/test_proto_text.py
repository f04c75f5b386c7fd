"""Protos in protobuf's text format and JSON, whole, in part, and malformed."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_module
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.proto.read_module import read_proto
from hlo_cli.syntax.proto.read_proto_text import find_proto_text, looks_like_proto_text, read_proto_text
from hlo_cli.syntax.proto.text_encoder import encode_text
from proto_texts import Style, json_of, tree_of
from protos import PROTOS, read
from timing import is_linear, soon

SHAPE = "shape { element_type: F32 dimensions: 4 layout { minor_to_major: 0 tail_padding_alignment_in_elements: 1 } }"
P = f'instructions {{ name: "p" opcode: "parameter" {SHAPE} id: 1 }}'
N = f'instructions {{ name: "n" opcode: "negate" {SHAPE} id: 2 operand_ids: 1 }}'
MODULE = f'name: "m"\nentry_computation_name: "e"\ncomputations {{\n{P}\n{N}\nname: "e" id: 7 root_id: 2\n}}\nentry_computation_id: 7'


def module_of(text: str) -> Module:
    """The module in a text."""
    return read_module(Source("m.pbtxt", text))


def proto_text_to_bytes(source: Source) -> bytes:
    """The wire format of a message as text; HloError if it is truncated or malformed."""
    encoded = encode_text(source, find_proto_text(source.text) or 0)
    if encoded.errors:
        raise HloError.of(encoded.errors)
    return encoded.data


def errors_of(text: str) -> list[str]:
    """The errors in a text, with their places."""
    return [str(each).removeprefix("m.pbtxt:") for each in encode_text(Source("m.pbtxt", text)).errors]


def rows_of(module: Module) -> list[str]:
    """The instructions of a module, as in its text."""
    lines = (line.strip() for line in str(module).splitlines())
    return [line for line in lines if " = " in line]


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.parent.name + path.name[-12:-7])
@pytest.mark.parametrize("style", [pytest.param("printed", marks=pytest.mark.slow), "one line", "random"])
def test_dumps_as_text(path: Path, style: str) -> None:
    data = path.read_bytes()
    styles = {"printed": Style(), "one line": Style(" "), "random": Style(random=random.Random(path.name))}
    text = styles[style].text(tree_of("HloProto", data))
    assert looks_like_proto_text(text)
    module = module_of(text)
    assert str(module) == str(read(data))
    assert module.errors == module.notes == ()
    assert (module.buffer_assignment is None) == (read(data).buffer_assignment is None)


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.parent.name + path.name[-12:-7])
@pytest.mark.parametrize("camel", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dumps_as_json(path: Path, camel: bool) -> None:
    data = path.read_bytes()
    text = json.dumps(json_of(tree_of("HloProto", data), camel=camel), indent=2 if camel else None)
    module = module_of(text)
    assert str(module) == str(read(data))
    assert module.errors == module.notes == ()


def test_module_without_a_holder() -> None:
    module = module_of(MODULE)
    assert (module.name, module.entry.name, rows_of(module)) == (
        "m",
        "e",
        ["%p = f32[4]{0} parameter(0)", "ROOT %n = f32[4]{0} negate(%p)"],
    )


@pytest.mark.parametrize(
    "before", ["# proto-message: xla.HloModuleProto\n", "  \n\n", "goo.gle/debugonly  ", "goo.gle/debugstr\n# x\n", ""]
)
@pytest.mark.parametrize(
    "holder", ["{}", "hlo_module {{ {} }}", "hlo {{ hlo_module: < {} > }} execution_platform: 'TPU'"]
)
def test_what_is_around_a_module(before: str, holder: str) -> None:
    text = before + holder.format(MODULE)
    assert looks_like_proto_text(text)
    assert rows_of(module_of(text)) == rows_of(module_of(MODULE))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```\n", "\n```\n"),
        ("F0101 12:00:00.000000 1 a.cc:1] Failed to choose an algorithm: ", "\n\nTraceback (most recent call last):"),
        ('  TF_ASSERT_OK(Parse(R"pb(\n', '\n)pb"));\n'),
        (">>> print(proto)\n", "\n>>> "),
    ],
)
@pytest.mark.parametrize("holder", ["{}", "hlo {{ hlo_module: {{ {} }} }}"])
def test_other_text_around_a_message(before: str, after: str, holder: str) -> None:
    text = before + holder.format(MODULE) + after
    assert looks_like_proto_text(text)
    module = module_of(text)
    assert rows_of(module) == rows_of(module_of(MODULE))
    assert module.errors == ()
    [note] = module.notes
    assert (note.code, note.message) == ("other-text", "ignored the text after the message")
    assert note.span is not None
    assert text[note.span.start :] == after.lstrip()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_broken_lines(width: int) -> None:
    """Terminals and logs break a line anywhere, even within a word."""
    line = MODULE.replace("\n", " ")
    text = "\n".join(line[at : at + width] for at in range(0, len(line), width))
    assert str(module_of(text)) == str(module_of(MODULE))


def test_a_module_within_an_unknown_message() -> None:
    text = f'module_name: "x" compiled {{ config {{ seed: 3 }} hlo_module {{ {MODULE} }} }} thunks [{{ a: [1] }}]'
    assert rows_of(module_of(text)) == rows_of(module_of(MODULE))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r'name: "a\142\x63\u0064\n"', b"abcd\n"),
        (r"name: 'it\'s \"it\"'", b'it\'s "it"'),
        ("name: 'a' \"b\"\n  # more\n 'c'", b"abc"),
        (r'name: "\303\251"', "é".encode()),
        ('name: "é"', "é".encode()),
        (r'name: "\ud83d\ude00\U0001F600"', "😀😀".encode()),
        (r'name: "\?\a\b\f\v\r\t"', b"?\a\b\f\v\r\t"),
        ('name: ""', b""),
        ("name: 'x' name: 'y'", b"y"),
    ],
)
def test_strings(text: str, found: bytes) -> None:
    data = proto_text_to_bytes(Source("", "entry_computation_id: 1 " + text))
    assert data.endswith(b"\n" + bytes((len(found),)) + found)


@pytest.mark.parametrize(
    ("value", "number"),
    [("7", 7), ("0x1F", 31), ("017", 15), ("-3", -3), ("- 3", -3), ('"42"', 42), ("9223372036854775807", 2**63 - 1)],
)
@pytest.mark.parametrize("form", ["{}", "[{}]", "[ {}, # one\n]"])
def test_integers(value: str, number: int, form: str) -> None:
    text = f'opcode: "pad" dimensions: {form.format(value)} id: 1'
    found = tree_of("HloInstructionProto", proto_text_to_bytes(Source("", text)))
    assert [v for n, _, v in found if n == "dimensions"] == [number]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1", 1.0),
        ("-1.5e3", -1500.0),
        (".5f", 0.5),
        ("1e99", float("inf")),
        ("-inf", float("-inf")),
        ("0x3fc00000", 1.5),
    ],
)
def test_floats(value: str, number: float) -> None:
    data = proto_text_to_bytes(Source("", f'opcode: "x" epsilon: {value}'))
    assert [v for n, _, v in tree_of("HloInstructionProto", data) if n == "epsilon"] == [number]


@pytest.mark.parametrize("value", ["nan", "-nan", "NaN"])
def test_floats_that_are_not_numbers(value: str) -> None:
    data = proto_text_to_bytes(Source("", f'opcode: "x" epsilon: {value}'))
    assert "nan" in str(tree_of("HloInstructionProto", data)[1][2])


@pytest.mark.parametrize("value", ["OPAQUE_TYPE", "14", "opaque_type", "0xe", '"OPAQUE_TYPE"'])
def test_names_of_enumerations(value: str) -> None:
    assert module_of(MODULE.replace("F32 dimensions: 4", value)).entry.root is not None


def test_fields_by_number() -> None:
    """Printers give fields that they do not know by number."""
    text = MODULE.replace("operand_ids", "36").replace("opcode", "2").replace("computations {", "3 {")
    assert rows_of(module_of(f"hlo_module {{ {text} }}")) == rows_of(module_of(MODULE))


def test_fields_of_older_versions() -> None:
    text = MODULE.replace("minor_to_major", "format: DENSE max_sparse_elements: 3 minor_to_major")
    text = text.replace('"negate"', '"negate" [xla.ext]: 5 [type.googleapis.com/a.B] { c: 1 } cost { a < b: "}" > }')
    module = module_of(
        text + ' program_shape { parameter_names: "p" } some_list: [{ a: 1 }, { b: 2 }] others: ["a", "b"]'
    )
    assert rows_of(module) == rows_of(module_of(MODULE))
    [note] = module.notes
    assert (note.code, note.span and note.span.start) == ("unknown-field", text.index("format"))
    assert note.message == (
        "unknown fields skipped: LayoutProto.format (2 times), LayoutProto.max_sparse_elements (2 times), "
        "HloInstructionProto.[xla.ext], HloInstructionProto.[type.googleapis.com/a.B], HloInstructionProto.cost, "
        "HloModuleProto.some_list, HloModuleProto.others"
    )


@pytest.mark.parametrize(
    ("good", "bad", "marked", "error"),
    [
        ("F32", "F33", "F33", "unknown element_type 'F33'"),
        ("dimensions: 4", "dimensions: four", "four", "expected an integer for dimensions, found 'four'"),
        ("dimensions: 4", "dimensions: 1.5", "1.5", "expected an integer for dimensions, found '1.5'"),
        ("dimensions: 4", "dimensions: { }", "{ }", "expected a value for dimensions, found '{'"),
        ("dimensions: 4", f"dimensions: {2**63}", f"{2**63}", f"dimensions is out of range: '{2**63}'"),
        ("dimensions: 4", "dimensions 4", "4 layout", "expected ':' after dimensions, found '4'"),
        ("dimensions: 4", "dimensions: ]", "]", "expected a value for dimensions, found ']'"),
        ("layout {", "layout: 5 foo {", "5 foo", "expected '{' after layout, found '5'"),
        ("} id: 1 }", "] id: 1 }", "] id", "expected '}', found ']'"),
        ('"parameter"', "parameter", "parameter shape", "expected a string for opcode, found 'parameter'"),
        ('"parameter" shape', '"parameter\nshape', '"parameter\n', "unterminated string"),
        ("element_type", "= element_type", "=", "expected a field name, found '='"),
        ("root_id: 2", "root_id: yes", "yes", "expected an integer for root_id, found 'yes'"),
    ],
)
def test_malformed_values(good: str, bad: str, marked: str, error: str) -> None:
    text = MODULE.replace(good, bad, 1)
    first = encode_text(Source("m.pbtxt", text)).errors[0]
    assert (first.message, first.span and first.span.start) == (error, text.index(marked))


def test_errors_of_values_do_not_end_the_reading() -> None:
    module = module_of(MODULE.replace("F32", "F33"))
    assert [each.message for each in module.errors] == ["unknown element_type 'F33'"] * 2
    assert module.errors[0].hint == "did you mean 'F32'?"
    assert len(rows_of(module)) == 2


def test_many_errors_end_the_reading() -> None:
    assert len(errors_of("computations { " + "id: x " * 1000)) <= 101


@pytest.mark.parametrize("end", ["", " ", "\n"])
def test_truncated_anywhere(end: str) -> None:
    """Complete instructions are read, whatever follows; the error is at the end."""
    text = f"hlo_module {{\n{MODULE}\n}}\n"
    first = text.index("\n", text.index('"p"'))
    for cut in range(first, len(text) - 2):
        part = text[:cut] + end
        module = module_of(part)
        assert [each.message[:23] for each in module.errors] == ["unexpected end of input"]
        assert module.errors[0].span == Span(len(part.rstrip()) - 1, len(part.rstrip()))
        assert rows_of(module)[0].removeprefix("ROOT ") == "%p = f32[4]{0} parameter(0)"
        assert len(rows_of(module)) == (2 if cut >= text.index("\n", text.index('"n"')) else 1)


def test_truncated_dumps() -> None:
    """With parts that the compiler wrote: schedules, calls of computations, buffers."""
    data = max(PROTOS, key=lambda path: path.stat().st_size).read_bytes()
    text = Style().text(tree_of("HloProto", data))
    whole = {row.removeprefix("ROOT ").split(" ")[0] for row in rows_of(module_of(text))}
    chance = random.Random(18)
    for _ in range(8):
        module = module_of(text[: chance.randrange(len(text) // 8, len(text))])
        assert len(module.errors) == 1
        assert {row.removeprefix("ROOT ").split(" ")[0] for row in rows_of(module)} <= whole


def test_the_name_of_what_is_truncated() -> None:
    [error] = errors_of(MODULE[: MODULE.index("operand_ids: 1 ")])
    assert error == "5:156: error: unexpected end of input in instruction n"
    [error] = errors_of('computations { name: "e" instructions { name: "p" op')
    assert error == "1:52: error: unexpected end of input in instruction p of computation e"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (f"{P}\n{N}", ["%p = f32[4]{0} parameter(0)", "ROOT %n = f32[4]{0} negate(%p)"]),
        (f"computations {{ name: 'e' {P} {N} }}", ["%p = f32[4]{0} parameter(0)", "%n = f32[4]{0} negate(%p)"]),
        (P.removeprefix("instructions {").removesuffix("}"), ["ROOT %p = f32[4]{0} parameter(0)"]),
        (N, ["%operand.1 = parameter(0)", "ROOT %n = f32[4]{0} negate(%operand.1)"]),
        (
            N.replace("negate", "fusion").replace("id: 2", 'id: 2 fusion_kind: "kLoop" called_computation_ids: 9'),
            ["%operand.1 = parameter(0)", "ROOT %n = f32[4]{0} fusion(%operand.1), kind=kLoop"],
        ),
        (
            f"{P} {N.replace('id: 2', 'id: 2 control_predecessor_ids: 5')}",
            ["%p", "%operand.5 = parameter(1)", "ROOT %n"],
        ),
    ],
)
def test_parts_of_a_module(text: str, rows: list[str]) -> None:
    assert looks_like_proto_text(text)
    module = module_of(text)
    found = sorted(row.removeprefix("ROOT ") for row in rows_of(module))
    expected = sorted(row.removeprefix("ROOT ") for row in rows)
    assert len(found) == len(expected)
    assert all(row.startswith(start) for row, start in zip(found, expected, strict=True)), found
    name = "e" if text.startswith("computations") else "entry_computation"
    assert (module.name, module.entry.name) == (f"module_{name}", name)
    assert module.errors == ()


def test_the_end_of_a_module() -> None:
    """What precedes the first complete instruction is dropped, with one error."""
    text = MODULE[MODULE.index("minor_to_major: 0") :]
    assert looks_like_proto_text(text)
    module = module_of(text)
    assert [row.split(" = ")[1] for row in rows_of(module)] == ["parameter(0)", "f32[4]{0} negate(%operand.1)"]
    [error] = module.errors
    assert str(error) == "m.pbtxt:1:57: error: unmatched '}'; the beginning of the message may be missing"


def test_replica_groups_in_protos_of_2024() -> None:
    groups = "iota_replica_group_list { num_replica_groups: 2 num_devices_per_group: 4 iota_reshape_dims: 8 }"
    text = N.replace("negate", "all-gather").replace("id: 2", f"id: 2 collective_device_list {{ {groups} }}")
    root = module_of(f"{P} {text}").entry.root
    assert root is not None
    assert root.attribute("replica_groups") == "[2,4]<=[8]"


def test_strictly() -> None:
    assert str(read_module(Source("m.pbtxt", MODULE), strict=True)) == str(module_of(MODULE))
    with pytest.raises(HloError, match="unexpected end of input"):
        read_module(Source("m.pbtxt", MODULE[:-40]), strict=True)
    with pytest.raises(HloError, match="expected a value"):
        proto_text_to_bytes(Source("m.pbtxt", MODULE.replace("id: 7", "id: =")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hlo_module { name: "m" }', "not an HLO module proto"),
        ("hlo_module {", "unexpected end of input"),
        ("computations { instructions { opcode: '", "unexpected end of input"),
        ("opcode: 'add' }", "unmatched '}'"),
        ("instructions < > computations", "expected"),
    ],
)
def test_texts_without_a_module(text: str, message: str) -> None:
    with pytest.raises(HloError) as error:
        read_proto_text(Source("m.pbtxt", text))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\n\nENTRY e { ROOT p = f32[] parameter(0) }",
        "ENTRY e {\n  computations = f32[] parameter(0)\n}",
        "computations {\n  instructions = f32[] parameter(0)\n}",
        "computations (p: f32[]) -> f32[] {\n  ROOT p = f32[] parameter(0)\n}",
        '# opcode: "add"\nname = f32[] parameter(0)',
        '{"opcode": 5}',
        "name: deploy\nsteps:\n  - run: test",
        'module @m {\n  "stablehlo.add"() : () -> ()\n}',
        "opcode { }",
        "",
    ],
)
def test_other_texts(text: str) -> None:
    assert not looks_like_proto_text(text)


@pytest.mark.parametrize(
    "text",
    [
        'name: "m"\ncomputations {\n  name: "e"',
        '{"hloModule": {"name": "m"}}',
        '{\n  "name": "m",\n  "computations": [\n    {}\n  ]\n}',
        "    minor_to_major: 0\n  }\n}\ninstructions {",
        "  }\n}\ninstructions {",
        "# c\n# d\nhlo_module <\n name: 'm' >",
        'instructions: { opcode: "add" }',
        'name: "add.3" opcode: "add"',
    ],
)
def test_recognized_texts(text: str) -> None:
    assert looks_like_proto_text(text)


HOSTILE = {
    "open": "a {",
    "known": "tuple_shapes { ",
    "lists": "x: [",
    "close": "} ",
    "quotes": "name: '\\'",
    "parts": "'a' ",
    "names": "a",
    "colons": "a:",
    "digits": "1",
    "blank": " ",
    "comments": "#\n",
    "minus": "a: - ",
    "brackets": "[a.b] ",
    "scalars": "id: 1 ",
    "layouts": 'layout { a { b: "c" ',
    "pairs": "a { b { c { } } } ",
    "surrogates": r"\ud83d",
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("head", ["instructions { shape { ", "name: '", '{ "opcode": "a", "hloModule": {'])
def test_hostile_texts_take_linear_time(part: str, head: str) -> None:
    def work(size: int) -> object:
        source = Source("", head + part * (size // len(part)))

        def do() -> None:
            looks_like_proto_text(source.text)
            encode_text(source)

        return do

    assert is_linear(work, 20_000, 80_000)  # type: ignore[arg-type]


def test_deep_nesting_is_an_error() -> None:
    deep = MODULE.replace("dimensions: 4", "tuple_shapes { " * 300 + "} " * 300)
    [error] = errors_of(deep)
    assert "messages are nested too deeply (limit 200)" in error


def test_many_brackets_are_refused_soon() -> None:
    with soon(0.5):
        module = module_of(f"{P} {'} ' * 1_000_000}")
    assert len(module.errors) == 1


def test_large_texts_are_read_soon() -> None:
    data = max(PROTOS, key=lambda path: path.stat().st_size).read_bytes()
    text = Style().text(tree_of("HloProto", data))
    middle = text[text.index("computations {") - 2 : text.index("  host_program_shape {")]
    large = text.replace(middle, middle * (1_000_000 // len(middle) + 1))
    with soon(0.5 * len(large) / 1_000_000):
        encode_text(Source("", large))


def test_mutated_texts() -> None:
    """Whatever a text holds, it gives a module or an HloError."""
    chance = random.Random(2)
    texts = [MODULE, json.dumps(json_of(tree_of("HloModuleProto", proto_text_to_bytes(Source("", MODULE)))))]
    pieces = [*"{}<>[]:,;#\"'\\-\n 09x", "opcode", "null", "true", "instructions {", "id: ", "\x00", "é", "\\u12"]
    for number in range(600):
        text = texts[number % 2]
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(pieces) + text[at + chance.randrange(4) :]
        with suppress(HloError):
            str(read_proto_text(Source("m.pbtxt", text)))


def test_bytes_are_those_of_the_proto() -> None:
    """Field by field, in the order of the text."""
    text = 'name: "m" computations { name: "e" id: 3 } id: 5 is_dynamic: true'
    assert proto_text_to_bytes(Source("", text)).hex(" ") == "0a 01 6d 1a 05 0a 01 65 28 03 28 05 58 01"
    with pytest.raises(HloError):
        read_proto(proto_text_to_bytes(Source("", text)), Source("", ""))
