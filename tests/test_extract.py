"""A part of a module as a module: its instructions, and that XLA reads it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import given

from hlo_cli.analysis.dataflow.dependencies import reached, users_of
from hlo_cli.analysis.memory.buffers import order_independent_facts, overwritten_values
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import subshape
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.extract import KEPT_OF_OPERANDS, extract
from hlo_cli.transform.sugar import desugar
from strategies import Model, dump_text, dumps, models, name_of, seeds

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)
REACHES = ((0, 0), (1, 1), (2, 0), (0, 2), (3, 3))


def parts(module: Module, seed: int, number: int = 12) -> Iterator[tuple[Instruction, int, int, Module]]:
    """Parts around some instructions of a module, with the steps that they reach."""
    random = Random(seed)
    instructions = list(module.instructions)
    for instruction in random.sample(instructions, min(number, len(instructions))):
        operands, users = random.choice(REACHES)
        yield instruction, operands, users, extract(module, instruction, operands=operands, users=users)


@each_dump
def test_a_part_prints_as_it_reads(path: Path) -> None:
    for _, _, _, part in parts(parse_module(dump_text(path)), 1):
        text = str(part)
        again = parse_module(text)
        assert again.errors == ()
        assert str(again) == text


@each_dump
def test_a_part_equals_its_parsed_text(path: Path) -> None:
    for _, _, _, part in parts(parse_module(dump_text(path)), 4, 6):
        for copy, read in zip(part.entry.instructions, parse_module(str(part)).entry.instructions, strict=True):
            assert [copy.value(a.name) for a in copy.attributes] == [read.value(a.name) for a in read.attributes]
            assert copy.metadata == read.metadata
            assert str(copy.literal) == str(read.literal)
        if desugar(part) is part:
            assert module_to_bytes(part) == module_to_bytes(parse_module(str(part)))


@given(models(), seeds)
def test_a_part_of_any_module_prints_as_it_reads(model: Model, seed: int) -> None:
    for instruction, operands, users, part in parts(parse_module(model.canonical()), seed, 3):
        text = str(part)
        again = parse_module(text)
        assert again.errors == ()
        assert str(again) == text
        check_neighbors(instruction, operands, users, part)


def test_a_tuple_that_a_loop_overwrites_is_copied_by_its_elements() -> None:
    """Where what uses the loop reads the tuple, too."""
    module = parse_module("""HloModule m, is_scheduled=true
c { t = (s8[4], s8[4]) parameter(0)  ROOT y = pred[] constant(false) }
b { u = (s8[4], s8[4]) parameter(0)  v = s8[4] get-tuple-element(u), index=0  ROOT w = (s8[4], s8[4]) tuple(v, v) }
ENTRY e { p = s8[4] parameter(0)  q = (s8[4], s8[4]) tuple(p, p)  l = (s8[4], s8[4]) while(q), condition=c, body=b
  ROOT r = s8[4] custom-call(q, l), custom_call_target="f" }""")
    loop = module.entry.instructions[2]
    part = extract(module, loop, operands=0, users=1)
    assert [i.opcode for i in part.entry.instructions if i.opcode == "copy"] == ["copy"] * 2
    check_neighbors(loop, 0, 1, part)


def test_a_value_that_becomes_a_result_is_copied_before_it_is_overwritten() -> None:
    """In the whole module nothing reads it after the update; in the part, it is a result."""
    module = parse_module("""HloModule m, is_scheduled=true
ENTRY e { p = s8[4] parameter(0)  v = s8[2] parameter(1)  i = s32[] parameter(2)  a = s8[4] negate(p)
  t = (s8[4]) tuple(a)  d = s8[4] dynamic-update-slice(a, v, i)  ROOT r = s8[4] negate(d) }""")
    value = module.entry.instructions[3]
    part = extract(module, value, operands=0, users=1)
    [copy] = [i for i in part.entry.instructions if i.opcode == "copy"]
    assert copy.operands[0].name == "a"
    assert is_overwritten_without(part, [copy])
    check_neighbors(value, 0, 1, part)


@each_dump
def test_a_part_contains_neighbors_and_parameters_for_the_rest(path: Path) -> None:
    module = parse_module(dump_text(path))
    for instruction, operands, users, part in parts(module, 2):
        check_neighbors(instruction, operands, users, part)
        assert part.is_scheduled == module.is_scheduled
        names = {c.name for c in module.computations}
        assert all(c.name in names for c in part.computations if c is not part.entry)
        assert {c for i in part.instructions for c in i.called_computations} <= set(part.computations)


def check_neighbors(instruction: Instruction, operands: int, users: int, part: Module) -> None:
    """The entry contains the reachable instructions, unchanged, and parameters for all other operands.

    What would be overwritten in place is copied, tuples by their elements: parameters, and values that only the part
    returns as a result.
    """
    original = {i.name: i for i in instruction.computation.instructions}
    near = reached([instruction], lambda i: i.operands, steps=operands)
    near |= reached([instruction], users_of(instruction.computation).__getitem__, steps=users)
    entry = part.entry
    found = {i.name: i for i in entry.instructions}
    assert {i.name for i in near} <= found.keys()
    places = copied_places([i for i in entry.instructions if i.name not in original])
    for copy in places:
        if copy.opcode == "copy" and copy.operands[0].opcode not in ("parameter", "get-tuple-element"):
            assert is_overwritten_without(part, [copy])
    copied = {i: of for i, (of, index) in places.items() if not index}
    made = [i for i in entry.instructions if i.name not in original and i not in places]
    assert made in ([], [entry.root])
    assert [p.parameter_number for p in entry.parameters] == list(range(len(entry.parameters)))
    kept_ones = [i for i in entry.instructions if i not in made and i not in places]
    order = [original[i.name].index for i in kept_ones]
    if order != sorted(order):  # an update moves after other reads of what it overwrites, and nothing else does
        indices = {i.name: original[i.name].index for i in kept_ones}
        assert is_overwritten_without(part, [i for i in places if i.opcode == "copy"], indices)
    for copy in kept_ones:
        before = original[copy.name]
        assert copy.shape == before.shape
        if copy.opcode == before.opcode:
            assert [copied.get(o, o).name for o in copy.operands] == [o.name for o in before.operands]
            called, calls = ([c.name for c in i.called_computations] for i in (copy, before))
            assert called == calls
            kept = [a for a in before.attributes if a.name != "control-predecessors"]
            assert [a for a in copy.attributes if a.name != "control-predecessors"] == kept
        else:
            assert copy.opcode == "parameter"
            assert {a.name for a in copy.attributes} <= set(KEPT_OF_OPERANDS)
    check_root(part)


def copied_places(added: list[Instruction]) -> dict[Instruction, tuple[Instruction, tuple[int, ...]]]:
    """Of the added instructions that only copy: of what, and which part of it; a tuple of all parts is the whole."""
    places: dict[Instruction, tuple[Instruction, tuple[int, ...]]] = {}
    for each in added:
        of = [places.get(operand, (operand, ())) for operand in each.operands]
        if each.opcode == "copy":
            places[each] = of[0]
        elif each.opcode == "get-tuple-element":
            places[each] = of[0][0], (*of[0][1], each.integer("index") or 0)
        elif each.opcode == "tuple" and of and of[0][1]:
            whole, index = of[0][0], of[0][1][:-1]
            if of == [(whole, (*index, at)) for at in range(len(of))] and each.shape == subshape(whole.shape, index):
                places[each] = whole, index
    return places


def is_overwritten_without(
    part: Module, copies: Collection[Instruction], order: Mapping[str, int] | None = None
) -> bool:
    """Whether a value is read after it is overwritten if copies in the entry are left out, or in another order."""
    order = order or {}
    before, entry = str(part).split("ENTRY ", 1)
    head, *lines = entry.splitlines()
    copied = {copy.name: copy.operands[0].name for copy in copies}
    names = [re.split(r"[ =]", line.removeprefix("  ROOT ").strip().removeprefix("%"), maxsplit=1)[0] for line in lines]
    kept = [(name, line) for name, line in zip(names, lines, strict=True) if name not in copied]
    ordered = sorted((pair for pair in kept if pair[0] in order), key=lambda pair: order[pair[0]])
    at = iter(ordered)
    text = "\n".join(next(at)[1] if name in order else line for name, line in kept)
    for name, of in copied.items():
        text = re.sub(rf"%{re.escape(name)}(?![\w.\-])", f"%{of}".replace("\\", r"\\"), text)
    cut = parse_module(f"{before}ENTRY {head}\n{text}")
    return bool(overwritten_values(order_independent_facts(cut)).overwritten)


def check_root(part: Module) -> None:
    """Every unused instruction is the root or an element of it."""
    users = users_of(part.entry)
    assert [i for i in part.entry.instructions if not users[i]] == [part.entry.root]


@pytest.mark.oracle
@each_dump
def test_xla_reads_a_part(path: Path) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    text = dump_text(path)
    try:
        hlo.hlo_module_from_text(text)
    except Exception as error:  # noqa: BLE001 # what jaxlib raises has no better name; it is older than some dumps
        pytest.skip(str(error).splitlines()[0])
    for instruction, _, _, part in parts(parse_module(text), 4, 20):
        read = hlo.hlo_module_from_text(str(part))
        names = {i.name for computation in read.computations() for i in computation.instructions()}
        assert any(name == instruction.name or name.startswith(f"{instruction.name}.") for name in names)


@pytest.mark.oracle
@given(models(elements=False), seeds)
def test_xla_reads_a_part_of_any_module(model: Model, seed: int) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    for _, _, _, part in parts(parse_module(model.canonical()), seed, 3):
        hlo.hlo_module_from_text(str(part))


ASYNCHRONOUS = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}, replica_count=2, \
input_output_alias={ {}: (0, {}, may-alias) }, frontend_attributes={arg_layout_modes="default",kept="1"}

%twice (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %q = f32[8]{0} add(%p, %p)
}

ENTRY %main (slice.0: f32[8]) -> f32[8] {
  %slice.0 = f32[8]{0} parameter(0), sharding={replicated}
  %first = f32[8]{0} negate(%slice.0), metadata={op_name="first"}
  %start = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(%first), control-predecessors={%slice.0, %first}
  %other = f32[8]{0} abs(%first), control-predecessors={%start}
  %call = f32[8]{0} call(%other), to_apply=%twice
  %done = f32[8]{0} copy-done(%start)
  ROOT %sum = f32[8]{0} add(%call, %done)
}
"""


def entry_lines(name: str, operands: int, users: int) -> list[str]:
    """The entry of a part, as it prints."""
    module = parse_module(ASYNCHRONOUS)
    text = str(extract(module, module.instruction(name), operands=operands, users=users))
    return [line.strip() for line in text[text.index("ENTRY") :].splitlines()[1:-2]]


def test_start_and_done_are_extracted_together() -> None:
    expected = [
        '%first = f32[8]{0} parameter(0), metadata={op_name="first"}',
        "%start = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(%first)",
        "ROOT %done = f32[8]{0} copy-done(%start)",
    ]
    assert entry_lines("start", 0, 0) == expected
    assert entry_lines("done", 0, 0) == expected


def test_several_results_become_a_tuple_with_a_free_name() -> None:
    assert entry_lines("first", 1, 1) == [
        "%slice.0 = f32[8]{0} parameter(0), sharding={replicated}",
        '%first = f32[8]{0} negate(%slice.0), metadata={op_name="first"}',
        "%start = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(%first), control-predecessors={%slice.0, %first}",
        "%other = f32[8]{0} abs(%first), control-predecessors={%start}",
        "%done = f32[8]{0} copy-done(%start)",
        "ROOT %slice.1 = (f32[8]{0}, f32[8]{0}) tuple(%other, %done)",
    ]


def test_control_predecessors_outside_are_omitted() -> None:
    assert entry_lines("other", 0, 0)[1] == "ROOT %other = f32[8]{0} abs(%first)"


def test_called_computations_are_complete_and_the_header_matches() -> None:
    module = parse_module(ASYNCHRONOUS)
    part = extract(module, module.instruction("call"), operands=0, users=0)
    assert [computation.name for computation in part.computations] == ["twice", "main"]
    assert str(part).partition("\n")[0] == (
        'HloModule m, is_scheduled=true, replica_count=2, frontend_attributes={kept="1"}'
    )
    assert part.computations[0] is module.computations[0]


def test_a_part_of_a_part_is_the_same() -> None:
    module = parse_module(ASYNCHRONOUS)
    part = extract(module, module.instruction("call"), operands=2, users=0)
    again = parse_module(str(part))
    assert str(extract(again, again.instruction("call"), operands=2, users=0)) == str(part)


def test_elements_used_directly_stay() -> None:
    module = parse_module(
        "HloModule m\nENTRY e {\n  t = (f32[2], f32[3]) parameter(0)\n  n = (f32[2], f32[3]) tuple(t#0, t#1)\n"
        "  ROOT a = f32[3] negate(n#1)\n}"
    )
    part = extract(module, module.instruction("a"), operands=0, users=0)
    assert "negate(%n#1)" in str(part)
    assert str(parse_module(str(part))) == str(part)
