"""Arrays as bytes in memory: read and written in tiled layouts, as numpy pads, reshapes, and transposes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_cli import cli, parse_shape
from hlo_cli.analysis.semantics.rearranging import array_in_memory, bytes_in_memory
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

BF16 = "bf16[300,200]{1,0:T(8,128)(2,1)}"


def shape_of(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The bits of floats that are bfloat16 values."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def tiled(bits: np.ndarray) -> bytes:
    """A matrix in tiles of (8,128), and in them pairs of rows next to each other."""
    rows, columns = (-size % tile for size, tile in zip(bits.shape, (8, 128), strict=True))
    padded = np.pad(bits, ((0, rows), (0, columns)))
    high, wide = padded.shape[0] // 8, padded.shape[1] // 128
    return padded.reshape(high, 4, 2, wide, 128).transpose(0, 3, 1, 4, 2).tobytes()


def test_bf16_in_tiles_is_what_numpy_makes() -> None:
    values = np.round(np.random.default_rng(1).standard_normal((300, 200)) * 64).astype(np.float32)
    data = bytes_in_memory(values, shape_of(BF16))
    assert data == tiled(bfloat16_bits(values))
    assert np.array_equal(array_in_memory(data, shape_of(BF16)), values)


@pytest.mark.parametrize(
    "text",
    [
        "f32[3,5]{1,0:T(2,2)}", "f32[3,5]{0,1}", "s8[5,7]{1,0:T(8,128)(4,1)}", "c64[3]{0:T(4)}", "c128[2,2]{0,1}",
        "pred[5,3]{0,1:T(4,128)}", "s4[5,9]{1,0:T(8,128)(8,1)E(4)}", "u2[7]{0:E(2)}", "f8e4m3fn[9]{0}", "f64[]",
        "f16[0,3]{1,0}", "u64[3,2]{0,1}", "f4e2m1fn[5]{0:E(4)}", "f32[3]{0:T(4)L(6)}",
    ],
)  # fmt: skip
def test_what_is_written_is_read_back(text: str) -> None:
    shape = shape_of(text)
    values = np.random.default_rng(2).integers(0, 2, shape.dimensions)
    data = bytes_in_memory(values, shape)
    assert len(data) == shape.padded_bytes
    assert np.array_equal(array_in_memory(data, shape), values)
    assert bytes_in_memory(array_in_memory(data, shape), shape) == data


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [("f32[3]", 11, "takes 12 bytes, found 11"), ("f32[<=3]", 16, "dynamic"), ("s8[3]{0:E(3)}", 2, "3 bits")],
)
def test_other_bytes_are_errors(text: str, size: int, words: str) -> None:
    with pytest.raises(HloError, match=words):
        array_in_memory(bytes(size), shape_of(text))


def test_a_program_reads_and_writes_bytes_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = "bf16[300,200]{0,1}"
    text = f"ENTRY e {{\n x = {BF16} parameter(0)\n ROOT r = {other} negate(x)\n}}\n"
    (tmp_path / "m.txt").write_text(f"HloModule m\n{text}")
    values = np.arange(60000, dtype=np.float32).reshape(300, 200) % 251
    (tmp_path / "x.bin").write_bytes(tiled(bfloat16_bits(values)))

    def run(*words: str) -> int:
        return cli.main(["run", str(tmp_path / "m.txt"), *words, "-q"], standalone=False)

    out = tmp_path / "y.bin"
    assert run("--args", f"raw:{tmp_path / 'x.bin'}@{BF16}", "--save-raw", str(out)) == 0
    expected = bfloat16_bits(-values)
    assert out.read_bytes() == expected.T.tobytes()
    assert run("--args", f"raw:{tmp_path / 'x.bin'}", "--at", "r", "--save-raw", str(out)) == 0
    assert out.read_bytes() == expected.T.tobytes()
    capsys.readouterr()
    assert run("--args", f"raw:{tmp_path / 'x.bin'}@f32[300,200]") == 2
    assert "has elements of f32" in capsys.readouterr().err
