"""What jaxlib 0.11 and 0.12 added to texts and protos is read, printed, written, and evaluated.

`data/formats_of_jaxlib_0_12.json` has modules in the text and the proto that jaxlib 0.12.0.1 made of them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import module_cost
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.shapes.inference import infer_shape
from hlo_cli.ir.attributes.enumerations import DebugLogMode, ShuffleMode
from hlo_cli.ir.attributes.metadata import DebugAttributes, OriginalArray, OriginalValue
from hlo_cli.ir.attributes.value_types import BlockScalingConfig, SparsityConfig, TensorBlockScaling, TensorSparsity
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.shape import compatible
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.messages import MessageBuilder
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.transform.sugar import desugar
from judge import ask_xla
from protos import read, said
from versions import needs_newer_xla

FORMATS = json.loads((Path(__file__).parent / "data" / "formats_of_jaxlib_0_12.json").read_text(encoding="utf-8"))
each_format = pytest.mark.parametrize("name", FORMATS)
SHUFFLE = """HloModule m

ENTRY %e (p: f32[4,6]) -> f32[4,6] {
  %p = f32[4,6]{1,0} parameter(0)
  ROOT %s = f32[4,6]{1,0} shuffle(%p), dimensions={1,0}, mode=rotate, shifts={2,-1}
}
"""
EXPANDED = """HloModule m

ENTRY %e (p: f32[4,6]) -> f32[4,6] {
  %p = f32[4,6]{1,0} parameter(0)
  %a = f32[4,4]{1,0} slice(%p), slice={[0:4], [2:6]}
  %b = f32[4,2]{1,0} slice(%p), slice={[0:4], [0:2]}
  %c = f32[4,6]{1,0} concatenate(%a, %b), dimensions={1}
  %d = f32[1,6]{1,0} slice(%c), slice={[3:4], [0:6]}
  %f = f32[3,6]{1,0} slice(%c), slice={[0:3], [0:6]}
  ROOT %s = f32[4,6]{1,0} concatenate(%d, %f), dimensions={0}
}
"""
"""The shuffle as slices, as `ShuffleExpander` of xla/hlo/transforms/expanders/shuffle_expander.cc makes them.

jaxlib 0.12 cannot run one: its StableHLO has none, and what a transform of tests adds comes after the expanders of CPUs.
"""


def text_of(name: str) -> str:
    text: str = FORMATS[name]["text"]
    return text


def root_value(name: str, attribute: str) -> object:
    root = parse_module(text_of(name)).entry.root
    assert root is not None
    return root.value(attribute)


@each_format
def test_text_is_read_strictly_and_printed_as_it_was(name: str) -> None:
    module = parse_module(text_of(name), strict=True)
    assert not module.notes
    assert str(module).split() == text_of(name).split()
    for instruction in module.instructions:
        for attribute in instruction.attributes:
            value = instruction.value(attribute.name)
            assert value is not None, attribute
            assert not isinstance(value, UnparsedText), attribute


@each_format
def test_protos_say_what_their_texts_say(name: str) -> None:
    from_proto, from_text = read(base64.b64decode(FORMATS[name]["proto"])), parse_module(text_of(name))
    if name == "unstable topk":  # whose proto is that of versions without is_stable
        assert "is_stable" not in str(from_proto)
        return
    assert said(from_proto) == said(from_text)
    assert ends(str(from_proto)) == ends(str(from_text))


@each_format
def test_what_is_written_says_the_same(name: str) -> None:
    module = parse_module(text_of(name))
    again = read(module_to_bytes(module))
    assert said(again) == said(module)
    assert ends(str(again)) == ends(str(module))


def ends(text: str) -> list[str]:
    """The ends of computations, with their attributes."""
    return [line for line in text.splitlines() if line.startswith("}")]


def test_values_are_those_of_the_texts() -> None:
    assert root_value("shuffle", "mode") is ShuffleMode.ROTATE
    assert root_value("shuffle", "shifts") == (2, -1)
    assert root_value("dot with scales", "block_scaling_config") == BlockScalingConfig(
        TensorBlockScaling(2, None, (1, 32), (1, 1)), TensorBlockScaling(3, None, (32, 1), (1, 1))
    )
    assert root_value("dot with a zero point", "block_scaling_config") == BlockScalingConfig(TensorBlockScaling(2, 3))
    assert root_value("sparse dot", "sparsity_config") == SparsityConfig(None, TensorSparsity(2, 4, 0, 1, 2))
    assert root_value("synthetic call", "origin") == OriginalValue(None, "")
    parameter = parse_module(text_of("call hierarchy")).entry.parameters[0]
    assert parameter.value("origin") == OriginalValue(OriginalArray("x"), "call.1/while.2")


def test_a_computation_keeps_its_configuration() -> None:
    module = parse_module(text_of("configuration of a computation"))
    assert [each.backend_config for each in module.computations] == ["h", '{"a":{"b":[1]}}', 'a "b"']
    assert ends(str(desugar(module))) == ends(str(module))


def test_log_settings_of_64_bit_types_are_read_as_xla_reads_them() -> None:
    """XLA has no text for them, and leaves them out of the protos that it writes."""
    x64 = MessageBuilder("X64ConfigProto").add("xprecision_64bit_fragment", "low")
    settings = MessageBuilder("DebugAttributesProto").add("log_mode", "default").add("x64_config", x64)
    array = MessageBuilder("OriginalArrayProto").add("instruction_name", "a")
    entry = MessageBuilder("DebugAttributeTableEntryProto").add("original_array", array)
    table = MessageBuilder("HloModuleProto").add("debug_attributes", [entry.add("debug_attributes", [settings])])
    module = read(module_to_bytes(parse_module(SHUFFLE)) + table.to_bytes())
    [debugged] = module.debug_attributes
    assert debugged.attributes == (DebugAttributes(DebugLogMode.DEFAULT),)


def test_an_unknown_mode_of_a_shuffle_is_an_error_in_protos() -> None:
    """Versions after 0.12 have more modes, each with a field of its own."""
    data = base64.b64decode(FORMATS["shuffle"]["proto"])
    mode = data.index(b"\xba\x06")  # the tag of field 103, its length, and the tag of its field 1
    with pytest.raises(HloError, match="unknown mode of a shuffle"):
        str(read(data[: mode + 3] + b"\x12" + data[mode + 4 :]))
    line = "r = f32[4] shuffle(f32[4] a), dimensions={0}, mode=permute"
    assert "mode=permute" in str(parse_module(line))
    with pytest.raises(HloError, match="expected"):
        parse_module(line, strict=True)


def test_a_shuffle_rotates() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    found, expected = (evaluate(parse_module(text), [x]).result for text in (SHUFFLE, EXPANDED))
    assert np.array_equal(np.asarray(found), np.asarray(expected))
    assert np.asarray(found)[0, 0] == x[3, 2]


def test_a_shuffle_moves_data_and_computes_nothing() -> None:
    """Witness: the cost analysis of jaxlib 0.12, in the oracle test below."""
    cost = module_cost(parse_module(SHUFFLE))
    assert (cost.flops, cost.bytes_accessed, cost.unknown) == (0, 192, 0)


@each_format
def test_shapes_are_those_of_xla(name: str) -> None:
    for instruction in parse_module(text_of(name)).instructions:
        assert compatible(infer_shape(instruction), instruction.shape)


def test_a_sparse_dot_is_that_of_its_dense_operand() -> None:
    """One of each two rows of the right side is stored, with its position in the block."""
    text = (
        "r = s32[3,2] dot(s32[3,4] a, s32[2,2] b, s8[2,2] c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sparsity_config={rhs={sparsity=1x2 dimension=0 stride=1 idx=2}}"
    )
    a, b, places = np.arange(12).reshape(3, 4), np.array([[1, 2], [3, 4]]), np.array([[0, 1], [1, 0]])
    dense = np.array([[1, 0], [0, 2], [0, 4], [3, 0]])
    assert np.array_equal(np.asarray(evaluate(parse_module(text), [a, b, places]).result), a @ dense)


def test_block_scales_are_not_evaluated() -> None:
    with pytest.raises(HloError, match="operands with block scales"):
        evaluate(parse_module(text_of("dot with scales")))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("dimensions={}, mode=rotate, shifts={}", "expected at least one dimension"),
        ("dimensions={0,0}, mode=rotate, shifts={1,1}", "duplicate dimension 0 in dimensions"),
        ("dimensions={2}, mode=rotate, shifts={1}", "dimension 2 in dimensions is out of range"),
        ("dimensions={0}, mode=rotate, shifts={1,2}", "expected 1 number in shifts, found 2"),
    ],
)
def test_a_malformed_shuffle_has_no_shape(attributes: str, message: str) -> None:
    root = parse_module(f"r = f32[4,6] shuffle(f32[4,6] a), {attributes}").entry.root
    assert root is not None
    with pytest.raises(HloError, match=message):
        infer_shape(root)


# What XLA says


@pytest.mark.oracle
@needs_newer_xla
def test_xla_reads_what_is_printed_and_written() -> None:
    texts = [text_of(name) for name in FORMATS]
    assert ask_xla(texts, "module.to_string()") == texts
    printed = [str(parse_module(text)) for text in texts]
    assert ask_xla(printed, "module.to_string()") == texts
    hlo = pytest.importorskip("jaxlib._hlo")
    written = [module_to_bytes(parse_module(text)) for text in texts]
    assert [hlo.HloModule.from_serialized_hlo_module_proto(each).to_string() for each in written] == texts


@pytest.mark.oracle
@needs_newer_xla
def test_xla_counts_a_shuffle_as_data_movement() -> None:
    prelude = "import jax\nfrom jaxlib import _jax\nclient = jax.devices('cpu')[0].client"
    [cost] = ask_xla([SHUFFLE], "_jax.hlo_module_cost_analysis(client, module)", prelude=prelude)
    assert isinstance(cost, dict)
    assert (cost.get("flops", 0), cost["bytes accessed"]) == (0, 192)
