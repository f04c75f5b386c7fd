"""The grammars of attribute values that XLA's operations share with nothing else: windows, slices, paddings, words.

Mirrors the functions of the same names in xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.syntax.scanner import beyond_64_bits, int64
from hlo_cli.syntax.strict import tokens as tk
from hlo_cli.syntax.strict.tokens import Tokens
from hlo_cli.syntax.strict.values import (
    fields,
    one_of,
    read_int,
    read_list,
    read_number,
    read_shape_index,
)

_WINDOW_FIELDS: Final = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
ALGORITHM: Final = one_of(
    """unset dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16 dot_f16_f16_f32 dot_bf16_bf16_bf16
    dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_bf16_bf16_f32_x9 dot_tf32_tf32_f32
    dot_tf32_tf32_f32_x3 dot_f32_f32_f32 dot_f64_f64_f64""",
    any_case=True,
)
API_VERSION: Final = one_of(
    """api_version_original api_version_status_returning api_version_status_returning_unified api_version_typed_ffi""",
    any_case=True,
)
CONVOLUTION_KIND: Final = one_of("fprop wgrad dgrad unset")
DIRECTION: Final = one_of("EQ NE GE GT LE LT")
DISTRIBUTION: Final = one_of("rng_invalid rng_uniform rng_normal", any_case=True)
FFT_TYPE: Final = one_of("FFT IFFT RFFT IRFFT")
FUSION_KIND: Final = one_of("kLoop kInput kOutput kCustom")
GROUP_MODE: Final = one_of("cross_replica cross_partition cross_replica_and_partition flattened_id")
ORDER: Final = one_of("TOTAL PARTIAL")
PADDING_TYPE: Final = one_of("PADDING_INVALID PADDING_VALID PADDING_SAME")
RANDOM_ALGORITHM: Final = one_of("rng_default rng_three_fry rng_philox", any_case=True)
SCHEDULE: Final = one_of("schedule_none schedule_latest schedule_earliest", any_case=True)
TRANSPOSE: Final = one_of("TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT")
TYPE: Final = one_of("FLOAT TOTALORDER SIGNED UNSIGNED")
_PRECISION: Final = one_of("default high highest", any_case=True)
_ACCURACY_MODE: Final = one_of("default highest", any_case=True)


def read_precisions(tokens: Tokens) -> object:
    """`{high, default}`."""
    return read_list(tokens, _PRECISION)


def read_sizes(tokens: Tokens) -> tuple[int, ...]:
    """`3` or `3x4`."""
    if tokens.kind == tk.INT:
        return (read_int(tokens),)
    return _numbers(tokens, tokens.start, tokens.expect(tk.DXD, "or a whole number").split("x"))


def read_padding(tokens: Tokens, *, parts: tuple[int, ...] = (2, 3)) -> tuple[tuple[int, ...], ...]:
    """`0_1` or `0_1x2_3`, with a third number for interior padding where that may be."""
    start, end = tokens.start, tokens.end
    padding = [_numbers(tokens, start, part.split("_")) for part in tokens.expect(tk.PAD, "here").split("x")]
    if any(len(part) not in parts for part in padding):
        tokens.fail("expected low_high for every dimension", start, end)
    return tuple(padding)


def read_window(tokens: Tokens) -> object:
    """`{size=3x3 stride=1x2 pad=0_0x1_1}`: each field at most once, all as long as `size`."""
    start = tokens.start
    tokens.expect("{", "before the window")
    ranks: dict[str, int] = {}
    while tokens.kind != "}":
        at, name, end = tokens.start, tokens.expect(tk.ATTRIBUTE, "of a field of the window"), tokens.previous_end
        if name not in _WINDOW_FIELDS:
            tokens.fail(f"there is no field {name}; there are {', '.join(_WINDOW_FIELDS)}", at, end)
        if name in ranks:
            tokens.fail(f"{name} stands here twice", at, end)
        ranks[name] = len(read_padding(tokens, parts=(2,)) if name == "pad" else read_sizes(tokens))
    for name, rank in ranks.items():
        if rank != ranks.get("size", 0) and not (name == "rhs_reversal" and rank > ranks.get("size", 0)):
            tokens.fail(f"{name} has {rank} dimensions, size has {ranks.get('size', 0)}", start, tokens.end)
    tokens.advance()
    return ranks


def read_dim_labels(tokens: Tokens) -> str:
    """`b01f_01io->b01f`: each dimension once, as many spatial ones in each part."""
    if tokens.kind != tk.DIM_LABELS:
        tokens.fail("expected dimension labels such as b0f_0io->b0f")
    inputs, _, rest = tokens.text.partition("_")
    kernel, _, output = rest.partition("->")
    spatial = set()
    for part, letters in ((inputs, "bf"), (kernel, "io"), (output, "bf")):
        named = part.replace("?", "")
        digits = [d for d in named if d not in letters]
        if len(set(named)) != len(named):
            tokens.fail(f"{part} names a dimension twice", tokens.start, tokens.end)
        if any(not d.isdecimal() or int(d) >= max(len(part), 1) for d in digits):
            tokens.fail(
                f"{part} may have {letters[0]}, {letters[1]}, ? and 0 to {len(part) - 1}", tokens.start, tokens.end
            )
        spatial.add(len(digits))
    if len(spatial) > 1:
        tokens.fail("inputs, kernel and output differ in spatial dimensions", tokens.start, tokens.end)
    text = tokens.text
    tokens.advance()
    return text


def read_slice(tokens: Tokens) -> object:
    """`{[0:4], [1:9:2]}`."""
    return read_list(tokens, _read_range)


def read_aliasing(tokens: Tokens) -> tuple[tuple[tuple[int, ...], int], ...]:
    """`{ {0}: (1, {}, may-alias) }`: the output index and the parameter of each entry."""
    return _read_entries(tokens, kinds=("may-alias", "must-alias"))


def read_operand_aliasing(tokens: Tokens) -> object:
    """`{{0}: (1, {})}`."""
    return _read_entries(tokens, kinds=())


def read_buffer_donors(tokens: Tokens) -> object:
    """`{ (0, {1}) }`."""
    tokens.expect("{", "before the buffer donors")
    while tokens.kind != "}":
        _read_place(tokens, ())
        if not tokens.accept(","):
            break
    tokens.expect("}", "after the buffer donors")
    return None


def read_statistics(tokens: Tokens) -> object:
    """`{visualizing_index=0,name=1.5}`."""
    tokens.expect("{", "before the statistics")
    if tokens.kind != "}":
        tokens.expect(tk.ATTRIBUTE, "of the statistic to show")
        read_int(tokens)
        while tokens.accept(","):
            tokens.expect(tk.ATTRIBUTE, "of a statistic")
            if tokens.kind not in (tk.INT, tk.DECIMAL):
                tokens.fail("expected a number")
            tokens.advance()
    tokens.expect("}", "after the statistics")
    return None


def read_result_accuracy(tokens: Tokens) -> object:
    """`{mode=highest}` or `{tolerance={atol=0.1,rtol=0.2,ulps=3}}`."""
    tokens.expect("{", "before the accuracy")
    at, name, end = tokens.start, tokens.expect(tk.ATTRIBUTE, "mode or tolerance"), tokens.previous_end
    if name == "mode":
        _ACCURACY_MODE(tokens)
    elif name == "tolerance":
        read_list(tokens, _read_tolerance)
    else:
        tokens.fail(f"{name} is neither mode nor tolerance", at, end)
    tokens.expect("}", "after the accuracy")
    return None


def _numbers(tokens: Tokens, start: int, parts: Sequence[str]) -> tuple[int, ...]:
    """The whole numbers in parts of the token that began at `start` and was just read."""
    numbers = []
    for part in parts:
        if (number := int64(part)) is None:
            tokens.fail(beyond_64_bits(part), start, tokens.previous_end)
        numbers.append(number)
    return tuple(numbers)


def _read_tolerance(tokens: Tokens) -> object:
    at, name, end = tokens.start, tokens.expect(tk.ATTRIBUTE, "of a tolerance"), tokens.previous_end
    if name not in ("atol", "rtol", "ulps"):
        tokens.fail(f"{name} is none of atol, rtol and ulps", at, end)
    start, end = tokens.start, tokens.end
    value = read_number(tokens)
    if not value >= 0:
        tokens.fail(f"{name} is not negative", start, end)
    return value


def _read_range(tokens: Tokens) -> object:
    start = tokens.start
    numbers = read_list(tokens, read_int, "[]", ":")
    if len(numbers) not in (2, 3):
        tokens.fail("expected [start:limit] or [start:limit:stride]", start, tokens.previous_end)
    return numbers


def _read_entries(tokens: Tokens, *, kinds: tuple[str, ...]) -> tuple[tuple[tuple[int, ...], int], ...]:
    tokens.expect("{", "before the aliases")
    entries = []
    while tokens.kind != "}":
        output = read_shape_index(tokens)
        tokens.expect(":", "after the index of the output")
        entries.append((output, _read_place(tokens, kinds)))
        if not tokens.accept(","):
            break
    tokens.expect("}", "after the aliases")
    return tuple(entries)


def _read_place(tokens: Tokens, kinds: tuple[str, ...]) -> int:
    tokens.expect("(", "before a parameter's number and index")
    number = read_int(tokens)
    tokens.expect(",", "after the number")
    read_shape_index(tokens)
    if kinds and tokens.accept(","):
        if tokens.kind not in (tk.IDENT, tk.NAME) or tokens.text not in kinds:
            tokens.fail(f"expected {' or '.join(kinds)}")
        tokens.advance()
    tokens.expect(")", "after the index")
    return number


def _read_sparsity(tokens: Tokens) -> object:
    start, end = tokens.start, tokens.end
    sizes = read_sizes(tokens)
    if len(sizes) != 2:
        tokens.fail("expected two sizes, such as 2x4", start, end)
    return sizes


_SPARSE_OPERAND: Final = fields(
    {"sparsity": _read_sparsity, "dimension": read_int, "stride": read_int, "idx": read_int}, loose=True
)
SPARSITY: Final = fields({"lhs": _SPARSE_OPERAND, "rhs": _SPARSE_OPERAND}, loose=True)
