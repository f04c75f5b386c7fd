"""Values of attributes: what is read prints as it was written, means what XLA says it means, and is never a surprise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from attribute_values import MAKERS, a_mesh, a_single_sharding, a_transform, some_axes
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.attributes.sharding import (
    MAX_DEVICES,
    AxisRef,
    IotaReplicaGroupList,
    IotaTransform,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    Sharding,
)
from hlo_cli.ir.attributes.value_types import (
    dot_dimension_numbers,
    gather_dimension_numbers,
    ragged_dot_dimension_numbers,
    scatter_dimension_numbers,
    value_text,
)
from hlo_cli.ir.instruction import Instruction, custom_call
from hlo_cli.ir.notation import UnparsedText, quoted
from hlo_cli.source import HloError
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning.attributes import split_attributes
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.syntax.values.attribute_values import read_value_text
from share import examples
from strategies import dump_text, dumps, name_of, seeds
from test_strict import ACCEPTED, with_line

KINDS = sorted(MAKERS, key=lambda kind: kind.name)


def instructions() -> Iterator[Instruction]:
    """Every instruction of every dump in fixtures/."""
    for path in dumps():
        yield from parse_module(dump_text(path)).instructions


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_values_in_dumps_print_as_they_are_written(path: Path) -> None:
    module = parse_module(dump_text(path))
    written = {
        (instruction.opcode, attribute.name, attribute.value): instruction
        for instruction in module.instructions
        for attribute in instruction.attributes
    }
    for (opcode, name, text), instruction in written.items():
        value = instruction.computation.reader.value(opcode, name, text)
        assert not isinstance(value, UnparsedText), (opcode, name, text)
        assert value_text(value) == text
        assert hash(value) == hash(instruction.computation.reader.value(opcode, name, text))
    for attribute in module.header:
        read = module.header_value(attribute.name)
        assert read is not None
        assert not isinstance(read, UnparsedText)
        assert value_text(read) == attribute.value


def test_every_kind_has_a_maker() -> None:
    assert set(Kind) == set(MAKERS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(seed=seeds)
@settings(max_examples=examples(60))
def test_what_is_printed_is_read_as_the_same_value(kind: Kind, seed: int) -> None:
    value = MAKERS[kind](Random(seed))
    assert read_value_text(kind, value_text(value)) == value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(seed=seeds)
@settings(max_examples=examples(30))
def test_damaged_values_are_read_or_kept(kind: Kind, seed: int) -> None:
    random = Random(seed)
    text = value_text(MAKERS[kind](random))
    at = random.randrange(len(text) + 1)
    damaged = text[:at] + random.choice(("{", "}", "(", '"', ",", "x", "9" * 30, "[", "=", "\0")) + text[at + 1 :]
    value = read_value_text(kind, damaged)
    if isinstance(value, UnparsedText):
        assert value == damaged
    else:
        again = read_value_text(kind, value_text(value))
        assert value_text(again) == value_text(value)
        assert again == value or kind is Kind.LITERAL, "literals are compared by their texts"


def test_deep_and_long_values_are_read_or_kept_in_time() -> None:
    for kind, text in (
        (Kind.ORIGIN, "{" + "(" * 50000 + ")" * 50000 + "}"),
        (Kind.SHARDING, "{" * 50000 + "}" * 50000),
        (Kind.SHARDING, "{devices=[100000]" + ",".join(map(str, range(100000))) + "}"),
        (Kind.SHARDING, "{" + ", ".join(["{replicated}"] * 2000) + "}"),
        (Kind.REPLICA_GROUPS, "{" + "{0}," * 20000 + "{0}}"),
        (Kind.INTS, "{" + "1," * 50000 + "}"),
    ):
        value = read_value_text(kind, text)
        assert isinstance(value, UnparsedText) or _comparable(value_text(value)) == text


@pytest.mark.parametrize(
    "line",
    [
        "r = f32[2] copy(a), sharding={best}",
        "r = f32[2] reverse(a), dimensions={x}",
        "r = f32[2] slice(a), slice={[0]}",
        "r = f32[2] copy(a), origin={name}",
        "r = f32[2] exponential(a), result_accuracy={mode=low}",
    ],
)
def test_what_is_not_understood_is_kept_and_noted(line: str) -> None:
    module = parse_module(with_line(line))
    root = next(i for i in module.entry.instructions if i.name == "r")
    attribute = root.attributes[0]
    assert root.value(attribute.name) == UnparsedText(attribute.value)
    notes = [note for note in module.notes if note.code == "unread-value"]
    assert [note.span for note in notes] == [attribute.span]
    assert attribute.name in notes[0].message


def test_values_by_their_types() -> None:
    text = """custom-call(f32[4]{0} a), custom_call_target="f\\303\\251", api_version=API_VERSION_TYPED_FFI,
      operand_layout_constraints={f32[4]{0}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})},
      backend_config={"n":{"m":["3"]}}, frontend_attributes={k="v"}"""
    root = parse_module(f"r = f32[4]{{0}} {text}").entry.root
    assert root is not None
    assert root.string("custom_call_target") == "fé"
    assert root.flag("custom_call_has_side_effect")
    assert root.integer("custom_call_target") is None
    assert root.backend_config is not None
    assert root.backend_config.get("n", "m") == ("3",)
    assert root.frontend_attributes.get("k") == "v"
    call = custom_call(root)
    assert call is not None
    assert (call.target, call.api_version.name, call.has_side_effect) == ("fé", "TYPED_FFI", True)
    assert list(map(str, call.operand_layout_constraints or ())) == ["f32[4]{0}"]
    assert list(map(str, call.output_to_operand_aliasing)) == ["{}: (0, {})"]


def test_configurations_that_are_no_json_are_text() -> None:
    assert [BackendConfig(text).json for text in ("{k = 1 : i32}", "abc", "[" * 100000)] == [None] * 3


def test_dimension_numbers_print_as_the_attributes_they_come_from() -> None:
    collected = {
        "dot": dot_dimension_numbers,
        "gather": gather_dimension_numbers,
        "ragged-dot": ragged_dot_dimension_numbers,
        "scatter": scatter_dimension_numbers,
    }
    found = set()
    for instruction in instructions():
        collect = collected.get(instruction.opcode)
        if collect is None:
            continue
        found.add(instruction.opcode)
        pairs = split_attributes(", " + str(collect(instruction)))
        assert pairs
        written = [(a.name, a.value) for a in instruction.attributes if a.name in dict(pairs)]
        assert pairs == written
    assert {"dot", "gather", "scatter"} <= found


@given(seed=seeds)
def test_groups_of_a_mesh_hold_each_device_once(seed: int) -> None:
    random = Random(seed)
    mesh = a_mesh(random)
    axes = some_axes(random, mesh)
    groups = mesh.groups(axes)
    assert sorted(device for group in groups for device in group) == list(range(mesh.device_count))
    assert {len(group) for group in groups} == {prod(mesh.size_of(axis) for axis in axes)}


def test_devices_that_no_machine_has_are_not_written_out() -> None:
    for ask in (
        lambda: IotaTransform((2**40,)).devices(),
        lambda: Mesh((MeshAxis("x", MAX_DEVICES + 1),)).devices(),
        lambda: IotaReplicaGroupList(2, 4, IotaTransform((4, 2), (1, 1))).groups(8),
        lambda: IotaReplicaGroupList(2, 3, IotaTransform((8,))).groups(8),
        lambda: Mesh((MeshAxis("x", 4),)).groups([AxisRef("x"), AxisRef("x", 2, 2)]),
    ):
        with pytest.raises(HloError):
            ask()


@given(seed=seeds)
def test_quoted_text_is_read_back(seed: int) -> None:
    random = Random(seed)
    text = "".join(chr(random.choice((10, 34, 39, 92, 127, 233, 0x2603, 0x1F600, *range(32, 127)))) for _ in range(9))
    assert read_value_text(Kind.STRING, quoted(text)) == text


HEADER = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}, must-alias) }, buffer_donor={ (0, {}) },
  alias_passthrough_params=true, entry_computation_layout={(f32[2]{0}, f32[2]{0})->(f32[2]{0})},
  allow_spmd_sharding_propagation_to_parameters={true,false}, allow_spmd_sharding_propagation_to_output=true,
  replica_count=2, num_partitions=4, frontend_attributes={a="b"}, origin_recovery_table={ {"a"} : {"b" {1}} },
  debug_attributes={ {"c" {0}}:({log_mode=default,op_id=3}) }
ENTRY e { a = f32[2] parameter(0)  b = f32[2] parameter(1)  ROOT r = (f32[2]) tuple(a) }
"""


def test_what_a_header_says() -> None:
    module = parse_module(HEADER)
    assert module.is_scheduled
    assert module.alias_passthrough_params
    assert (module.replica_count, module.num_partitions) == (2, 4)
    assert list(map(str, module.input_output_alias)) == ["{0}: (1, {}, must-alias)"]
    assert list(map(str, module.buffer_donor)) == ["(0, {})"]
    assert module.entry_computation_layout is not None
    assert list(map(str, module.entry_computation_layout.parameters)) == ["f32[2]{0}", "f32[2]{0}"]
    assert module.allow_spmd_sharding_propagation_to_parameters == (True, False)
    assert module.allow_spmd_sharding_propagation_to_output == (True,)
    assert module.frontend_attributes.get("a") == "b"
    assert module.origin_recovery_table is not None
    assert str(module.origin_recovery_table) == '{ {"a"} : {"b" {1}} }'
    assert list(map(str, module.debug_attributes)) == ['{"c" {0}}:({log_mode=default,op_id=3})']
    assert module.notes == ()


def test_what_a_header_leaves_out() -> None:
    module = parse_module("HloModule m, replica_count=x  ENTRY e { ROOT a = f32[2] parameter(0) }")
    assert (module.replica_count, module.num_partitions, module.buffer_donor) == (1, 1, ())
    assert module.entry_computation_layout is None
    assert module.allow_spmd_sharding_propagation_to_output == (False,)
    assert [note.code for note in module.notes] == ["unread-value"]


# What XLA says


def _comparable(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text)


@pytest.mark.oracle
@pytest.mark.parametrize("line", [line for line in ACCEPTED if not line.startswith("ROOT")])
def test_values_print_as_xla_prints_them(line: str) -> None:
    """XLA normalises what it reads; what it then prints is read and printed without a change."""
    hlo = pytest.importorskip("jaxlib._hlo")
    printed = parse_module(hlo.hlo_module_from_text(with_line(line)).to_string())
    for instruction in printed.instructions:
        for attribute in instruction.attributes:
            value = instruction.value(attribute.name)
            assert value is not None
            assert not isinstance(value, UnparsedText)
            assert _comparable(value_text(value)) == _comparable(attribute.value)


@pytest.mark.oracle
@given(seed=seeds)
def test_tiles_lie_where_xla_says(seed: int) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    sharding = a_single_sharding(Random(seed))
    if sharding.tiles is None or sharding.last_tile_dims:
        return
    plain = Sharding(sharding.type, sharding.tiles)
    theirs = hlo.HloSharding.from_string(str(plain))
    if theirs.is_replicated():
        assert sharding.tiles.device_count == 1
        return
    assert theirs.tile_assignment_devices() == list(sharding.tiles.device_ids())
    assert theirs.tile_assignment_dimensions() == list(sharding.tiles.dimensions)


@pytest.mark.oracle
@given(seed=seeds)
def test_groups_of_a_mesh_are_those_of_xla(seed: int) -> None:
    """A named sharding that cuts one dimension along the other axes and one along these has the groups as its tiles."""
    hlo = pytest.importorskip("jaxlib._hlo")
    random = Random(seed)
    mesh = a_mesh(random)
    axes = [axis for axis in some_axes(random, mesh) if axis.size is None]
    others = [AxisRef(axis.name) for axis in mesh.axes if axis.name not in [taken.name for taken in axes]]
    if not axes or mesh.device_count == 1:
        return
    dimensions = ", ".join("{" + ", ".join(map(str, part)) + "}" for part in (others, axes))
    theirs = hlo.HloSharding.v3_to_v2_sharding(hlo.HloSharding.from_string(f"{{{mesh}, [{dimensions}]}}"))
    groups = MeshAxesReplicaGroupList(mesh, tuple(axes)).groups(mesh.device_count)
    assert theirs.tile_assignment_devices() == [device for group in groups for device in group]


@pytest.mark.oracle
def test_groups_of_an_iota_are_those_of_xla() -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    for seed in range(20):
        random = Random(seed)
        groups = IotaReplicaGroupList(4, 6, a_transform(random, 24))
        sharding = hlo.HloSharding.from_string(f"{{devices={groups}}}")
        listed = sharding.tile_assignment_devices()
        assert groups.groups(24) == tuple(tuple(listed[a:b]) for a, b in pairwise(range(0, 25, 6)))
