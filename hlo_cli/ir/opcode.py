"""Opcodes: every operation XLA has, how many operands it takes, and which ones call computations.

Mirrors xla/hlo/ir/hlo_opcode.h. An opcode is the string that XLA prints; unknown ones are kept as they are.
"""

from __future__ import annotations

from typing import Final

_BY_ARITY: Final = {
    0: "constant iota parameter partition-id replica-id rng-get-and-update-state",
    1: """abs acos acosh all-gather-done all-reduce-done asin asinh async-done atanh bitcast bitcast-convert broadcast
        cbrt ceil cholesky collective-permute-done convert copy copy-done copy-start cosine cosh count-leading-zeros
        domain erf exponential exponential-minus-one fft floor get-dimension-size get-tuple-element imag infeed
        is-finite log log-plus-one logistic negate not opt-barrier popcnt real recv recv-done reduce-precision reshape
        reverse round-nearest-afz round-nearest-even rsqrt send-done sign sine sinh slice sqrt tan tanh topk transpose
        while""",
    2: """add add-dependency and atan2 compare complex divide dot gather maximum minimum mulhi multiply or outfeed pad
        power remainder send set-dimension-size shift-left shift-right-arithmetic shift-right-logical
        stochastic-convert subtract triangular-solve xor""",
    3: "batch-norm-training clamp ragged-dot select select-and-scatter",
    4: "scaled-dot",
    5: "batch-norm-grad batch-norm-inference",
    6: "ragged-all-to-all",
    None: """after-all all-gather all-gather-start all-reduce all-reduce-start all-to-all async-start async-update call
        collective-broadcast collective-permute collective-permute-start concatenate conditional convolution
        custom-call dynamic-reshape dynamic-slice dynamic-update-slice fusion map reduce reduce-scatter reduce-window
        rng rng-bit-generator scan scatter sort tuple""",
}

OPCODE_ARITY: Final[dict[str, int | None]] = {
    opcode: arity for arity, opcodes in _BY_ARITY.items() for opcode in opcodes.split()
}
"""Every opcode with its number of operands; None where any number may be given."""

ANY: Final = 1 << 30
"""As many as there are."""
OPERAND_COUNTS: Final[dict[str, tuple[int, int]]] = {
    **{opcode: (0, ANY) if arity is None else (arity, arity) for opcode, arity in OPCODE_ARITY.items()},
    **dict.fromkeys(
        """all-gather all-gather-start all-reduce all-reduce-start all-to-all async-done async-update
        collective-broadcast collective-permute collective-permute-start concatenate dynamic-reshape dynamic-slice map
        ragged-all-to-all reduce-scatter rng-bit-generator sort""".split(),
        (1, ANY),
    ),
    **dict.fromkeys("conditional convolution dot dynamic-update-slice reduce reduce-window".split(), (2, ANY)),
    "scatter": (3, ANY),
}
"""The least and the largest number of operands. Old dumps have dots with more, new ones async-dones with several."""
EXACT_COUNTS: Final = {opcode: least for opcode, (least, most) in OPERAND_COUNTS.items() if least == most}
"""The number of operands of opcodes that always take as many."""

CALLING_ATTRIBUTES: Final = (
    "calls",
    "to_apply",
    "body",
    "condition",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
    "select",
    "scatter",
)
"""The attributes that name computations, in the order in which XLA lists called computations."""

OPAQUE: Final = "?"
"""Ends the opcode of an instruction that does not hold together; no opcode of XLA has it."""

_NATIVE_ASYNC: Final = ("all-gather", "all-reduce", "collective-permute", "copy", "send", "recv")


def wrapped_opcode(opcode: str) -> str | None:
    """The operation that a sugared asynchronous opcode wraps, or None for any other opcode.

    >>> wrapped_opcode("slice-start"), wrapped_opcode("copy-start"), wrapped_opcode("async-start")
    ('slice', None, None)
    """
    for suffix in ("-start", "-update", "-done"):
        wrapped = opcode.removesuffix(suffix)
        if wrapped != opcode and opcode not in OPCODE_ARITY:
            return wrapped if wrapped in OPCODE_ARITY and wrapped not in _NATIVE_ASYNC else None
    return None


def is_known(opcode: str) -> bool:
    """Whether XLA has this opcode, sugared asynchronous ones included.

    >>> is_known("add"), is_known("frob"), is_known("all-to-all-start")
    (True, False, True)
    """
    return opcode in OPCODE_ARITY or wrapped_opcode(opcode) is not None


def takes(opcode: str, count: int) -> bool:
    """Whether an operation may have so many operands.

    >>> takes("add", 2), takes("add", 1), takes("frob", 7)
    (True, False, True)
    """
    least, most = OPERAND_COUNTS.get(opcode, (0, ANY))
    return least <= count <= most
