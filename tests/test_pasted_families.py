"""Are errors of JAX answered by their family, with what follows from their values, whatever their words?"""

from __future__ import annotations

import pytest

from hlo_cli.syntax.compiler_messages.compiler_errors import parse_compiler_errors
from hlo_cli.syntax.compiler_messages.message_index import indexed_message

# Raised by jax 0.10.2 for wrong calls.
RAISED = (
    ("ValueError: repeated axis in lax.expand_dims: (0, 0)", "repeated entry", "0 is there twice"),
    ("ValueError: Number of samples, -3, must be non-negative.", "negative or zero number", "-3 is negative"),
    (
        "ValueError: reduction axes (1,) contains out-of-bounds indices for float64[3].",
        "axis of an array",
        "an array of 1 dimension has the axis 0",
    ),
    (
        "TypeError: rev dimensions must all be less than operand ndim, got dimensions (2,) for operand ndim 1.",
        "axis of an array",
        "an array of 1 dimension has the axis 0",
    ),
    (
        "TypeError: logical reduction requires operand dtype bool or int, got float64.",
        "type of a number",
        "float64 is a floating-point number",
    ),
    (
        "ValueError: The first input to triangular_solve must be a square matrix. Got shape (3, 4).",
        "square matrix",
        "its last two dimensions are 3 and 4",
    ),
    (
        "TypeError: slice slice_sizes must be greater than or equal to zero, got slice_sizes of (np.int64(-1), np.int64(4)).",
        "negative or zero number",
        "-1 is negative",
    ),
    (
        "TypeError: differentiating with respect to argnums=2 requires at least 3 positional arguments to be passed by the caller, but got only 1 positional arguments.",
        "number of arguments",
        "3 is 2 more than 1",
    ),
    (
        "ValueError: solve() output shapes must match b, got [(4,)] and [(3,)]",
        "sizes that differ",
        "dimension 0 is 4 and 3",
    ),
)


@pytest.mark.parametrize(("text", "key", "consequence"), RAISED)
def test_a_message_is_of_a_family(text: str, key: str, consequence: str) -> None:
    [error] = parse_compiler_errors(text)
    assert error.rule is not None
    assert (error.rule.key, error.fields["consequence"]) == (key, consequence)


def test_values_are_found_in_lines_of_pytest_and_in_wrapped_ones() -> None:
    words = "rev dimensions must all be less than operand ndim, got dimensions (2,) for operand ndim 1."
    plain = indexed_message(words)
    assert plain is not None
    assert plain.holes == (("axis", "(2,)"), ("rank", "1"))
    assert indexed_message(words.replace(" must", "\nmust")) == plain
    assert indexed_message(f"E   {words}".replace(" got", "\nE   got")) == plain


@pytest.mark.parametrize(
    "text",
    [
        "the dimensions of the operand are less than its rank, got it",
        "all axes must be in the same order",
        "ValueError: hidden_size (4096) is not divisible by num_heads (30)",
        'let x = v.get(3).expect("index out of bounds");',
        "",
    ],
)
def test_other_texts_are_of_no_family(text: str) -> None:
    assert not any(error.fields.get("what") for error in parse_compiler_errors(text))
