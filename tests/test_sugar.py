"""Sugar is expanded and introduced again: XLA reads the same module, and only names are lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from hlo_cli.analysis.dataflow.dependencies import values_of
from hlo_cli.analysis.dataflow.executions import computation_kinds
from hlo_cli.cli import main
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.library import load
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.sugar import desugar, sugar
from judge import ask_xla
from strategies import Model, dump_text, dumps, models, name_of

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)

HEAD = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%halve (x: f32[8]) -> f32[8] {
  ROOT %x = f32[8]{0} parameter(0)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
"""
SUGARED = (
    'negate-start(%a)',
    'negate-start(%a), async_execution_thread="t"',
    'negate-start(%a), output_to_operand_aliasing={{1}: (0, {})}',
    'negate-start(%a), sharding={replicated}, control-predecessors={%a}',
    'negate-start(%a), frontend_attributes={x="y"}, metadata={op_name="n"}, backend_config={"k":1}',
    'tanh-start(%a), result_accuracy={mode=highest}, statistics={visualizing_index=0,x=1}',
    'all-to-all-start(%a), channel_id=1, replica_groups={{0,1}}, dimensions={0}',
    'call-start(%a), to_apply=%halve, metadata={op_name="n"}',
    'custom-call-start(%a), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}',
    'custom-call-start(%a), async_execution_thread="t", custom_call_target="t", called_computations={%halve}',
    'fusion-start(%a), kind=kLoop, calls=%halve',
    'add-start(%a, %a)',
)  # fmt: skip
"""The lines of starts in modules that XLA reads."""
CHAINS = (
    ("", ""),
    (', metadata={op_name="u"}', ""),
    (', frontend_attributes={u="v"}', ', metadata={op_name="d"}, backend_config="e"'),
)
"""What the update and the end say."""
NOT_SUGARED = {
    "operands turned round": ("x = f32[8]{0} parameter(0)  y = f32[8]{0} parameter(1)  ROOT r = f32[8]{0} subtract(y, x)", "a, a"),
    "an operation of its own": ("x = f32[8]{0} parameter(0)  ROOT r = f32[8]{0} copy(x)", "a"),
    "two operations": ("x = f32[8]{0} parameter(0)  y = f32[8]{0} negate(x)  ROOT r = f32[8]{0} negate(y)", "a"),
    "a parameter": ("ROOT x = f32[8]{0} parameter(0)", "a"),
    "a sharding inside": ("x = f32[8]{0} parameter(0)  ROOT r = f32[8]{0} negate(x), sharding={replicated}", "a"),
    "attributes that would be lost": ('x = f32[8]{0} parameter(0)  ROOT r = f32[8]{0} negate(x), frontend_attributes={a="b"}', "a"),
    "another layout inside": ("x = f32[8]{0:T(8)} parameter(0)  ROOT r = f32[8]{0} negate(x)", "a"),
}  # fmt: skip
"""Computations that are asynchronous as a whole, or would be read as another module."""


def chained(start: str, update: str, end: str) -> str:
    """A module with one async operation."""
    opcode = start[: start.index("-start(")]
    count = start.partition("(")[2].partition(")")[0].count(",") + 1
    shape = f"(({', '.join(['f32[8]{0}'] * count)}), f32[8]{{0}}, u32[])"
    lines = (f"%s = {shape} {start}", f"%v = {shape} {opcode}-update(%s){update}")
    return HEAD + "".join(f"  {line}\n" for line in lines) + f"  ROOT %d = f32[8]{{0}} {opcode}-done(%v){end}\n}}\n\n"


CHAINED = tuple(chained(start, *chain) for start in SUGARED for chain in CHAINS)

Taken = tuple[str, ShapeIndex]


def resolved(module: Module) -> dict[tuple[str, str], tuple[str, list[Taken]]]:
    """Every instruction that computes a value, with its operands resolved through forwarding instructions."""
    return {
        (computation.name, i.name): (wrapped_opcode(i.opcode) or i.opcode, _taken(i))
        for computation in module.computations
        for i in computation.instructions
        if i.opcode != "get-tuple-element" or i.is_root
    }


def _taken(instruction: Instruction) -> list[Taken]:
    taken = []
    for position, operand in enumerate(instruction.operands):
        index = instruction.operand_index(position)
        while operand.opcode == "get-tuple-element" and operand.operands:
            index = (*operand.operand_index(0), int(operand.attribute("index") or 0), *index)
            operand = operand.operands[0]
        taken.append((operand.name, index))
    return taken


@given(models())
def test_elements_are_the_same_with_sugar_and_without(model: Model) -> None:
    module = parse_module(model.canonical())
    plain, sweet = desugar(module), sugar(module)
    assert not any(computation.operand_indices for computation in plain.computations)
    assert resolved(plain) == resolved(module) == resolved(sweet)
    for made in (plain, sweet):
        again = parse_module(str(made))
        assert str(again) == str(made)
        assert again.errors == ()
    assert desugar(plain) is plain
    assert sugar(sweet) is sweet
    assert resolved(desugar(sweet)) == resolved(module)


@each_dump
def test_a_dump_has_the_same_instructions_with_sugar_and_without(path: Path) -> None:
    module = parse_module(dump_text(path))
    sweet = sugar(module)
    again = desugar(sweet)
    assert sugar(sweet) is sweet
    assert str(sugar(again)) == str(sweet)
    assert parse_module(str(sweet)).errors == ()
    kept = {c.name: c for c in sweet.computations}
    before = {key: value for key, value in resolved(module).items() if key[0] in kept}
    assert {key: taken for key, (_, taken) in resolved(sweet).items()} == {
        key: taken for key, (_, taken) in before.items()
    }
    for computation in module.computations:
        if (copy := kept.get(computation.name)) is not None:
            left = {i.name: i for i in copy.instructions}
            for instruction in computation.instructions:
                if (same := left.get(instruction.name)) is not None and instruction.opcode == same.opcode:
                    assert same.attributes == instruction.attributes
                    assert same.metadata == instruction.metadata
                    assert same.span == instruction.span


@pytest.mark.parametrize("text", CHAINED)
def test_expanded_forms_can_be_shortened_again(text: str) -> None:
    module = parse_module(text, strict=True)
    plain = desugar(module)
    assert [i.opcode for i in plain.entry.instructions[1:]] == ["async-start", "async-update", "async-done"]
    assert parse_module(str(plain), strict=True).errors == ()
    assert str(sugar(plain)) == text
    assert desugar(plain) is plain


@pytest.mark.parametrize("text", CHAINED)
def test_values_are_the_same_with_sugar_and_without(text: str) -> None:
    module = parse_module(text)
    assert sorted(str(v.shape) for v in values_of(module)) == sorted(str(v.shape) for v in values_of(desugar(module)))


def test_the_computation_of_an_async_call_is_async() -> None:
    kinds = {
        c.name: kind
        for c, kind in computation_kinds(parse_module(chained("call-start(%a), to_apply=%halve", "", ""))).items()
    }
    assert kinds == {"halve": "asynchronous", "main": "entry"}


@pytest.mark.parametrize("case", NOT_SUGARED)
def test_ambiguous_short_forms_are_not_used(case: str) -> None:
    body, operands = NOT_SUGARED[case]
    shapes = ", ".join("f32[8]{0}" for _ in operands.split(","))
    text = f"HloModule m  w {{ {body} }}  ENTRY e {{ a = f32[8]{{0}} parameter(0)  s = (({shapes}), f32[8]{{0}}) "
    module = parse_module(
        text + f"async-start({operands}), calls=w  ROOT d = f32[8]{{0}} async-done(s) }}", strict=True
    )
    assert sugar(module) is module


def test_a_computation_with_another_caller_stays() -> None:
    text = "HloModule m  w { x = f32[8]{0} parameter(0)  ROOT r = f32[8]{0} negate(x) }  ENTRY e { a = f32[8]{0} parameter(0)"
    text += "  s = ((f32[8]{0}), f32[8]{0}) async-start(a), calls=w  d = f32[8]{0} async-done(s)"
    module = sugar(parse_module(text + "  ROOT c = f32[8]{0} call(d), to_apply=w }"))
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "negate-start", "negate-done", "call"]
    assert module.entry.root is not None
    assert module.entry.root.called_computations == (module.computation("w"),)


@pytest.mark.parametrize("other", ["o = (f32[8]{0}) tuple(d)", "o = (((f32[8]{0}), f32[8]{0})) tuple(s)"])
def test_a_chain_of_which_others_take_the_start_stays_expanded(other: str) -> None:
    text = "HloModule m  w { x = f32[8]{0} parameter(0)  ROOT r = f32[8]{0} negate(x) }  ENTRY e { a = f32[8]{0} parameter(0)"
    text += (
        f"  s = ((f32[8]{{0}}), f32[8]{{0}}) async-start(a), calls=w  d = f32[8]{{0}} async-done(s)  ROOT {other} }}"
    )
    module = parse_module(text)
    assert (sugar(module) is module) == ("tuple(s)" in other)


def test_operands_bound_later_come_from_the_called_computation() -> None:
    text = "HloModule m  f { x = f32[8]{0} parameter(0)  y = s8[2]{0} parameter(1)  ROOT r = f32[8]{0} negate(x) }  "
    text += (
        "ENTRY e { a = f32[8]{0} parameter(0)  b = s8[2]{0} parameter(1)  s = ((), (), u32[]) call-start(), to_apply=f"
    )
    text += "  v = ((f32[8]{0}, s8[2]{0}), f32[8]{0}, u32[]) call-update(s, a, b)  ROOT d = f32[8]{0} call-done(v) }"
    plain = desugar(parse_module(text))
    wrapped = plain.computation("async_wrapped")
    assert [str(parameter.shape) for parameter in wrapped.parameters] == ["f32[8]{0}", "s8[2]{0}"]
    assert wrapped.root is not None
    assert str(wrapped.root.shape) == "f32[8]{0}"
    assert str(sugar(plain)) == str(parse_module(text))


def test_a_control_predecessor_keeps_its_name() -> None:
    text = "HloModule m  ENTRY e { t = (s8[], s8[]) parameter(0)  x = s8[] get-tuple-element(t), index=0"
    text += "  y = s8[] get-tuple-element(t), index=1  z = s8[] negate(y), control-predecessors={x}"
    sweet = sugar(parse_module(text + "  ROOT r = s8[] add(x, z) }"))
    assert [i.name for i in sweet.instructions] == ["t", "x", "z", "r"]


_CANONICAL = "(o := type(options).canonical(), o.__setattr__('print_large_constants', True), module.to_string(o))[-1]"
_WHOLE = """(o := type(options).canonical(), o.__setattr__('print_metadata', True),
    o.__setattr__('print_backend_config', True), o.__setattr__('print_control_dependencies', True),
    module.to_string(o))[-1]"""


@pytest.mark.oracle
def test_xla_reads_short_and_expanded_forms_as_the_same_module() -> None:
    sugared = ask_xla(list(CHAINED), _WHOLE)
    plain = ask_xla([str(desugar(parse_module(text))) for text in CHAINED], _WHOLE)
    assert all(sugared)
    assert plain == sugared


@pytest.mark.oracle
def test_xla_reads_a_dump_with_sugar_as_the_same_module() -> None:
    asynchronous = [module for path in dumps() if "async-start(" in str(module := parse_module(dump_text(path)))]
    before = ask_xla([str(module) for module in asynchronous], _CANONICAL)
    sweet = [sugar(module, elements=False) for module in asynchronous]
    assert any(before)
    assert any(each is not module for each, module in zip(sweet, asynchronous, strict=True))
    for printed, after in zip(before, ask_xla([str(module) for module in sweet], _CANONICAL), strict=True):
        assert printed == after


def test_commands_expand_sugar_in_protos(tmp_path: Path) -> None:
    """Protos have no short forms; `hlo parse -o m.pb` writes what `--desugar` prints."""
    text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  s = ((f32[2]), f32[2], u32[]) negate-start(p)"
    source, proto = tmp_path / "m.hlo", tmp_path / "m.pb"
    source.write_text(text + "  ROOT d = f32[2] negate-done(s) }", encoding="utf-8")
    assert main(["parse", str(source), "-o", str(proto)], standalone=False) == 0
    opcodes = [instruction.opcode for instruction in load(proto).entry.instructions]
    assert opcodes == ["parameter", "async-start", "async-done"]


@pytest.mark.oracle
@pytest.mark.parametrize("way", ["--desugar", "--sugar"])
def test_xla_reads_the_output_of_schedule_as_the_same_module(way: str, tmp_path: Path) -> None:
    written = []
    for number, text in enumerate(CHAINED):
        source, target = tmp_path / f"{number}.hlo", tmp_path / f"{number}.new.hlo"
        source.write_text(text, encoding="utf-8")
        asked = ["schedule", str(source), way, "-o", str(target)]
        assert main(asked, standalone=False) == 0
        written.append(target.read_text(encoding="utf-8"))
    assert ask_xla(written, _WHOLE) == ask_xla(list(CHAINED), _WHOLE)
    assert (written == list(CHAINED)) == (way == "--sugar")


@pytest.mark.parametrize(
    ("says", "stays"), [("", False), (', metadata={op_name="a"}', False), (", sharding={replicated}", True)]
)
def test_an_element_with_attributes_stays(says: str, stays: bool) -> None:
    """`p#1` has no room for attributes, of which only metadata may be lost."""
    text = f"""HloModule m
    ENTRY e {{ p = (f32[2], f32[2]) parameter(0)  g = f32[2] get-tuple-element(p), index=1{says}
      ROOT n = f32[2] negate(g) }}"""
    assert ("get-tuple-element" in str(sugar(parse_module(text)))) == stays
