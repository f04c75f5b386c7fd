"""Random bits exactly as XLA makes them: ThreeFry and Philox, both counter based.

Mirrors xla/hlo/builder/lib/prng.cc and xla/service/rng_bit_generator_expander.cc.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.number_types import Array, wrapped
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, array_shape, settled
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, TupleShape

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA
_LOW: Final = np.uint64(0xFFFFFFFF)


def threefry(key: int, counters: U64) -> tuple[U32, U32]:
    """The two words of each counter: 20 rounds of ThreeFry 2x32."""
    keys = [key & 0xFFFFFFFF, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    words = [(counters & _LOW).astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)]
    with np.errstate(over="ignore"):
        x, y = words[0] + np.uint32(keys[0]), words[1] + np.uint32(keys[1])
        for block in range(5):
            for rotation in _ROTATIONS[block % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = x ^ y
            x = x + np.uint32(keys[(block + 1) % 3])
            y = y + np.uint32((keys[(block + 2) % 3] + block + 1) & 0xFFFFFFFF)
    return x, y


def philox(key: int, counter: int, blocks: int) -> U32:
    """Four words of each block of a counter of 128 bits: 10 rounds of Philox 4x32."""
    numbers = np.arange(blocks, dtype=np.uint64)
    low = numbers + np.uint64(counter & (2**64 - 1))
    carry = (low < numbers).astype(np.uint64)
    high = carry + np.uint64(counter >> 64)
    words = [low & _LOW, low >> np.uint64(32), high & _LOW, high >> np.uint64(32)]
    first, second = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (b >> np.uint64(32)) ^ words[1] ^ np.uint64(first), b & _LOW,
            (a >> np.uint64(32)) ^ words[3] ^ np.uint64(second), a & _LOW,
        ]  # fmt: skip
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, axis=-1).astype(np.uint32).reshape(-1)


def rng_bit_generator(instruction: Instruction, computed: Computed) -> Kernel:
    """The next state, and random bits; the bits alone if the state is not asked for."""
    has_state = isinstance(instruction.shape, TupleShape)
    shape = instruction.shape.elements[1] if isinstance(instruction.shape, TupleShape) else instruction.shape
    assert isinstance(shape, ArrayShape)
    is_threefry = "three_fry" in (instruction.attribute("algorithm") or "")

    def kernel(state: Array) -> Value:
        words = [int(each) for each in np.ascontiguousarray(state).reshape(-1).view(np.uint64)]
        bits, words = (_threefry_bits if is_threefry else _philox_bits)(words, shape)
        new = np.array(words, np.uint64).view(state.dtype).reshape(state.shape)
        found = wrapped(bits.astype(np.uint64).astype(f"u{shape.element_type.byte_width}"), shape.element_type)
        return (new, found) if has_state else found

    return kernel


def _threefry_bits(state: list[int], shape: ArrayShape) -> tuple[Array, list[int]]:
    sizes = shape.dimensions
    mask = 2**64 - 1
    if shape.element_type.bits == 64:
        count = prod(sizes)
        counters = np.uint64(state[1]) + np.arange(count, dtype=np.uint64)
        x, y = threefry(state[0], counters)
        bits = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
        return bits.reshape(sizes), [state[0], (state[1] + count) & mask, *state[2:]]
    if not sizes:
        x, _ = threefry(state[0], np.array([state[1]], np.uint64))
        return x.reshape(()), [state[0], (state[1] + 1) & mask, *state[2:]]
    even = [at for at, size in enumerate(sizes) if size % 2 == 0]
    at = even[0] if even else max(range(len(sizes)), key=lambda place: sizes[place])
    half = [(size + 1) // 2 if place == at else size for place, size in enumerate(sizes)]
    count = prod(half)
    counters = np.uint64(state[1]) + np.arange(count, dtype=np.uint64)
    x, y = (word.reshape(half) for word in threefry(state[0], counters))
    joined = np.stack((x, y), axis=at + 1).reshape(
        [2 * size if place == at else size for place, size in enumerate(half)]
    )
    cut = joined[tuple(slice(0, size) for size in sizes)]
    return cut, [state[0], (state[1] + count) & mask, *state[2:]]


def _philox_bits(state: list[int], shape: ArrayShape) -> tuple[Array, list[int]]:
    count = prod(shape.dimensions)
    counter = state[1] + ((state[2] << 64) if len(state) > 2 else (state[0] << 64))
    wide = shape.element_type.bits == 64
    blocks = -(-count // (2 if wide else 4))
    words = philox(state[0], counter, blocks)
    after = (counter + blocks) & (2**128 - 1)
    new = [state[0], after & (2**64 - 1), *([after >> 64] if len(state) > 2 else [])]
    if wide:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        return (pairs[:, 0] | (pairs[:, 1] << np.uint64(32)))[:count].reshape(shape.dimensions), new
    return words[:count].reshape(shape.dimensions), new


UNSTATED_DRAWS: Final = frozenset(("rng", "rng-get-and-update-state"))
"""Opcodes whose numbers no text states, so that those of a run are other ones than a compiler's."""


def rng(instruction: Instruction, computed: Computed) -> Kernel:
    """Draws of a uniform or normal distribution: always the same ones for a shape, but not those of a compiler."""
    shape = array_shape(instruction)
    is_normal = "normal" in (instruction.attribute("distribution") or "")
    settle_ = settled(instruction, computed.floats)

    def kernel(first: Array, second: Array) -> Array:
        draws = np.random.Generator(np.random.Philox([int(is_normal), *shape.dimensions]))
        a, b = first.astype(np.float64), second.astype(np.float64)
        if is_normal:
            return settle_(a + b * draws.standard_normal(shape.dimensions))
        places = draws.random(shape.dimensions)
        if shape.element_type.kind == "pred":
            return places >= 0.5
        found = a + (b - a) * places
        return settle_(found if first.dtype.kind == "f" else np.floor(found).astype(np.int64))

    return kernel


_FIRST_STATE: Final = 0x7012395
"""The state that XLA:CPU starts with."""


def rng_get_and_update_state(instruction: Instruction, computed: Computed) -> Kernel:
    """A counter of the module, which then moves on by a step; it begins like that of XLA:CPU."""
    shape = array_shape(instruction)
    step = instruction.integer("delta") or 0

    def kernel() -> Array:
        state = computed.states.get("rng", _FIRST_STATE)
        computed.states["rng"] = (state + step) & (2**128 - 1)
        words = np.array([state & (2**64 - 1), state >> 64], np.uint64)
        return words[: shape.elements].reshape(shape.dimensions)

    return kernel


HANDLERS: Final[dict[str, Rule]] = {
    "rng": rng,
    "rng-bit-generator": rng_bit_generator,
    "rng-get-and-update-state": rng_get_and_update_state,
}
"""The rule of each opcode with random bits."""
