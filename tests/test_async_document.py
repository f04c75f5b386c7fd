"""The examples of XLA's document on async operations: found, valid, and with operands that are live until the done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from async_document import EXAMPLES
from hlo_cli.analysis.dataflow.async_chains import async_chains
from hlo_cli.analysis.dataflow.positions import places_of
from hlo_cli.analysis.dataflow.value_sets import dataflow_of
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.async_pairs import async_pairs
from hlo_cli.analysis.schedule.async_verifier import verify_async
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex, subshape
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.sugar import sugar
from judge import ask_xla

Spell = Callable[[Module], Module]

each_example = pytest.mark.parametrize("name", EXAMPLES)
spellings = pytest.mark.parametrize("spell", [lambda module: module, desugar, sugar], ids=["as it is", "long", "short"])


CANONICAL = "module.to_string(type(options).canonical())"
_OUTPUT_AT: dict[str, ShapeIndex] = {"copy-start": (0,)}


class Values:
    """The value at each position of a module."""

    def __init__(self, module: Module) -> None:
        self.places = places_of(module)
        self.flow = dataflow_of(self.places, async_chains(self.places.instructions))

    def at(self, instruction: Instruction, index: ShapeIndex = ()) -> int:
        """The value at an index of what an instruction gives."""
        first, parts = self.places.first_of(instruction), self.places.parts(instruction)
        return self.flow.value[next(first + n for n in range(len(parts)) if self.places.index(first + n) == index)]


@each_example
def test_each_example_is_one_valid_operation(name: str) -> None:
    example = EXAMPLES[name]
    module = parse_module(example.text, strict=example.is_read_by_jaxlib)
    assert not module.errors
    [pair] = async_pairs(module).pairs
    assert (pair.operation, pair.form) == (example.operation, example.spelling)
    assert tuple(member.name for member in pair.members) == example.members
    assert [finding.message for finding in verify_async(module)] == []


@each_example
@spellings
def test_moved_bytes_and_bound_step(name: str, spell: Spell) -> None:
    example = EXAMPLES[name]
    found = analyze_overlap(spell(parse_module(example.text)))
    [interval] = found.intervals
    assert interval.moved_bytes == example.moved_bytes
    assert found.sequence[interval.bound_step].name == example.binding
    assert interval.done_step is not None
    assert found.sequence[interval.done_step].name == "d"


@each_example
@spellings
def test_operands_are_live_until_the_done(name: str, spell: Spell) -> None:
    module = spell(parse_module(EXAMPLES[name].text))
    memory = memory_analysis(module)
    done = memory.positions[module.instruction("d")]
    for operand in operands_of(module):
        [value] = memory.values_of(operand)
        assert value.start < value.end
        assert value.end >= done


def operands_of(module: Module) -> list[Instruction]:
    """The operands of the async operation."""
    members = [i for i in module.entry.instructions if i.name in ("s", "u", "v")]
    return [operand for member in members for operand in member.operands if operand.name in ("a", "b")]


@each_example
@spellings
def test_the_output_aliases_the_written_buffer(name: str, spell: Spell) -> None:
    module = spell(parse_module(EXAMPLES[name].text))
    values = Values(module)
    done = module.instruction("d")
    before = done.operands[0]
    output = subshape(before.shape, _OUTPUT_AT.get(before.opcode, (1,)))
    for index, _ in done.shape.leaves if str(output) != "()" else ():
        assert values.at(before, (*_OUTPUT_AT.get(before.opcode, (1,)), *index)) == values.at(done, index)


@each_example
def test_operands_in_the_start_alias_the_given_ones(name: str) -> None:
    """The first element of a start holds its operands themselves, not copies."""
    module = parse_module(EXAMPLES[name].text)
    values = Values(module)
    start = module.instruction("s")
    index = {"copy-start": ((1,),), "collective-permute-start": ((0,),)}.get(start.opcode)
    for number, operand in enumerate(start.operands):
        assert values.at(start, index[number] if index else (0, number)) == values.at(operand)


@each_example
def test_generic_and_sugared_forms_convert_to_each_other(name: str) -> None:
    module = parse_module(EXAMPLES[name].text)
    long = desugar(module)
    assert not any(i.opcode.startswith(("call-", "custom-call-")) for i in long.instructions)
    assert [finding.message for finding in verify_async(long)] == []
    assert str(sugar(desugar(sugar(long)))) == str(sugar(long))
    if EXAMPLES[name].spelling == "native":
        assert long is module
        assert sugar(module) is module


@pytest.mark.oracle
def test_xla_reads_the_examples_and_their_other_forms_as_the_same_module() -> None:
    """The document is newer than jaxlib, which does not support late binding."""
    known = [example for example in EXAMPLES.values() if example.is_read_by_jaxlib]
    modules = [parse_module(example.text) for example in known]
    asked = ask_xla([example.text for example in known], CANONICAL)
    assert all(asked)
    assert ask_xla([str(desugar(module)) for module in modules], CANONICAL) == asked
    assert ask_xla([str(sugar(module)) for module in modules], CANONICAL) == asked
    late = [example.text for example in EXAMPLES.values() if not example.is_read_by_jaxlib]
    assert not all(ask_xla(late))
