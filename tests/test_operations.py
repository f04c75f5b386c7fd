"""What is known of opcodes has one home: the table of operations."""

from __future__ import annotations

from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import (
    CALLERS,
    CALLING_ATTRIBUTES,
    COLLECTIVES,
    NATIVE_DONES,
    OPERAND_COUNTS,
    OPERATIONS,
    having,
    taking,
    wrapped_opcode,
)


def test_each_opcode_has_one_row() -> None:
    for opcode, operation in OPERATIONS.items():
        assert operation.opcode == opcode
        assert len(set(operation.traits)) == len(operation.traits)
        assert len(set(operation.attributes)) == len(operation.attributes)


def test_names_are_those_of_rows() -> None:
    named = {name: value for name, value in vars(opcodes).items() if name.isupper() and name != "OPAQUE"}
    assert set(named.values()) <= set(OPERATIONS)
    assert {name: value.upper().replace("-", "_") for name, value in named.items()} == {name: name for name in named}


def test_starts_and_dones_go_together() -> None:
    starts = having("start") - having("asynchronous")
    assert set(NATIVE_DONES) == starts
    assert set(NATIVE_DONES.values()) == having("done") - having("asynchronous")
    for start, done in NATIVE_DONES.items():
        assert done == f"{start.removesuffix('-start')}-done"
        assert OPERAND_COUNTS[done] == (1, 1)


def test_collectives_have_no_suffix_and_run_in_the_background() -> None:
    for opcode in COLLECTIVES:
        start = f"{opcode}-start"
        assert start in OPERATIONS or wrapped_opcode(start) == opcode


def test_callers_are_those_with_a_computation() -> None:
    assert taking(*CALLING_ATTRIBUTES) == CALLERS
    assert having("control flow") <= CALLERS


def test_attributes_are_those_of_the_grammar() -> None:
    from hlo_cli.syntax.attribute_table import attributes_of

    common = set(attributes_of("negate"))
    for opcode, operation in OPERATIONS.items():
        rules = attributes_of(opcode)
        assert {name for name in rules if name not in common} == set(operation.attributes)
        assert {name for name, rule in rules.items() if rule.required} == set(operation.required)
