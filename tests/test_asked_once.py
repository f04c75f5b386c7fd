"""What is asked once and then known: it says the same as if it were asked each time, and is let go with its module."""

from __future__ import annotations

import gc
from random import Random
from weakref import ref

import pytest

from dumps import Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.analysis.dataflow.flat_schedule import places_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.analysis.shapes.inference import shape_difference
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.lint.rule import Strictness, shape_problems
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.attribute_values import GRAMMARS, read_value_text

DUMPS = compiled_dumps()


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_shapes_that_are_asked_of_once_are_judged_as_if_each_were(dump: Dump) -> None:
    module = parse_module(dump.text)
    random = Random(len(dump.text))
    for instruction in random.sample(module.entry.instructions, len(module.entry.instructions) // 2):
        instruction.shape = random.choice(module.entry.instructions).shape
    found = [problem.instruction for problem in shape_problems(module, Strictness(True, True, frozenset()))]
    assert found == [each for each in module.instructions if _is_wrong(each, module)]


def _is_wrong(instruction: Instruction, module: Module) -> bool:
    try:
        difference = shape_difference(instruction, module, layout_sensitive=True, allow_mixed_precision=True)
    except HloError:
        return True
    return difference is not None


def test_what_differs_in_attributes_is_asked_again() -> None:
    text = """HloModule m  ENTRY e { p = f32[8] parameter(0)
      a = f32[4] slice(p), slice={[0:4]}, metadata={op_name="f"}
      b = f32[4] slice(p), slice={[0:5]}
      ROOT c = f32[4] slice(p), slice={[1:5]} }"""
    found = shape_problems(parse_module(text), Strictness(False, False, frozenset()))
    assert [problem.instruction.name for problem in found] == ["b"]


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_attributes_say_the_same_with_and_without_their_places(dump: Dump) -> None:
    module = parse_module(dump.text)
    for instruction in module.instructions:
        attributes = instruction.attributes
        assert list(instruction.pairs) == [(each.name, each.value) for each in attributes]
        assert all(each.span and module.source.slice(each.span) == each.value for each in attributes)
        assert instruction.span is not None
        assert instruction.name in module.source.slice(instruction.span).partition(" = ")[0]


def test_what_is_remembered_goes_with_its_module() -> None:
    module = parse_module(DUMPS[0].text)
    for analysis in (async_pairs, contexts_of, places_of, target_of):
        assert analysis(module) is analysis(module)
    gone = ref(module)
    del module
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("text", ["[2,2]<=[4]", "[1,8]<=[8]", "[16,32]<=[512]"])
def test_plain_groups_are_read_as_their_grammar_reads_them(text: str) -> None:
    assert read_value_text(Kind.REPLICA_GROUPS, text) == GRAMMARS[Kind.REPLICA_GROUPS](Tokens(Source("", text)))
