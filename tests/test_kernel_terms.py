"""Terms of their own in the time model: convolutions by kind, attention, kernels of loops, and operations of TPUs."""

from __future__ import annotations

import pytest

from hlo_cli import chip_spec, parse_module
from hlo_cli.analysis.cost.matmuls import convolution_kind, matmul_of
from hlo_cli.analysis.hardware.measured_times import matmul_time
from hlo_cli.analysis.hardware.time_model import (
    CONVOLUTION_FACTORS,
    LAUNCH_SECONDS,
    LOOP_LAUNCH_SECONDS,
    TPU_FLOOR_SECONDS,
    TPU_VMEM_RATE,
    Estimate,
)
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import predicted_times
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.transform.module_time import module_time

IMAGE, KERNEL = "f32[32,56,56,64]{3,2,1,0}", "f32[3,3,64,64]{3,2,1,0}"
PAD = "size=3x3 pad=1_1x1_1"
CONVOLUTIONS = {
    "forward": (IMAGE, IMAGE, KERNEL, f"window={{{PAD}}}, dim_labels=b01f_01io->b01f"),
    "backward data": (IMAGE, IMAGE, KERNEL, f"window={{{PAD} rhs_reversal=1x1}}, dim_labels=b01f_01oi->b01f"),
    "backward filter": (KERNEL, IMAGE, IMAGE, "window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"),
    "grouped": (
        IMAGE,
        IMAGE,
        "f32[3,3,8,64]{3,2,1,0}",
        f"window={{{PAD}}}, dim_labels=b01f_01io->b01f, feature_group_count=8",
    ),
    "depthwise": (
        IMAGE,
        IMAGE,
        "f32[3,3,1,64]{3,2,1,0}",
        f"window={{{PAD}}}, dim_labels=b01f_01io->b01f, feature_group_count=64",
    ),
}


def time_of(text: str, chip: str) -> Estimate:
    root = parse_module(text).entry.root
    assert root is not None
    return predicted_times([root], chip_spec(chip))[root]


def text_of(kind: str) -> str:
    result, lhs, rhs, attributes = CONVOLUTIONS[kind]
    return f"r = {result} convolution({lhs} a, {rhs} k), {attributes}"


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_kinds_of_convolutions(kind: str) -> None:
    root = parse_module(text_of(kind)).entry.root
    assert root is not None
    matmul = matmul_of(root)
    assert matmul is not None
    assert convolution_kind(matmul) == kind


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("dim_labels=b0f_0io->b0f, window={size=1}", "forward"),
        ("dim_labels=b0f_0io->b0f, window={size=1 lhs_dilate=2 pad=0_1}", "backward data"),
        ("dim_labels=f0b_i0o->0bf, window={size=16}, batch_group_count=4", "depthwise"),
    ],
)
def test_other_forms(more: str, kind: str) -> None:
    sides = "f32[8,16,4] a, f32[8,16,4] k" if "batch_group" in more else "f32[8,16,4] a, f32[1,4,4] k"
    result = "f32[1,1,4]" if "batch_group" in more else "f32[8,16,4]"
    root = parse_module(f"r = {result} convolution({sides}), {more}").entry.root
    assert root is not None
    matmul = matmul_of(root)
    assert matmul is not None
    assert convolution_kind(matmul) == kind


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_convolution_has_the_factor_of_its_kind_where_one_was_measured(kind: str) -> None:
    amd, nvidia = (time_of(text_of(kind), chip) for chip in ("mi350x", "h100"))
    assert amd.sources == nvidia.sources == {"convolution"}
    assert amd.high / amd.low > 2, "not the range of a measured matmul"
    assert nvidia.high / nvidia.seconds == pytest.approx(3.2)
    factor, (low, high) = CONVOLUTION_FACTORS[kind]
    assert low * factor < factor < high * factor
    if kind == "forward":
        alone = matmul_time(
            (1, 32 * 56 * 56, 64, 576), "tf32", chip_spec("mi350x"), types="f32xf32->f32", moved_bytes=1
        )
        assert alone is not None
        assert amd.seconds >= 1.69 * alone.seconds


def test_training_takes_longer_than_inference() -> None:
    times = {kind: time_of(text_of(kind), "mi350x").seconds for kind in ("forward", "backward data")}
    assert 1.8 < times["backward data"] / times["forward"] < 2


def test_attention_of_a_library_has_its_matmuls() -> None:
    shape = "bf16[8,2048,16,128]"
    scores = '"intermediate_tensor_shape":{"element_type":"BF16","dimensions":["8","16","2048","2048"]}'
    config = f'{{"cudnn_fmha_backend_config":{{{scores}}}}}'
    call = f'custom-call({shape} q, {shape} k, {shape} v), custom_call_target="__cudnn$fmhaSoftmax{{}}"'
    forward, backward = (
        time_of(f"r = {shape} {call.format(more)}, backend_config={config}", "h100") for more in ("", "Backward")
    )
    flops = 2 * 8 * 16 * 2048 * 2048 * 128
    assert forward.seconds > 2 * flops / 989.4e12
    assert forward.seconds < 6 * flops / 989.4e12
    assert backward.seconds == pytest.approx(2.5 * forward.seconds, rel=0.05)


def test_kernels_of_a_long_loop_launch_faster() -> None:
    text = """HloModule m, is_scheduled=true
    c { p = (s32[], f32[9]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(500)
      ROOT l = pred[] compare(i, n), direction=LT }
    b { p = (s32[], f32[9]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      x = f32[9] get-tuple-element(p), index=1  y = f32[9] sine(x)  ROOT t = (s32[], f32[9]) tuple(i, y) }
    ENTRY e { a = (s32[], f32[9]) parameter(0)
      ROOT w = (s32[], f32[9]) while(a), condition=c, body=b, backend_config={"known_trip_count":{"n":"%d"}} }"""
    few, many = (estimate_time(analyze_overlap(parse_module(text % trips)), chip_spec("h100")) for trips in (10, 500))
    assert few.seconds / 10 >= LAUNCH_SECONDS
    assert LOOP_LAUNCH_SECONDS <= many.seconds / 500 < LAUNCH_SECONDS


def test_an_operation_of_a_tpu_takes_a_microsecond() -> None:
    small = time_of("r = f32[9] sine(f32[9] a)", "v5p")
    assert small.seconds == TPU_FLOOR_SECONDS
    assert small.low < 1e-9, "the bound of the roofline stays"


def test_what_is_in_vmem_is_no_traffic_of_hbm() -> None:
    """Only the bytes in HBM take its rate, but the band still ends where all of them would."""
    array = "f32[4096,1024]{1,0:T(8,128)%s}"
    texts = [f"r = {array % write} negate({array % read} a)" for read in ("", "S(1)") for write in ("", "S(1)")]
    hbm, written, read, vmem = (time_of(text, "v5e") for text in texts)
    size = 4096 * 1024 * 4
    assert hbm.seconds == pytest.approx(2 * size / 819e9)
    assert written.seconds == read.seconds == pytest.approx((1 + 1 / TPU_VMEM_RATE) * size / 819e9)
    assert vmem.seconds == pytest.approx(max(2 * size / 819e9 / TPU_VMEM_RATE, TPU_FLOOR_SECONDS))
    assert vmem.high == pytest.approx(hbm.high)
    # on a GPU, S(1) is main memory that other GPUs can access
    on_gpu = [time_of(text, "h100").seconds for text in texts]
    assert on_gpu == [on_gpu[0]] * 4


def test_a_slice_update_on_a_tpu_touches_whole_tiles() -> None:
    layout = "{1,0:T(8,128)}"
    text = (
        f"r = f32[8192,4096]{layout} dynamic-update-slice(f32[8192,4096]{layout} a, UPDATE{layout} u, s32[] i, s32[] j)"
    )
    column, block = (time_of(text.replace("UPDATE", f"f32[8192,{width}]"), "v5p") for width in (1, 128))
    assert column.seconds == pytest.approx(2.1 * 2 * 8192 * 128 * 4 / (2.765e12 / 2))
    assert block.seconds < column.seconds / 3, "whole tiles are written once, and not read"


def test_slice_updates_take_what_three_took_on_v5p() -> None:
    """391, 345, and 345 µs, by the profiler: rows of f32[16,7168,512], of which one of the 8 rows of a tile is written."""
    whole, update = "f32[16,7168,512]{2,0,1:T(8,128)}", "f32[1,7168,512]{2,0,1:T(1,128)}"
    found = time_of(f"r = {whole} dynamic-update-slice({whole} a, {update} u, s32[] i, s32[] j, s32[] k)", "v5p")
    for measured in (390.7e-6, 344.8e-6, 344.7e-6):
        assert found.low <= measured <= found.high
        assert found.seconds == pytest.approx(measured, rel=0.15)


def test_gpu_modules_are_fused_by_the_passes_of_their_compiler() -> None:
    """A value with two users is computed in both by XLA:GPU where that is faster, and two results share a kernel."""
    text = """HloModule m  ENTRY e { p = f32[4096,4096] parameter(0)  n = f32[4096,4096] negate(p)
      s = f32[4096,4096] sine(n)  t = f32[4096,4096] tanh(n)  c = f32[4096,4096] cosine(p)
      ROOT r = (f32[4096,4096], f32[4096,4096], f32[4096,4096]) tuple(s, t, c) }"""
    module = parse_module(text)
    gpu, tpu = (module_time(module, chip_spec(chip), is_optimized=False) for chip in ("h100", "v5e"))
    assert gpu.is_fused
    assert gpu.kernels == 1
    assert tpu.kernels >= gpu.kernels
