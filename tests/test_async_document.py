"""The examples of XLA's document on async operations: found, valid, and with operands that are live until the done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from async_document import EXAMPLES
from hlo_cli.analysis.dataflow.flat_schedule import async_chains, places_of
from hlo_cli.analysis.dataflow.value_sets import dataflow_of
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap, async_pairs
from hlo_cli.analysis.schedule.async_verifier import verify_async
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex, subshape
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.sugar import desugar, sugar
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


FLAT = {
    "generic": """HloModule m, is_scheduled=true
op { p = f32[64] parameter(0)  ROOT r = f32[32] custom-call(p), custom_call_target="foo" }
ENTRY main {
  x = f32[64] parameter(0)
  s = (f32[64], f32[32], s32[]) async-start(x), calls=op
  u = (f32[64], f32[32], s32[]) async-update(s), calls=op
  ROOT d = f32[32] async-done(u), calls=op
}""",
    "sugared": """HloModule m, is_scheduled=true
ENTRY main {
  x = f32[64] parameter(0)
  s = (f32[64], f32[32], s32[]) custom-call-start(x), custom_call_target="foo"
  u = (f32[64], f32[32], s32[]) custom-call-update(s), custom_call_target="foo"
  ROOT d = f32[32] custom-call-done(u), custom_call_target="foo"
}""",
}
"""The spelling of the page itself: operands without a tuple of their own, and attributes repeated on every member."""


@pytest.mark.parametrize("form", FLAT)
def test_the_spelling_of_the_page_is_read_with_a_note(form: str) -> None:
    module = parse_module(FLAT[form])
    nested = "((f32[64]{0}), f32[32]{0}, s32[])"
    assert [str(each.shape) for each in module.entry.instructions[1:3]] == [nested, nested]
    assert sum(nested in note.message for note in module.notes) == 2
    assert not module.errors
    assert not tuple(verify_async(module))
    long = desugar(module)
    start, update, done = long.entry.instructions[1:]
    assert [start.opcode, update.opcode, done.opcode] == ["async-start", "async-update", "async-done"]
    assert all("custom_call_target" not in each.raw[1] for each in (start, update, done))
    root = start.called_computations[0].root
    assert root is not None
    assert root.opcode == "custom-call"
    short = sugar(long).entry.instructions[1:]
    assert [each.opcode for each in short] == ["custom-call-start", "custom-call-update", "custom-call-done"]
    assert str(parse_module(str(long))) == str(long)


def test_several_operands_without_a_tuple_of_their_own() -> None:
    text = FLAT["sugared"].replace("(x)", "(x, y)").replace("(f32[64], f32[32]", "(f32[64], f32[8], f32[32]")
    module = parse_module(text.replace("  s =", "  y = f32[8] parameter(1)\n  s ="))
    assert str(module.entry.instructions[2].shape) == "((f32[64]{0}, f32[8]{0}), f32[32]{0}, s32[])"
    other = parse_module(text.replace("  s =", "  y = f32[9] parameter(1)\n  s ="))
    assert str(other.entry.instructions[2].shape) == "(f32[64]{0}, f32[8]{0}, f32[32]{0}, s32[])"


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
