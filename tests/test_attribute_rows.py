"""The table of attributes: one row is all that an attribute needs to be read, checked, explained and kept in protos."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hlo_cli.commands.parse.explain import explain_text
from hlo_cli.ir import operation_table, operations
from hlo_cli.ir.attributes.value_types import gather_dimension_numbers
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CALLING_ATTRIBUTES, NAMING_ATTRIBUTES, OPCODE_ARITY, taking
from hlo_cli.report.figure import Anatomy
from hlo_cli.source import HloError
from hlo_cli.syntax import attribute_table, stablehlo
from hlo_cli.syntax.attribute_table import AttributeRow, Kind, Place
from hlo_cli.syntax.proto import read_attributes as printed
from hlo_cli.syntax.proto.messages import fields_of
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.syntax.text import check
from hlo_cli.syntax.text.parser import parse_module
from parsed import files, nodes_of, text_of
from protos import read

LINE = "r = f32[2] negate(f32[2] a), made_up={1,2}"
MADE_UP = AttributeRow(
    "made_up", Kind.INTS, "what somebody made up", "negate", label="fiction", proto_field="fft_length"
)
COMMON = attribute_table.attributes_of("parameter").keys()
CACHES = (
    attribute_table.attributes_of,
    attribute_table.attributes_at,
    attribute_table.attribute_named,
    attribute_table.own_attributes,
    attribute_table._common,
    printed._printed,
    printed._printed_at,
    check._odd_names,
)


def forget() -> None:
    """Ask the table anew."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[AttributeRow]:
    """The table with one more row."""
    monkeypatch.setattr(attribute_table, "ROWS", (*attribute_table.ROWS, MADE_UP))
    forget()
    yield MADE_UP
    monkeypatch.undo()
    forget()


def explained(text: str) -> list[tuple[str, str, str]]:
    """Label, value and meaning of what is explained of an instruction."""
    anatomy = next(part for part in explain_text(text).parts if isinstance(part, Anatomy))
    return [(row.label, row.value, str(row.meaning)) for row in anatomy.explanations]


def strict_errors(text: str) -> list[str]:
    """What strict reading says of a text."""
    try:
        module: Module = parse_module(text, strict=True)
    except HloError as error:
        return [each.message for each in error.diagnostics]
    return [each.message for each in module.errors]


@pytest.mark.usefixtures("made_up")
def test_one_row_is_all_that_an_attribute_needs() -> None:
    module = parse_module(LINE)
    root = module.entry.root
    assert root is not None
    assert root.value("made_up") == (1, 2)
    assert not module.notes
    assert ", made_up={1,2}" in str(module)
    assert not strict_errors(LINE)
    assert strict_errors(LINE.replace("{1,2}", "x")) == ["expected '{' before a list, found 'x'"]
    assert ("fiction", "{1,2}", "what somebody made up") in explained(LINE)
    again = read(module_to_bytes(module)).entry.root
    assert again is not None
    assert again.value("made_up") == (1, 2)


def test_without_the_row_it_is_kept_as_text() -> None:
    module = parse_module(LINE)
    assert [note.message for note in module.notes] == ["unknown attribute made_up on negate; kept as text"]
    assert ", made_up={1,2}" in str(module)
    assert strict_errors(LINE) == ["negate has no attribute 'made_up'"]
    with pytest.raises(HloError, match="cannot represent made_up"):
        module_to_bytes(module)


@pytest.mark.code
def test_what_nothing_computes_with_is_named_by_its_row_alone() -> None:
    homes = {Path(attribute_table.__file__).parent, Path(operation_table.__file__).parent}  # and the rows of who has it
    homes.add(Path(stablehlo.__file__).parent)  # whose operations have attributes of the same names
    others = [path for path in files() if path.parent not in homes]
    naming = Counter(name for path in others for name in _NAMED_ONCE & _texts_of(path))
    evaluated = (
        "delta",
        "epsilon",
        "is_reverse",
        "left_side",
        "sparsity_config",
        "unit_diagonal",
    )  # their meaning is in analysis/semantics
    reduced = ("indices_are_sorted", "is_stable", "unique_indices")  # transform/reduction leaves these promises out
    expected = Counter(evaluated) + Counter(("is_composite", "left_side", "sparsity_config")) + Counter(reduced)
    assert naming == expected, "one rule each looks at these"


_NAMED_ONCE = frozenset(
    """async_group_id all_gather_dimension split_dimension is_stable is_reverse indices_are_sorted unique_indices delta
    epsilon unit_diagonal left_side is_composite sparsity_config conv_kind""".split()
)


def _texts_of(path: Path) -> set[str]:
    """The strings of a file that has one of the names."""
    if not any(name in text_of(path) for name in _NAMED_ONCE):
        return set()
    return {node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_rows_name_opcodes_that_there_are() -> None:
    for row in attribute_table.ROWS:
        assert set(row.opcodes.split()) <= taking(row.name) | {"parameter"}, row.name
        assert row.opcodes or row.name in COMMON or taking(row.name), row.name
    for opcode in OPCODE_ARITY:
        names = [row.name for row in attribute_table.own_attributes(opcode)]
        assert len(names) == len(set(names)), opcode


def test_rows_and_the_ir_agree_on_what_calls_computations() -> None:
    assert {row.name for row in attribute_table.ROWS if row.calls} == set(CALLING_ATTRIBUTES)


def test_rows_and_the_ir_agree_on_what_names_things() -> None:
    naming = {row.name for row in attribute_table.ROWS if row.calls or row.kind is Kind.INSTRUCTIONS}
    assert naming == NAMING_ATTRIBUTES
    assert operations._TRAITS.keys() <= set(attribute_table.ATTRIBUTE_NAMES)
    assert operations._TRAITS_OF_HEADERS.keys() <= attribute_table.HEADER_ATTRIBUTES.keys()


def test_what_annotates_may_stand_on_any_opcode() -> None:
    assert set(operations.attributes_with("annotates")) <= COMMON


def test_whatever_xla_prints_has_a_field() -> None:
    """What a proto holds in more than one field is named for one, or for none."""
    for row in attribute_table.ROWS:
        if row.place is Place.ASIDE or row.is_old or row.is_forgotten or row.kind is Kind.DOMAIN:
            continue
        message = "HloInstructionProto"
        for field in row.path:
            assert field in fields_of(message), (row.name, row.path)
            message = fields_of(message)[field].type


def test_batch_dimensions_are_printed_each_where_it_is() -> None:
    """XLA's printer asks for each by itself, and its parser takes one without the other."""
    said = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, start_indices_batching_dims={0}"
    said += ", index_vector_dim=1, slice_sizes={1,3}"
    root = parse_module(f"r = f32[4,3] gather(f32[9,3] a, s32[4,1] i), {said}").entry.root
    assert root is not None
    assert said.startswith(str(gather_dimension_numbers(root)))
    again = read(module_to_bytes(parse_module(f"r = f32[4,3] gather(f32[9,3] a, s32[4,1] i), {said}"))).entry.root
    assert again is not None
    assert again.raw[1] == f", {said}"


def test_what_is_not_understood_is_in_no_proto() -> None:
    for line in (
        "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={x}, rhs_contracting_dims={0}",
        "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), sparsity={lhs={sparsity=2x4}}, rhs_contracting_dims={0}",
        "r = f32[3,3] triangular-solve(f32[3,3] a, f32[3,3] b), lower=perhaps",
    ):
        with pytest.raises(HloError, match="cannot represent"):
            module_to_bytes(parse_module(line))
