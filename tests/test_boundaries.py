"""Rules and analyses at their bounds: what is just enough, and what is one less, or one more."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest

from hlo_cli import HloError, memory_analysis, parse_module, parse_shape
from hlo_cli.analysis.memory.peak_reduction import _lowered
from hlo_cli.analysis.shapes.inference import infer_shape
from hlo_cli.inputs.input import read_inputs
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings


def codes(text: str, **settings: int) -> set[str]:
    """The rules that have something to say of the cost of a module."""
    chosen = LintSettings(select=("HLO1", "HLO2", "HLO3", "HLO4"), **settings)  # type: ignore[arg-type]
    return {found.rule.code for found in lint_module(parse_module(text), chosen)}


@pytest.mark.parametrize(("inner", "is_found"), [("f32", True), ("f16", False), ("f8e5m2", False)])
def test_only_what_is_converted_to_more_bits_and_back_is_needless(inner: str, is_found: bool) -> None:
    """Between types of as many bits a conversion loses something, so that it is not one for nothing."""
    text = f"""HloModule m
    ENTRY e {{ x = bf16[512,512] parameter(0)  a = {inner}[512,512] convert(x)
      b = {inner}[512,512] transpose(a), dimensions={{1,0}}  ROOT c = bf16[512,512] convert(b) }}"""
    assert ("HLO303" in codes(text)) == is_found


COPIED = "c = f32[512,512]{{0,1}} copy({0})"


def test_a_copy_inside_of_a_kernel_is_no_pass_over_memory() -> None:
    alone = "ENTRY e { p = f32[512,512]{1,0} parameter(0)  ROOT " + COPIED.format("p") + " }"
    assert "HLO102" in codes(f"HloModule m  {alone}")
    body = "f { a = f32[512,512]{1,0} parameter(0)  ROOT " + COPIED.format("a") + " }"
    entry = "ENTRY e { p = f32[512,512]{1,0} parameter(0)"
    fusion = "ROOT k = f32[512,512]{0,1} fusion(p), kind=kLoop, calls=f }"
    assert "HLO102" not in codes(f"HloModule m  {body}  {entry}  {fusion}")
    call = "ROOT k = f32[512,512]{0,1} call(p), to_apply=f }"
    assert "HLO102" in codes(f"HloModule m  {body}  {entry}  {call}")


def waited_for(operation: str, between: str) -> str:
    """A module that starts an operation on 4,096 bytes and waits for it, with or without something between."""
    shape = "f32[1024]{0}"
    start = {
        "copy": f"({shape}, {shape}, u32[]) copy-start(x)",
        "all-reduce": f"{shape} all-reduce-start(x), replica_groups={{}}, to_apply=add",
    }[operation]
    return f"""HloModule m, is_scheduled=true
    add {{ i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }}
    ENTRY e {{ x = {shape} parameter(0)  s = {start}  {between}  ROOT d = {shape} {operation}-done(s) }}"""


@pytest.mark.parametrize(("code", "between"), [("HLO402", ""), ("HLO401", "t = (f32[1024]{0}) tuple(x)")])
def test_a_transfer_is_told_of_from_its_bound_on(code: str, between: str) -> None:
    """Between devices that is transfer_bytes; within one the larger of that and prefetch_bytes."""
    reduced, copied = waited_for("all-reduce", between), waited_for("copy", between)
    assert code in codes(reduced, transfer_bytes=4096, prefetch_bytes=2**40)
    assert code not in codes(reduced, transfer_bytes=4097, prefetch_bytes=1)
    assert code in codes(copied, transfer_bytes=4096, prefetch_bytes=4096)
    assert code not in codes(copied, transfer_bytes=4096, prefetch_bytes=4097)
    assert code not in codes(copied, transfer_bytes=4097, prefetch_bytes=4096)


@pytest.mark.parametrize(
    ("given", "taken", "made", "groups", "message"),
    [
        (4, 2, 6, 2, None),
        (5, 2, 6, 2, "5 features of the input do not divide"),
        (4, 2, 5, 2, "5 features of the kernel do not divide"),
        (4, 1, 6, 2, "expected 2 input features in the kernel, found 1"),
        (4, 4, 6, 0, "group counts of at least 1"),
    ],
)
def test_groups_of_features_divide_them(given: int, taken: int, made: int, groups: int, message: str | None) -> None:
    """As `InferConvolveShape` of xla/service/shape_inference.cc asks."""
    shapes = f"f32[1,9,{given}] x, f32[3,{taken},{made}] k"
    says = f"window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f, feature_group_count={groups}"
    root = parse_module(f"r = f32[1,9,{made}] convolution({shapes}), {says}").entry.root
    assert root is not None
    if message is None:
        assert str(infer_shape(root)).startswith(f"f32[1,9,{made}]")
        return
    with pytest.raises(HloError, match=message):
        infer_shape(root)


def test_a_buffer_of_two_values_that_live_together_is_made_smaller_once() -> None:
    """What is updated in place lives until the update, which lives from then on: one buffer at that step."""
    space = memory_analysis(parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")).spaces[0]
    value = space.values[0]
    overlapping = [replace(value, start=2, end=5), replace(value, start=0, end=3)]
    assert list(_lowered([10] * 7, overlapping, 4)) == [6] * 6 + [10]
    apart = [replace(value, start=0, end=1), replace(value, start=3, end=3), replace(value, start=3, end=3)]
    assert list(_lowered([10] * 5, apart, 4)) == [6, 6, 10, 6, 10]


@pytest.mark.parametrize(("size", "is_fine"), [(2**63 - 1, True), (2**63, False), (2**64, False)])
def test_an_array_holds_less_than_2_to_the_63(size: int, is_fine: bool) -> None:
    for text in (f"s8[{size}]", f"pred[1,{size}]"):
        try:
            problem = parse_shape(text).problem  # type: ignore[union-attr]
        except HloError:
            problem = "not read"
        assert (problem is None) == is_fine
    halves = parse_shape(f"s8[{2**31},{2**32 - 1 if is_fine else 2**32}]")
    assert (halves.problem is None) == is_fine  # type: ignore[union-attr]


def test_the_size_of_a_tile_is_less_than_2_to_the_63() -> None:
    assert str(parse_shape(f"f32[4]{{0:T({2**63 - 1})}}")).endswith(f"T({2**63 - 1})}}")
    with pytest.raises(HloError, match="is no size of a dimension"):
        parse_shape(f"f32[4]{{0:T({2**63})}}")


def test_standard_input_has_no_stage() -> None:
    """Its name does not tell any, so none can be chosen."""
    text = b"HloModule jit_f\n\nENTRY e {\n}\n"
    assert len(read_inputs(["-"], stdin=BytesIO(text))) == 1
    for arguments in (["-"], []):
        with pytest.raises(HloError, match="there is no stage after_optimizations in <stdin>"):
            read_inputs(arguments, stage="after_optimizations", stdin=BytesIO(text))


def test_a_small_value_beside_a_large_one_is_not_told_of() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[16]{0} parameter(0)  a = f32[16]{0} negate(p)  b = f32[64,16]{1,0} broadcast(a), dimensions={1}
      c = f32[64,16]{1,0} negate(b)  ROOT r = f32[16]{0} custom-call(c), custom_call_target="f" }"""
    chosen = LintSettings(select=("HLO202",), value_bytes=4096)
    told = [found.finding.message for found in lint_module(parse_module(text), chosen)]
    assert told
    assert not [message for message in told if message.startswith("a ")]


@pytest.mark.parametrize(
    ("target", "to", "is_found"),
    [("", "bf16", True), ("", "f32", False), ("cpu", "bf16", False)],
)
def test_what_is_stored_wide_and_read_narrow(target: str, to: str, is_found: bool) -> None:
    """On a CPU bf16 goes by way of f32; and what is the result of the program is as wide as it says."""
    config, tiles = ', custom_call_target="f"', "" if target == "cpu" else ":T(8,128)"
    text = f"""HloModule m, is_scheduled=true
    f {{ a = f32[512,512]{{1,0LAYOUT}} parameter(0)  ROOT b = f32[512,512]{{1,0LAYOUT}} negate(a) }}
    ENTRY e {{ p = f32[512,512]{{1,0LAYOUT}} parameter(0)  k = f32[512,512]{{1,0LAYOUT}} fusion(p), kind=kLoop, calls=f
      c = {to}[512,512]{{1,0}} convert(k)  ROOT r = {to}[512,512]{{1,0}} custom-call(c){config} }}""".replace(
        "LAYOUT", tiles
    )
    assert ("HLO304" in codes(text, kernel_bytes=1)) == is_found
    root = text.replace("c = ", "ROOT c = ").split("ROOT r")[0].replace("ROOT c", "c").replace("k = ", "ROOT k = ")
    assert "HLO304" not in codes(root + "}", kernel_bytes=1)


def test_a_buffer_may_be_made_of_nothing() -> None:
    text = """HloModule m  ENTRY e { b = b(f32[4]{0}) custom-call(), custom_call_target="CreateBuffer"
      ROOT a = f32[4]{0} custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})} }"""
    told = [found.finding.message for found in lint_module(parse_module(text), LintSettings(select=("HLO0",)))]
    assert not [message for message in told if "CreateBuffer" in message]
