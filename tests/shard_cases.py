"""Random shardings in every form, for the tests of `hlo shard`."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

from hlo_cli import sharding_of
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, TupleSharding

SUBGROUPS = ("manual", "unreduced", "replicated")


def read(text: str, **given: Any) -> Sharding | NamedSharding:
    """The sharding of one array."""
    sharding = sharding_of(text, **given)
    assert not isinstance(sharding, TupleSharding)
    return sharding


def random_sharding(rng: Random, rank: int) -> str:
    """The text of a sharding of one array of this rank: tiled with a list or an iota, over a mesh, or of one kind."""
    choice = rng.random()
    if choice < 0.05:
        return rng.choice(("{replicated}", "{manual}", "{unreduced}", "{maximal device=3}", "{unknown}"))
    if choice < 0.07:
        return f"{{maximal_mesh[device_id={rng.randrange(9)}]}}"
    return random_named(rng, rank) if choice < 0.5 else random_tiled(rng, rank)


def random_tiled(rng: Random, rank: int) -> str:
    """A sharding by its tiles, with subgroups in any order."""
    parts = [rng.choice((1, 1, 2, 2, 3, 4)) for _ in range(rank)]
    kinds = [rng.choice(SUBGROUPS) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    sizes = [*parts, *(rng.choice((1, 2, 2, 3)) for _ in kinds)]
    while prod(sizes) < 2:
        sizes[rng.randrange(len(sizes))] = 2
    count = prod(sizes)
    if rng.random() < 0.4:
        devices = ",".join(map(str, rng.sample(range(count), count)))
    else:
        devices = f"<={random_iota(rng, count)}"
    suffix = f" last_tile_dims={{{', '.join(kinds)}}}" if kinds else ""
    if kinds == ["replicated"] and rng.random() < 0.7:
        suffix = " last_tile_dim_replicate"
    return f"{{devices=[{','.join(map(str, sizes))}]{devices}{suffix}}}"


def random_iota(rng: Random, count: int) -> str:
    """An iota of this number of devices, often with dimensions of 1 and with neighbors that could be joined."""
    dims = _factors(rng, count)
    for _ in range(rng.choice((0, 0, 1, 2))):
        dims.insert(rng.randrange(len(dims) + 1), 1)
    if len(dims) == 1:
        return f"[{count}]"
    order = rng.sample(range(len(dims)), len(dims)) if rng.random() < 0.7 else list(range(len(dims)))
    return f"[{','.join(map(str, dims))}]T({','.join(map(str, order))})"


def random_named(rng: Random, rank: int) -> str:
    """A sharding over a mesh, with parts of axes, a list of devices, and manual, unreduced, and replicated axes."""
    names = list("abcd"[: rng.randint(1, 4)])
    sizes = {name: rng.choice((1, 2, 2, 3, 4, 6, 8)) for name in names}
    while prod(sizes.values()) > 96:
        sizes[rng.choice(names)] = 1
    count = prod(sizes.values())
    mesh = "mesh[" + ",".join(f"'{name}'={size}" for name, size in sizes.items()) + "]"
    if rng.random() < 0.3:
        shuffled = rng.sample(range(count), count)
        if shuffled != sorted(shuffled):
            mesh += f", device_ids=({','.join(map(str, shuffled))})"
    elif rng.random() < 0.3 and len(names) > 1:
        order = rng.sample(range(len(names)), len(names))
        dims = list(sizes.values())
        mesh += f", device_ids=([{','.join(map(str, dims))}]T({','.join(map(str, order))}))"
    if rng.random() < 0.08:
        return f"{{{mesh}, {rng.choice(('replicated', 'manual', 'unreduced'))}}}"
    pieces = [piece for name in names for piece in _pieces(rng, name, sizes[name])]
    lists: list[list[tuple[str, int, int]]] = [[] for _ in range(rank + 3)]
    for at, piece in enumerate(rng.sample(pieces, len(pieces))):
        where = rng.choice((*range(rank), *range(rank), rank, rank + 1, rank + 2, None, at % rank))
        if where is not None:
            lists[where].append(piece)
    place_of = {name: at for at, name in enumerate(names)}
    for where in range(rank, rank + 3):
        lists[where].sort(key=lambda piece: (place_of[piece[0]], piece[1]))
    for axes in lists:  # XLA requires that neighbors that could be one part are one
        _separate(axes)
    texts = [[*(_axis(piece, sizes) for piece in axes), *["?"] * (rng.random() < 0.1)] for axes in lists[:rank]]
    text = f"{{{mesh}, [{', '.join('{' + ', '.join(axes) + '}' for axes in texts)}]"
    for word, axes in zip(("replicated", "unreduced", "manual"), lists[rank:], strict=True):
        if axes:
            text += f", {word}={{{', '.join(_axis(piece, sizes) for piece in axes)}}}"
    return text + "}"


def random_sizes(rng: Random, rank: int) -> tuple[int, ...]:
    """Sizes of an array, half of them uneven."""
    if rng.random() < 0.5:
        return tuple(rng.choice((24, 48, 96)) for _ in range(rank))
    return tuple(rng.randint(1, 30) for _ in range(rank))


def _pieces(rng: Random, name: str, size: int) -> list[tuple[str, int, int]]:
    """An axis whole or cut: name, the product of the parts above, size."""
    if size < 4 or rng.random() < 0.5:
        return [(name, 1, size)]
    found, pre = [], 1
    for factor in _factors(rng, size):
        found.append((name, pre, factor))
        pre *= factor
    return found


def _separate(axes: list[tuple[str, int, int]]) -> None:
    at = 0
    while at + 1 < len(axes):
        (name, pre, size), (other, next_pre, next_size) = axes[at : at + 2]
        if name == other and pre * size == next_pre:
            axes[at : at + 2] = [(name, pre, size * next_size)]
        else:
            at += 1


def _axis(piece: tuple[str, int, int], sizes: dict[str, int]) -> str:
    name, pre, size = piece
    return f"'{name}'" if size == sizes[name] else f"'{name}':({pre}){size}"


def _factors(rng: Random, count: int) -> list[int]:
    found = []
    while count > 1:
        prime = next(p for p in range(2, count + 1) if count % p == 0)
        found.append(prime)
        count //= prime
    rng.shuffle(found)
    while len(found) > 1 and rng.random() < 0.4:
        at = rng.randrange(len(found) - 1)
        found[at : at + 2] = [found[at] * found[at + 1]]
    return found or [1]
