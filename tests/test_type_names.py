"""Element types by the names of frameworks: every command that reads a shape names XLA's own."""

from __future__ import annotations

from functools import partial

import pytest

from hlo_cli import cli
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.type_names import foreign_type, in_xla_types, xla_type
from timing import is_linear

NAMES = {
    "bfloat16": "bf16",
    "BF16": "bf16",
    "tf.bfloat16": "bf16",
    "DT_BFLOAT16": "bf16",
    "float16": "f16",
    "half": "f16",
    "torch.float16": "f16",
    "fp16": "f16",
    "float32": "f32",
    "np.float32": "f32",
    "FP32": "f32",
    "float": "f32",
    "float32_t": "f32",
    "double": "f64",
    "torch.double": "f64",
    "int32": "s32",
    "int": "s32",
    "i32": "s32",
    "si32": "s32",
    "jnp.int32": "s32",
    "long": "s64",
    "i64": "s64",
    "short": "s16",
    "int8": "s8",
    "torch.qint8": "s8",
    "int4": "s4",
    "i4": "s4",
    "jnp.int4": "s4",
    "uint8": "u8",
    "ui8": "u8",
    "byte": "u8",
    "uint4": "u4",
    "uint32": "u32",
    "ui64": "u64",
    "bool": "pred",
    "i1": "pred",
    "np.bool_": "pred",
    "complex64": "c64",
    "complex<f32>": "c64",
    "complex128": "c128",
    "fp8": "f8e4m3fn",
    "E4M3FN": "f8e4m3fn",
    "e5m2": "f8e5m2",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "torch.float8_e4m3fn": "f8e4m3fn",
    "torch.float8_e5m2fnuz": "f8e5m2fnuz",
    "jnp.float8_e4m3fn": "f8e4m3fn",
    "ml_dtypes.float8_e4m3b11fnuz": "f8e4m3b11fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float8_e3m4": "f8e3m4",
    "float8_e4m3": "f8e4m3",
    "f8E4M3FN": "f8e4m3fn",
    "f8E5M2": "f8e5m2",
    "f4E2M1FN": "f4e2m1fn",
    "float4_e2m1fn": "f4e2m1fn",
    "jax.numpy.float6_e3m2fn": "f6e3m2fn",
    "xla::F32": "f32",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_names(name: str, expected: str) -> None:
    assert xla_type(name) == expected
    if "<" not in name:
        assert in_xla_types(f"({name}[8,128]{{1,0}}, s32[])") == f"({expected}[8,128]{{1,0}}, s32[])"


@pytest.mark.parametrize(
    "name", [*PRIMITIVE_TYPES, "token", "opaque", "f33", "int3", "dump.txt", "key", "float8_e9m9", ""]
)
def test_other_words_are_no_type(name: str) -> None:
    assert xla_type(name) is None
    assert foreign_type(f"{name}[8]") is None


@pytest.mark.parametrize(
    ("mlir", "shape"),
    [
        ("tensor<8x128xbf16>", "bf16[8,128]"),
        ("tensor<f32>", "f32[]"),
        ("tensor<?x128xi1>", "pred[?,128]"),
        ("tensor<4xcomplex<f64>>", "c128[4]"),
        ("memref<8xf8E4M3FN, 1>", "f8e4m3fn[8]"),
        ("vector<8x128xui8>", "u8[8,128]"),
    ],
)
def test_types_of_mlir(mlir: str, shape: str) -> None:
    assert foreign_type(mlir) == (0, len(mlir), shape)
    assert in_xla_types(f"({mlir}, f32[])") == f"({shape}, f32[])"


@pytest.mark.parametrize(
    "arguments",
    [
        ["bfloat16[8,128]{1,0}"],
        ["layout", "bfloat16[8,128]{1,0}"],
        ["layout", "--draw", "bfloat16[8,128]{1,0}"],
        ["layout", "--for", "v5e", "bfloat16[8,128]{1,0}"],
        ["layout", "f32[8]", "bfloat16[8,128]{1,0}"],
        ["tile-index", "bfloat16[8,128]{1,0}", "3,5"],
        ["tile-index", "f32[8,128]", "bfloat16[8,128]{1,0}"],
    ],
    ids=" ".join,
)
def test_commands_name_the_shape(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments, standalone=False) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: unknown element type 'bfloat16'\n  bfloat16[8,128]{1,0}\n  ^^^^^^^^\n")
    assert err.endswith("  help: did you mean 'bf16[8,128]{1,0}'?\n")


def test_an_instruction_names_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["parse", "--explain", "a = float32[8] add(b, c)"], standalone=False) == 2
    assert "help: did you mean 'f32[8]'?" in capsys.readouterr().err


def test_a_type_in_a_string_is_none_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'a = f32[8] custom-call(), custom_call_target="f", backend_config="x float32[8]"'
    assert cli.main(["parse", "--explain", text], standalone=False) == 0


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("dtype == bfloat16", "bf16"),
        ("dtype in (f32, torch.float8_e5m2)", "f8e5m2"),
        ('shape == "int32[8]"', "s32[8]"),
    ],
)
def test_conditions_name_the_type(condition: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    from test_door import DUMP

    assert cli.main(["parse", str(DUMP), "--where", condition], standalone=False) == 2
    assert f"help: did you mean '{hint}'?" in capsys.readouterr().err


@pytest.mark.parametrize("condition", ["dtype ~ int", "dtype == 'f8*'", "dtype != bf16"])
def test_patterns_are_not_checked(condition: str) -> None:
    from test_door import DUMP

    assert cli.main(["parse", str(DUMP), "--where", condition], standalone=False) == 0


def test_an_unknown_type_gets_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["layout", "f33[8,128]"], standalone=False) == 0
    assert "unknown element type 'f33'; did you mean 'f32[8,128]'?" in capsys.readouterr().err
    assert cli.main(["tile-index", "f33[8,128]", "0,0"], standalone=False) == 2
    assert capsys.readouterr().err.endswith("help: did you mean 'f32[8,128]'?\n")


@pytest.mark.parametrize("part", ["a", "a.", "a[", "tensor<", "tensor<1x", "x" * 40 + "[", "torch.", "f32[8,", "8x"])
def test_hostile_texts_are_read_in_linear_time(part: str) -> None:
    assert is_linear(lambda size: partial(foreign_type, part * size), 10_000, 80_000)
