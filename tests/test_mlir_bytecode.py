"""MLIR bytecode read in Python: kernels in dumps, both forms of JAX's releases, and damaged bytes."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from typing import Any

import pytest

from dumps import FIXTURES
from hlo_cli.mlir.bytecode import Program, read_bytecode, read_locations
from hlo_cli.mlir.bytecode_table import BytecodeError, Decoder, Table
from hlo_cli.mlir.mlir_operations import Operation, generic_text
from hlo_cli.mlir.mlir_values import (
    DenseArray,
    DictionaryAttribute,
    ListAttribute,
    Unread,
    files_of,
)
from kernel_bodies import KEPT


def bodies() -> dict[str, bytes]:
    """The body of each kernel in the dumps, by the name of its instruction."""
    found = {}
    for chip in ("v5e", "v6e"):
        text = (FIXTURES / "tpu" / f"{chip}_kernels" / "after_optimizations.txt").read_text()
        for line in text.splitlines():
            if (match := re.search(r'%(\w+)[.\d]* = .*"body":"([^"]*)"', line)) is not None:
                found[f"{chip} {match[1]}"] = base64.b64decode(match[2])
    return found


def newest() -> dict[str, Any]:
    """What jax 0.12 makes of the same kernels."""
    kernels: dict[str, Any] = json.loads(gzip.decompress(KEPT.read_bytes()))["kernels"]
    return kernels


def kernel_of(program: Program) -> Operation:
    """The function that is the kernel."""
    return next(each for each in program.root.regions[0].operations if not each.symbol.startswith("transform_"))


def test_the_kernels_of_a_dump_are_read() -> None:
    read = {name: read_bytecode(body) for name, body in bodies().items()}
    assert sorted(read) == [
        f"{chip} {name}" for chip in ("v5e", "v6e") for name in "attention copied gather maps matmul".split()
    ]
    kernel = kernel_of(read["v6e matmul"])
    assert kernel.symbol == "matmul"
    bounds = kernel.attributes["iteration_bounds"]
    assert isinstance(bounds, DenseArray)
    assert bounds.values == (4, 3, 4)
    windows = kernel.attributes["window_params"]
    assert isinstance(windows, ListAttribute)
    blocks = [str(window.get("window_bounds")) for window in windows.items if isinstance(window, DictionaryAttribute)]
    assert blocks == ["array<i64: 256, 128>", "array<i64: 128, 512>", "array<i64: 256, 512>"]
    arguments = kernel.regions[0].arguments
    assert [str(each.type) for each in arguments[2:4]] == ["i32", "memref<256x128xbf16, #tpu.memory_space<vmem>>"]
    assert {place.file for place in files_of(kernel.regions[0].operations[-2].location)} == {"kernels.py"}


@pytest.mark.parametrize("name", ["attention", "copied", "gather", "matmul"])
def test_both_forms_of_jax_are_the_same_program(name: str) -> None:
    """jax 0.12 writes affine maps in binary and other operations here and there; the windows are the same."""
    old, new = read_bytecode(bodies()[f"v5e {name}"]), read_bytecode(base64.b64decode(newest()[name]["body"]))
    assert (old.producer, new.producer) == ("MLIR23.0.0git", "MLIR24.0.0git")
    assert not any(isinstance(value, Unread) for each in new.root.walk() for value in each.attributes.values())
    first, second = kernel_of(old), kernel_of(new)
    assert str(first.attributes.get("window_params")) == str(second.attributes.get("window_params"))
    assert [str(each.type) for each in first.regions[0].arguments] == [
        str(each.type) for each in second.regions[0].arguments
    ]


@pytest.mark.parametrize("name", ["attention", "copied", "gather", "matmul"])
def test_locations_of_their_own_are_those_of_the_operations(name: str) -> None:
    """With `jax_mosaic_unzip_debug_locations` off, jax 0.12 keeps them in the body: that tells which is whose."""
    kept = newest()[name]
    program = read_bytecode(base64.b64decode(kept["body"]))
    judge = read_bytecode(base64.b64decode(kept["body_with_locations"]))
    assert generic_text(program.root) == generic_text(judge.root)
    assert all(operation.location is None for operation in program.root.walk())
    read_locations(program, base64.b64decode(kept["debug_locations"]))
    assert generic_text(program.root, locations=True) == generic_text(judge.root, locations=True)
    assert "kernels.py" in generic_text(program.root, locations=True)


@pytest.mark.parametrize("name", ["attention", "copied", "gather", "matmul"])
def test_the_text_is_that_of_mlir(name: str) -> None:
    """Words apart: values are numbered otherwise, floats have other digits, and MLIR knows which are properties."""
    kept = newest()[name]
    ours = generic_text(read_bytecode(base64.b64decode(kept["body"])).root).splitlines()
    theirs = kept["printed"].splitlines()
    assert len(ours) == len(theirs)
    for mine, other in zip(ours[1:-1], theirs[1:-1], strict=True):
        assert plain(mine) == plain(other)


def plain(line: str) -> str:
    """A line without the numbers of values and the digits of floats."""
    line = re.sub(r"%\w+", "%", line)
    return re.sub(r"-?\d+\.\d+(?:[eE][+-]?\d+)?", lambda match: str(float(match[0])), line)


def test_locations_of_another_program_are_refused() -> None:
    kept = newest()
    program = read_bytecode(base64.b64decode(kept["matmul"]["body"]))
    with pytest.raises(BytecodeError, match=r"expected 74 locations, found \d+"):
        read_locations(program, base64.b64decode(kept["gather"]["debug_locations"]))
    with pytest.raises(BytecodeError, match=r"expected a list of locations in 'tpu.locs'"):
        read_locations(program, base64.b64decode(kept["gather"]["body"]))


# --- what cannot be read ---


def decoded(data: bytes, *, is_type: bool = False) -> object:
    """The attribute or type in these bytes, of a table with nothing else."""
    table = Table(data, 0)
    table.dialects.append("builtin")
    counts = b"\x01\x03" if is_type else b"\x03\x01"  # no attribute and a type, or an attribute and no type
    offsets = counts + bytes((1, 3, (len(data) << 1 | 1) << 1 | 1))  # of dialect 0, one entry, in binary
    table.read_offsets(Decoder(Table(offsets, 0), 0, len(offsets)), (0, len(data)))
    return table.type(0) if is_type else table.attribute(0)


def test_an_unknown_kind_costs_one_attribute() -> None:
    found = decoded(b"\xa1\x01")
    assert isinstance(found, Unread)
    assert str(found) == '#unread<"builtin", 0xA101>'


def test_bytes_that_are_left_over_make_an_attribute_unknown() -> None:
    """Another form of the same code, as a newer MLIR may write it."""
    assert isinstance(decoded(b"\x0f\x01"), Unread)  # a unit has no data


def test_attributes_that_contain_themselves_are_refused() -> None:
    with pytest.raises(BytecodeError, match="nested too deeply"):
        decoded(b"\x01\x03\x01")  # a list of the attribute 0, which it is


def test_types_that_contain_themselves_are_refused() -> None:
    with pytest.raises(BytecodeError, match="nested too deeply"):
        decoded(b"\x13\x01", is_type=True)  # a complex number of the type 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", r"expected b'ML\\xefR', found b'' \(MLIR bytecode, byte 0\)"),
        (
            lambda data: data[:40],
            r"expected \d+ bytes, found \d+ \(MLIR bytecode, version 0 by MLIR23.0.0git, byte \d+\)",
        ),
        (lambda data: data[:4] + b"\x11" + data[5:], "unknown version 8; the newest known version is 6"),
        (lambda data: data[:5] + b"x" * 99, "unterminated text"),
        (lambda data: data[:4] + b"\x01x\x00", r"section 0 is missing \(MLIR bytecode, version 0 by x, byte 7\)"),
    ],
)
def test_errors_have_their_place(change: Any, message: str) -> None:
    with pytest.raises(BytecodeError, match=message):
        read_bytecode(change(bodies()["v5e gather"]))


def test_counts_are_not_believed() -> None:
    """No memory is set aside for a number of things that the bytes have no room for."""
    data = bytearray(bodies()["v5e gather"])
    huge = b"\x00" + b"\xff" * 8
    for at in range(20, len(data)):
        try:
            generic_text(read_bytecode(bytes(data[:at] + huge + data[at + 1 :])).root)
        except BytecodeError:
            continue


def damaged(body: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changed, lost, or added."""
    data = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data))
        match chance.randrange(6):
            case 0 | 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2 | 3:
                data[at] = chance.randrange(256)
            case 4:
                del data[at : at + chance.randrange(1, 20)]
            case _:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
        if not data:
            break
    return bytes(data)


@pytest.mark.parametrize("count", [400, pytest.param(50_000, marks=pytest.mark.long)])
def test_damaged_bytes_are_read_or_refused(count: int) -> None:
    chance = random.Random(count)
    whole = list(bodies().values())
    refused = 0
    for _ in range(count):
        body = chance.choice(whole)
        try:
            text = generic_text(read_bytecode(damaged(body, chance)).root, locations=True)
        except BytecodeError:
            refused += 1
        else:
            assert len(text) < 100 * len(body)
    assert 0.2 * count < refused < count
