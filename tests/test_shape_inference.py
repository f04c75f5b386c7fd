"""Shape inference against what compilers wrote, and against what XLA infers where texts leave shapes out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.shapes import computing
from hlo_cli.analysis.shapes.inference import GROUP_RULES, RULES, infer_shape, precision_difference, shape_difference
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.ir.shape import Shape, UnknownShape, compatible
from hlo_cli.source import HloError
from hlo_cli.syntax.operation_checks import NEEDS_SHAPE
from judge import STABLEHLO, ask_xla
from random_instructions import Writer
from strategies import dump_text, dumps, name_of
from wrong_instructions import TEXT, WITHOUT_SHAPE, WRITTEN, XLA_ALONE

UNARY_RULES = (computing.unary, computing.component, computing.is_finite)
INFERRED = frozenset(OPCODE_ARITY) - NEEDS_SHAPE - {"broadcast"}
"""Opcodes whose shape a text may leave out. Of a broadcast XLA then takes the dimensions for sizes, which is no use."""

PRECISION = {
    "tpu/v4_collectives/after_optimizations.txt": {"psum.7"},
    "tpu/v5e_collectives/after_optimizations.txt": {"psum.7"},
    "tpu/v5e_on_host/after_optimizations.txt": {"reshape.1"},
}
"""Instructions that take f32 and give bf16: the TPU compiler's propagation of bf16 leaves them so."""

_KEPT = Path(__file__).parent / "data" / "shapes_of_xla.json.gz"
"""What jaxlib 0.10.2 infers: the shape of the root of a module, or null for one that it rejects."""

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)


def without_shape(instruction: Instruction) -> Instruction:
    """The same instruction as if its text left the shape out."""
    operands, place = instruction.operands, (instruction.computation, instruction.index)
    bare = Instruction(instruction.name, UnknownShape(), instruction.opcode, operands, *place, instruction.text)
    bare.called_computations = instruction.called_computations
    return bare


def inferred_or_none(instruction: Instruction) -> Shape | None:
    try:
        return infer_shape(instruction)
    except HloError:
        return None


def shapes_by_name(module: Module) -> dict[tuple[str, str], str]:
    """The shapes that follow from operands, without the element size of s4, which XLA forgets reading a constant."""
    made = (i for i in module.instructions if i.opcode in INFERRED)
    return {(i.computation.name, i.name): str(i.shape).replace(":E(4)", "") for i in made}


def test_every_opcode_has_one_rule() -> None:
    assert RULES.keys() | GROUP_RULES.keys() == OPCODE_ARITY.keys()
    assert not RULES.keys() & GROUP_RULES.keys()


@each_dump
def test_compilers_write_what_is_inferred(path: Path) -> None:
    module = parse_module(dump_text(path))
    different = {i.name for i in module.instructions if not compatible(infer_shape(i, module), i.shape)}
    assert different == PRECISION.get(name_of(path), set())
    for name in different:
        instruction = module.instruction(name)
        assert compatible(infer_shape(instruction, module), instruction.shape, any_precision=True)


@each_dump
def test_compilers_write_what_xla_accepts(path: Path) -> None:
    module = parse_module(dump_text(path))
    fused = {called for i in module.instructions if i.opcode == "fusion" for called in i.called_computations}
    is_mixed = name_of(path).startswith("tpu") and "after" in name_of(path)
    for instruction in module.instructions:
        found = shape_difference(
            instruction,
            module,
            layout_sensitive=module.is_scheduled,
            allow_mixed_precision=is_mixed,
            is_fused=instruction.computation in fused,
        )
        assert found is None, instruction
        if not is_mixed:
            assert precision_difference(instruction) is None, instruction


def stripped(text: str) -> tuple[str, int]:
    """A module's text without the shapes that follow from operands, and how many were left out."""
    module = parse_module(text)
    count = 0
    for instruction in module.instructions:
        if instruction.opcode in INFERRED and inferred_or_none(without_shape(instruction)) is not None:
            shape = infer_shape(without_shape(instruction))
            if compatible(shape, instruction.shape):
                instruction.shape = UnknownShape()
                count += 1
    return str(module), count


@each_dump
def test_shapes_left_out_come_back(path: Path) -> None:
    text = dump_text(path)
    bare, count = stripped(text)
    assert count
    module, original = parse_module(bare), parse_module(text)
    assert not module.errors
    for found, written in zip(module.instructions, original.instructions, strict=True):
        assert compatible(found.shape, written.shape), found


@pytest.mark.oracle
def test_shapes_left_out_are_those_that_xla_infers() -> None:
    whole = [dump_text(path) for path in dumps()]
    texts = [stripped(text)[0] for text, said in zip(whole, ask_xla(whole), strict=True) if said]
    answers = ask_xla(texts, "module.to_string(options)")
    compared = 0
    for text, answer in zip(texts, answers, strict=True):
        assert isinstance(answer, str), text[:100]
        theirs, ours = shapes_by_name(parse_module(answer)), shapes_by_name(parse_module(text))
        common = theirs.keys() & ours.keys()
        assert {key: theirs[key] for key in common} == {key: ours[key] for key in common}
        compared += len(common)
    assert compared > 1500


def complaint(text: str) -> str:
    """What is said of the last instruction of a module."""
    module = parse_module(text)
    if module.errors:
        return str(module.errors[0])
    try:
        return shape_difference(module.instruction("r"), module) or "nothing"
    except HloError as error:
        return str(error)


@pytest.mark.parametrize(("instruction", "message"), [*WITHOUT_SHAPE, *WRITTEN, *XLA_ALONE])
def test_what_is_wrong_is_said(instruction: str, message: str) -> None:
    assert message in complaint(TEXT.replace("INSTRUCTION", instruction))


@pytest.mark.oracle
def test_xla_rejects_what_is_wrong() -> None:
    texts = [TEXT.replace("INSTRUCTION", instruction) for instruction, _ in WITHOUT_SHAPE]
    said = ask_xla([TEXT.replace("INSTRUCTION", "add(a, a)"), *texts])
    assert said[0] is True
    assert not [wrong[0] for wrong, answer in zip(WITHOUT_SHAPE, said[1:], strict=True) if answer]


@pytest.mark.oracle
def test_stablehlo_rejects_what_is_wrong() -> None:
    texts = [TEXT.replace("INSTRUCTION", instruction) for instruction, _ in WRITTEN]
    good = TEXT.replace("INSTRUCTION", "f32[2,3] add(a, a)")
    said = ask_xla([good, *texts], "verified(module)", prelude=STABLEHLO)
    assert said[0] is True
    assert not [wrong[0] for wrong, answer in zip(WRITTEN, said[1:], strict=True) if answer]


def test_what_cannot_be_inferred_must_be_written() -> None:
    module = parse_module("ENTRY e { p = f32[2] parameter(0)  c = convert(p)  ROOT r = negate(c) }")
    assert [str(error) for error in module.errors] == [
        "text:1:36: error: convert %c: the result shape cannot be inferred and must be given"
    ]


def test_an_instruction_alone_need_not_say_what_it_takes() -> None:
    module = parse_module("r = f32[2] add(a, b)")
    assert not module.errors
    assert parse_module("r = add(f32[2] a, f32[2] b)").instruction("r").shape == module.instruction("r").shape


def test_a_layout_that_is_none_is_no_harm() -> None:
    module = parse_module("ENTRY e { p = f32[2,3]{7,0} parameter(0)  ROOT r = transpose(p), dimensions={1,0} }")
    assert str(module.instruction("r").shape) == "f32[3,2]{7,1}"


def test_errors_have_a_place() -> None:
    module = parse_module(TEXT.replace("INSTRUCTION", "f32[2,3] sqrt(i)"))
    root = module.instruction("r")
    with pytest.raises(HloError) as caught:
        infer_shape(root, module)
    assert caught.value.diagnostic.span == root.span is not None


@pytest.mark.oracle
def test_types_are_those_that_xla_allows() -> None:
    assert_like_xla(texts_of_types())


@pytest.mark.oracle
def test_random_instructions_have_the_shape_that_xla_infers() -> None:
    assert_like_xla([Writer(Random(seed)).text() for seed in range(500)])


@pytest.mark.parametrize("part", range(6))
def test_what_xla_said_of_shapes_is_kept(part: int) -> None:
    """The same without jaxlib: `python tests/test_shape_inference.py` asks again."""
    kept = json.loads(gzip.decompress(_KEPT.read_bytes()))
    assert len(kept) >= 600
    said = list(kept.items())[part::6]
    assert [(text, inferred_shape(text)) for text, _ in said] == said


def texts_of_types() -> list[str]:
    """Elementwise opcodes of each kind of type."""
    unary = [opcode for opcode in sorted(INFERRED) if OPCODE_ARITY[opcode] == 1 and RULES[opcode] in UNARY_RULES]
    binary = [opcode for opcode in sorted(INFERRED) if OPCODE_ARITY[opcode] == 2 and RULES[opcode] is computing.binary]
    return [
        f"ENTRY e {{ a = {name}[2] parameter(0)  ROOT r = {opcode}({arguments}) }}"
        for name in ("pred", "s32", "u32", "f32", "c64")
        for opcodes, arguments in ((unary, "a"), (binary, "a, a"))
        for opcode in opcodes
    ]


def assert_like_xla(texts: list[str]) -> None:
    """Of each module XLA's parser must infer the shape of the root that ours infers, or reject it as ours does."""
    for text, shape in shapes_of_xla(texts).items():
        assert inferred_shape(text) == shape, text


def shapes_of_xla(texts: list[str]) -> dict[str, str | None]:
    """The shape of the root of each module as XLA reads it, None for what it rejects; without those that crash it."""
    said = zip(texts, ask_xla(texts, "module.to_string(options)"), strict=True)
    return {
        text: inferred_shape(answer) if isinstance(answer, str) else None for text, answer in said if answer is not None
    }


def inferred_shape(text: str) -> str | None:
    """The shape of the root of a module, None for one with errors."""
    module = parse_module(text)
    return None if module.errors else str(module.instruction("r").shape)


if __name__ == "__main__":
    every = [*texts_of_types(), *(Writer(Random(seed)).text() for seed in range(450))]
    _KEPT.write_bytes(gzip.compress(json.dumps(shapes_of_xla(every), indent=0).encode(), mtime=0))


@pytest.mark.parametrize(("first", "second", "message"), [
    ("f32[2]{0:S(1)}", "f32[2]{0}", None),
    ("f32[2]", "f32[3]", "expected a copy of the same shape"),
    ("f32[2]", "s32[2]", "expected a copy of the same shape"),
])  # fmt: skip
def test_a_copy_is_of_one_shape(first: str, second: str, message: str | None) -> None:
    root = parse_module(f"r = f32[2] copy-done(({first}, {second}, u32[]) a)").entry.root
    assert root is not None
    if message is None:
        assert str(infer_shape(root)) == first
        return
    with pytest.raises(HloError, match=message):
        infer_shape(root)
