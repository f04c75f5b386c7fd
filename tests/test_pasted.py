"""Pasted texts: HLO is read from whatever surrounds it, and other texts are named for what they are."""

from __future__ import annotations

import io
import random
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import compiler_messages
from hlo_cli import cli
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.inputs.pasted.envelopes import PastedTextError
from hlo_cli.inputs.pasted.kinds import PastedKind
from hlo_cli.inputs.pasted.read import read_text
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_module
from hlo_cli.source import HloError
from timing import is_linear
from wrapping import WRAPPINGS

FIXTURES = Path(__file__).parent.parent / "fixtures"
SMALL = """\
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%add.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b), metadata={op_name="jit(f)/\\"x\\"" source_file="/a/b.py" source_line=3}
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), sharding={replicated}
  %c = f32[8]{0} custom-call(%p), custom_call_target="x", backend_config={"a":"b\\n","c":[1,2]}
  ROOT %n = f32[8]{0} negate(%c)
}
"""
MODULES = {
    "small": SMALL,
    "v5e_conv": next((FIXTURES / "tpu" / "v5e_conv").glob("*after_optimizations.txt")).read_text(encoding="utf-8"),
}


def inputs_of(text: str) -> tuple[Input, ...]:
    return read_inputs(["-"], stdin=io.BytesIO(text.encode()))


def module_of(text: str) -> Module:
    [found] = inputs_of(text)
    return read_module(found.source, found.proto)


def kind_of(text: str) -> PastedKind:
    with pytest.raises(PastedTextError) as caught:
        inputs_of(text)
    return caught.value.pasted.kind


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_read_from_what_surrounds_it(name: str, wrapping: str) -> None:
    text = MODULES[name]
    module = module_of(WRAPPINGS[wrapping](text))
    assert module.errors == ()
    assert str(module).split() == str(module_of(text)).split()


@pytest.mark.parametrize("seed", range(12))
def test_two_wrappings_around_each_other(seed: int) -> None:
    inner, outer = random.Random(seed).sample(("fence", "quote", "glog", "ray", "colors", "windows", "json"), 2)
    module = module_of(WRAPPINGS[outer](WRAPPINGS[inner](SMALL)))
    assert str(module) == str(module_of(SMALL))


def test_places_are_those_of_the_pasted_text() -> None:
    wrong = SMALL.replace("negate(%c)", "negate(%missing)")
    for wrapping in ("fence", "glog", "prose before and after"):
        text = WRAPPINGS[wrapping](wrong)
        [error] = module_of(text).errors
        assert error.position is not None
        assert "%missing" in text.split("\n")[error.position.line - 1]


@pytest.mark.parametrize("wrapping", ["fence", "quote", "glog", "repr", "colors", "windows"])
def test_a_proto_in_text_form(wrapping: str) -> None:
    module = module_of(WRAPPINGS[wrapping](compiler_messages.PROTO))
    assert (module.name, module.entry.name, [each.name for each in module.instructions]) == ("m", "e", ["p"])
    assert module.errors == ()


def test_an_instruction_in_a_sentence() -> None:
    module = module_of('It fails at %add.1 = f32[2]{0} add(f32[2]{0} %a, %b), metadata={op_name="x"} every time.')
    root = module.entry.root
    assert root is not None
    assert (root.name, root.opcode, root.metadata.op_name) == ("add.1", "add", "x")


def test_an_instruction_that_a_terminal_wrapped_in_a_word() -> None:
    module = module_of(
        "see:\n%fusion.3 = bf16[12\n8,256]{1,0} fusion(bf16[128,256]{1,0} %par\nam.1), kind=kLoop, calls=%f"
    )
    root = module.entry.root
    assert root is not None
    assert (str(root.shape), root.operands[0].name) == ("bf16[128,256]{1,0}", "param.1")


def test_an_instruction_that_was_cut_keeps_its_whole_operands() -> None:
    root = module_of("Trying %dot.1 = f32[8,8]{1,0} dot(f32[8,4]{1,0} %a, f32[4,").entry.root
    assert root is not None
    assert (root.opcode, [each.name for each in root.operands]) == ("dot", ["a"])


def test_instructions_without_shapes() -> None:
    module = module_of("\nx = custom-call(a)\nROOT y = all-gather(x), dimensions={0}\n")
    assert [each.opcode for each in module.instructions][-2:] == ["custom-call", "all-gather"]


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "    ", "\t\t", "see `"])
def test_an_instruction_after_a_mark(mark: str) -> None:
    root = module_of(
        f"The slow one:\n{mark}%dot.1 = f32[8,8]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}`\n"
    ).entry.root
    assert root is not None
    assert (root.opcode, [each.name for each in root.operands]) == ("dot", ["a", "b"])


def test_an_ellipsis_among_operands() -> None:
    root = module_of("%f = f32[8]{0} fusion(%a, \u2026), kind=kLoop, calls=%g").entry.root
    assert root is not None
    assert [each.name for each in root.operands] == ["a"]


def test_a_type_in_capitals_is_read() -> None:
    root = module_of("see\na = F32[8]{0} add(BF16[8] b, c)\n").entry.root
    assert root is not None
    assert str(root.shape) == "f32[8]{0}"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("f32[8]\nbf16[16,128]{1,0}\n", "shapes", "f32[8]"),
        (">>> aval\nShapedArray(float32[8,128])\n", "shape", "ShapedArray(float32[8,128])"),
        (">>> x.sharding\nNamedSharding(mesh=Mesh('x': 8), spec=PartitionSpec('x',))\n", "sharding", "NamedSharding"),
        ("{'w': ShapeDtypeStruct(shape=(3, 4), dtype=float32)}", "shape", "{'w'"),
        ("params:\n- w: f32[8,4]{1,0}\n- b: f32[4]\n", "shapes", "params"),
        ("(f32[8], s32[])\n(f32[4], s32[])\n", "shapes", "(f32[8]"),
    ],
)
def test_values_and_nothing_else(text: str, kind: PastedKind, value: str) -> None:
    with pytest.raises(PastedTextError) as caught:
        inputs_of(text)
    assert caught.value.pasted.kind == kind
    assert caught.value.pasted.text.startswith(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is bf16[8,128]{1,0:T(8,128)(2,1)}?", "a line that mentions the shape bf16[8,128]{1,0:T(8,128)(2,1)}"),
        ("loss at step 3 was f32[8]", "a line that mentions the shape f32[8]"),
        ("f32[8], loss went down", "a line that mentions the shape f32[8]"),
        (
            "I0521 12:04:45.883123 1509 a.cc:186] moving f32[8,4]{1,0} to host",
            "a log line that mentions the shape f32[8,4]",
        ),
        ("step 1: x is\nf32[8,4]\nand y is\nf32[4]\n", "a text that mentions the shape f32[8,4]"),
        ("with sharding={devices=[2,2]<=[4]} it fails", "mentions the sharding {devices=[2,2]<=[4]}"),
        ("P('x') was replaced by P('y')", "no HLO found"),
        ("It has replica_groups={{0,1},{2,3}}, why?", "mentions the attribute replica_groups={{0,1},{2,3}}"),
        ("{1: 'a', 0: 'b'}", "is JSON"),
    ],
)
def test_a_value_in_a_sentence_is_no_answer(text: str, words: str) -> None:
    """A sentence is not about the shape that it mentions: the tool says what it saw, and how to ask about it."""
    with pytest.raises(HloError) as caught:
        inputs_of(text)
    assert not isinstance(caught.value, PastedTextError) or caught.value.pasted.kind == "mentions"
    [error] = caught.value.diagnostics
    assert words in error.message
    assert error.hint


@pytest.mark.parametrize("words", ["out of memory", "RESOURCE_EXHAUSTED: Out of memory", "RET_CHECK failure", "[spmd]"])
def test_words_in_an_op_name_are_not_a_message(words: str) -> None:
    named = SMALL.replace('jit(f)/\\"x\\"', f"jit(f)/{words}")
    assert words in named
    for text in (named, WRAPPINGS["fence"](named), WRAPPINGS["glog"](named)):
        assert module_of(text).name == "jit_f"
        assert not inputs_of(text)[0].notes
    instruction = f'%a = f32[8]{{0}} add(%b, %c), metadata={{op_name="jit(f)/{words}"}}'
    assert module_of(instruction).entry.root is not None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.",
            "an out-of-memory error; to explain it, run `hlo memspace",
        ),
        (
            "Constant folding an instruction is taking > 1s:\n\n  %a = f32[8]{0} add(%b, %c)\n",
            "a slow operation warning",
        ),
    ],
)
def test_a_module_with_a_message_is_read_with_a_note(message: str, words: str) -> None:
    [found] = inputs_of(f"I0521 12:04:45.883123 1509 a.cc:186] compiling\n{SMALL}\nE1 step failed\n{message}\n")
    assert read_module(found.source, found.proto).name == "jit_f"
    assert any(words in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n\ntry:\n  f()\nexcept ValueError as e:\n  print('RESOURCE_EXHAUSTED', 'out of memory', e)\n",
        '#include "a.h"\n\nnamespace a {\nauto f() { return ResourceExhausted("Out of memory"); }\n}\n',
    ],
)
def test_source_code_with_the_words_of_a_message(text: str) -> None:
    with pytest.raises(HloError, match="source code") as caught:
        inputs_of(text)
    assert not isinstance(caught.value, PastedTextError)


@pytest.mark.parametrize(
    "text", ["step 1\nto avoid out of memory errors we use 8 rows\nstep 2\n", "# out of memory?\n"]
)
def test_a_text_without_a_message_of_its_kind_has_no_hlo(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text)
    assert cli.main(["parse", str(path)], standalone=False) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert "no HLO found" in written.err


def test_a_message_between_fences_of_one_line() -> None:
    assert (
        kind_of("I see:\n```XlaRuntimeError: INTERNAL: ptxas uses too much shared data (0xc180 bytes)```\n")
        == "compiler-error"
    )


def test_the_next_kind_of_a_text_is_answered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        "* It can't reduce memory, see Can't reduce memory use\n  [spmd] Involuntary full rematerialization. The compiler was "
        "not able to go from sharding {devices=[1,8]<=[8]} to {devices=[8,1]<=[8]} without doing a full rematerialization\n"
    )
    assert cli.main(["parse", str(path)], standalone=False) == 0
    assert "devices=[1,8]" in capsys.readouterr().out


def test_an_instruction_without_a_name() -> None:
    root = module_of("slow: f32[8,8]{1,0} custom-call(f32[8,8]{1,0}), window={size=3x3} today").entry.root
    assert root is not None
    assert (root.opcode, str(root.shape)) == ("custom-call", "f32[8,8]{1,0}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.", "out-of-memory"),
        ("Largest program allocations in vmem:\n\n  XLA label: %a = f32[8]{0} add(%b, %c)\n", "out-of-memory"),
        ("Constant folding an instruction is taking > 1s:\n\n  %a = f32[8]{0} add(%b, %c)\n", "slow-operation"),
        ("[spmd] Involuntary full rematerialization. The compiler was not able to go", "resharding"),
        ("INTERNAL: RET_CHECK failure (xla/a.cc:12) x == y %a = f32[8]{0} add(%b, %c)", "compiler-error"),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-%a = f32[8]{0} add(%b, %c)\n+%a = f32[8]{0} multiply(%b, %c)\n", "diff"),
        ("-%a = f32[8]{0} add(%b, %c)\n+%a = f32[8]{0} multiply(%b, %c)\n", "diff"),
        ("bf16[8,128]{1,0:T(8,128)(2,1)}", "shape"),
        ("(f32[8], s32[])\n", "shape"),
        ("{1,0:T(8,128)}", "layout"),
        ("{devices=[2,4]<=[8]}", "sharding"),
        ("sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}", "sharding"),
        ("{{0,1},{2,3}}", "replica-groups"),
        ("replica_groups=[2,4]<=[8]", "replica-groups"),
        ("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }", "jaxpr"),
        ("IR {\n  %0 = f32[8]{0} xla::device_data(), device=TPU:0\n}\n", "torch-graph"),
    ],
)
def test_texts_that_are_not_modules(text: str, kind: PastedKind) -> None:
    assert kind_of(text) == kind
    assert kind_of(WRAPPINGS["quote"](text) if kind in ("out-of-memory", "diff") else f"\n{text}\n") == kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{ lambda ; a. let b = sin a in (b,) }", "is a jaxpr"),
        ('{"traceEvents": []}', "is a profiler trace in JSON"),
        ("import jax\n\ndef f(x):\n  return x\n", "is Python source code"),
        ("Traceback (most recent call last):\n  File 'a'\nValueError: no x\n", "a Python traceback: ValueError: no x"),
        ("step 1\nstep 2\n", "no HLO found"),
        ("2024-05-21 12:04:45.883: E a/gpu/autotuning/gemm.cc:35] Results differ\n", "is an autotuning log"),
        ("*** SIGSEGV (@0x0) received by PID 1 ***\nPC: @     0x7f12  xla::A()\n", "is a crash report"),
        ("a:1:2 [0] NCCL INFO Bootstrap\n", "is an NCCL log"),
        ("[TRT] [W] Using default\n", "is a TensorRT log"),
        ("===== test session starts =====\ncollected 1 item\n", "is output of pytest"),
        ("--xla_dump_to=/tmp/x\n", "is a list of XLA flags"),
        ("8, f32[8]{0} %add.1, /*index=5*/f32[8]{0} %add.2, f32[8]{0} %a", "is a list of operands"),
        ("It has:\nENTRY %main {\n  ...\n  ROOT %call.4 = ..., to_apply=%f\n}\n", "is a shortened module"),
        ("Before:\n  all-gather(input), replica_groups={}, dimensions={}\n", "instructions without shapes"),
        ("step 0\nHloModule dump enabled with path prefix: , suffix: a\nstep 1\n", "no HLO found"),
    ],
)
def test_texts_without_hlo_are_named_with_one_error_and_a_way_on(text: str, words: str) -> None:
    with pytest.raises(HloError) as caught:
        inputs_of(text)
    [error] = caught.value.diagnostics
    assert words in error.message
    assert error.hint


@pytest.mark.slow
@pytest.mark.parametrize("most", [24_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "part",
    [
        "x",
        " ",
        '"',
        '\\"',
        "%a = (",
        "a = b\n",
        "> a\n",
        "}\n",
        "a (b) -> c {\n",
        "&gt;",
        "%a = f32[8]{0} add(f32[8] %a, f32[8,\n",
        "f32[8] add(",
        "\x1b[31m",
        "b'\\n",
        "+ a = b\n- c = d\n",
        "\\n%",
        "{devices=",
        "E0521 12:04:45.883123 1509 a.cc:186] ",
        "HloModule m" + "x" * 69 + "\n",
        "a = f32[] b({" + "x" * 67 + "\n" + "y" * 80 + "\n",
        "12: ",
        "</span",
        "'HloModule ",
        "'HloModule m\\n",
    ],
)
def test_recognition_is_linear(part: str, most: int) -> None:
    def work(size: int) -> Callable[[], object]:
        text = part * (size // len(part))

        def read() -> None:
            with suppress(HloError):
                read_text(text, "-")

        return read

    assert is_linear(work, most // 8, most)


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("wrapping", ["", "quote", "fence"])
def test_a_part_that_a_terminal_wrapped_keeps_its_attributes(width: int, wrapping: str) -> None:
    lines = MODULES["v5e_conv"].rstrip("\n").split("\n")
    entry = next(number for number, line in enumerate(lines) if line.startswith("ENTRY"))
    tail = "\n".join(lines[entry + 10 :])
    wrapped = "\n".join(line[at : at + width] for line in tail.split("\n") for at in range(0, max(len(line), 1), width))
    module = module_of(WRAPPINGS[wrapping](wrapped) if wrapping else wrapped)
    assert module.errors == ()
    assert str(module) == str(module_of(tail))


@pytest.mark.parametrize("width", [60, 72, 100])
def test_a_part_that_a_mail_wrapped_at_spaces_keeps_its_instructions(width: int) -> None:
    lines = MODULES["v5e_conv"].rstrip("\n").split("\n")
    entry = next(number for number, line in enumerate(lines) if line.startswith("ENTRY"))
    tail = lines[entry + 10 :]
    wrapped = "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
        for line in tail
    )
    module, whole = module_of(wrapped), module_of("\n".join(tail))
    assert module.errors == ()
    assert [(each.name, each.opcode, str(each.shape)) for each in module.instructions] == [
        (each.name, each.opcode, str(each.shape)) for each in whole.instructions
    ]
