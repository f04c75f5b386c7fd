"""Factorizations of TPU programs: blocks multiply to what they were made of, and match what is made around them."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import evaluate, refusals

RANDOM = np.random.default_rng(0)


def called(target: str, result: str, *given: np.ndarray) -> tuple[np.ndarray, ...]:
    names = {"float32": "f32", "complex64": "c64"}
    operands = ", ".join(
        f"{names[str(each.dtype)]}[{','.join(map(str, each.shape))}] a{at}" for at, each in enumerate(given)
    )
    module = parse_module(f'r = {result} custom-call({operands}), custom_call_target="{target}"')
    found = evaluate(module, given).result
    return tuple(np.asarray(each) for each in (found if isinstance(found, tuple) else (found,)))


def a_matrix(*sizes: int) -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def test_cholesky_multiplies_to_the_matrix() -> None:
    x = a_matrix(2, 4, 4)
    square = x @ np.swapaxes(x, 1, 2) + 4 * np.eye(4, dtype=np.float32)
    [factor] = called("Cholesky", "f32[2,4,4]", square)
    assert factor @ np.swapaxes(factor, 1, 2) == pytest.approx(square, abs=1e-4)
    assert np.array_equal(factor, np.tril(factor))


def test_complex_cholesky_has_its_parts_apart() -> None:
    x = a_matrix(3, 3) + 1j * a_matrix(3, 3)
    square = x @ x.conj().T + 3 * np.eye(3)
    parts = called(
        "Cholesky", "(f32[3,3], f32[3,3])", *(part.astype(np.float32) for part in (square.real, square.imag))
    )
    factor = parts[0] + 1j * parts[1]
    assert factor @ factor.conj().T == pytest.approx(square, abs=1e-4)


@pytest.mark.parametrize("side", ["Lower", "Upper"])
def test_inverted_blocks_read_one_triangle(side: str) -> None:
    x = a_matrix(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)
    [inverse] = called(f"InvertDiagBlocks{side}Triangular", "f32[2,3,3]", x)
    triangle = np.tril(x) if side == "Lower" else np.triu(x)
    assert inverse @ triangle == pytest.approx(np.broadcast_to(np.eye(3), (2, 3, 3)), abs=1e-5)


def test_compact_reflectors_make_the_orthogonal_matrix() -> None:
    """`I + V T V^T` of QR's reflectors is orthogonal, and takes R to the matrix: what the QR expander makes of them."""
    x = a_matrix(5, 3)
    packed, factors = called("QrDecompositionBlock", "(f32[5,3], f32[3])", x)
    vectors = np.tril(packed, -1) + np.eye(5, 3, dtype=np.float32)
    given = (np.triu(vectors.T @ vectors, 1) + np.eye(3, dtype=np.float32)) * -factors
    [compact] = called("CompactWyHelper", "f32[3,3]", given.astype(np.float32))
    orthogonal = np.eye(5) + vectors @ compact @ vectors.T
    assert orthogonal.T @ orthogonal == pytest.approx(np.eye(5), abs=1e-5)
    assert orthogonal[:, :3] @ np.triu(packed[:3]) == pytest.approx(x, abs=1e-5)


def test_block_of_lu_is_that_of_the_whole() -> None:
    x = a_matrix(5, 3)
    shapes = "(f32[5,3], s32[3], s32[5])"
    block, whole = (called(target, shapes, x) for target in ("LuRealDecompositionBlock", "LuDecomposition"))
    assert all(np.array_equal(a, b) for a, b in zip(block, whole, strict=True))
    imaginary = called("LuComplexDecompositionBlock", "(f32[5,3], f32[5,3], s32[3], s32[5])", x, np.zeros_like(x))
    assert all(np.array_equal(a, b) for a, b in zip((imaginary[0], *imaginary[2:]), block, strict=True))


@pytest.mark.parametrize("size", [4, 5])
def test_eigenvectors_of_quadrants_are_those_of_the_whole(size: int) -> None:
    """A matrix of odd size has zeros after it; its own eigenvectors come first."""
    x = a_matrix(size, size)
    whole = x + x.T
    vectors, values = called("Eigh", f"(f32[{size},{size}], f32[{size}])", whole)
    assert vectors * values @ vectors.T == pytest.approx(whole, abs=1e-5)
    half = (size + 1) // 2
    padded = np.pad(whole, (0, 2 * half - size))
    quadrants = [padded[a : a + half, b : b + half] for a in (0, half) for b in (0, half)]
    block = f"f32[{half},{half}]"
    found = called("EighTpu", f"(f32[{half}], f32[{half}], {', '.join([block] * 4)})", *quadrants)
    assert np.concatenate(found[:2])[:size] == pytest.approx(values, abs=1e-5)
    rows = np.block([list(found[2:4]), list(found[4:])])
    assert pytest.approx(vectors, abs=1e-5) == rows[:size, :size].T


def test_complex_eigenvectors_are_refused() -> None:
    """Their factors depend on the method."""
    module = parse_module('r = (c64[2,2], f32[2]) custom-call(c64[2,2] a), custom_call_target="Eigh"')
    [(_, reason)] = refusals(module)
    assert "Eigh" in reason


def cropped(old: str, new: str) -> str:
    return f'r = {new} custom-call({old} a), custom_call_target="ZeroCrop"'


def test_padding_that_becomes_elements_is_zero() -> None:
    text = cropped("u8[3]{0:T(8)}", "u8[8]{0:T(8)}")
    found = evaluate(parse_module(text), [np.array([7, 8, 9], np.uint8)]).result
    assert np.asarray(found).tolist() == [7, 8, 9, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("new", ["u8[9]{0:T(8)}", "u8[8]{0:T(4)}", "s8[8]{0:T(8)}", "u8[2,4]{1,0:T(8)}"])
def test_elements_that_move_in_memory_are_refused(new: str) -> None:
    assert refusals(parse_module(cropped("u8[3]{0:T(8)}", new)))
