"""Shardings, meshes and replica groups: grammar, and what XLA checks while it reads them.

Mirrors `ParseSharding`, `ParseMesh` and `ParseCollectiveDeviceListBase` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.strict import tokens as tk
from hlo_cli.syntax.strict.mesh import read_mesh_groups, read_mesh_sharding
from hlo_cli.syntax.strict.metadata import read_metadata_or_list
from hlo_cli.syntax.strict.tokens import Tokens
from hlo_cli.syntax.strict.values import (
    fields,
    read_dimensions,
    read_int,
    read_int_lists,
    read_iota,
    read_list,
    read_reduction,
    read_string,
)

_WHOLE: Final = ("replicated", "maximal", "manual", "unknown", "unreduced")
"""Words for a sharding without tiles, in the order in which XLA looks for them."""
_LAST_TILE: Final = ("maximal", "replicated", "manual", "unreduced")


def read_sharding(tokens: Tokens) -> object:
    """One sharding, or one for each leaf of a tuple between further braces."""
    tokens.expect("{", "before the sharding")
    if tokens.kind not in ("{", "}"):
        _read_single(tokens)
        return None
    if tokens.kind != "}":
        _read_braced(tokens)
        while tokens.accept(","):
            _read_braced(tokens)
    tokens.expect("}", "after the shardings of the tuple")
    return None


def read_replica_groups(tokens: Tokens) -> object:
    """`{{0,1},{2,3}}`, `[2,2]<=[4]` or `mesh['x'=2] {'x'}`."""
    if tokens.kind == "{":
        return read_int_lists(tokens)
    if tokens.kind == tk.IDENT and tokens.text == "mesh":
        return read_mesh_groups(tokens)
    start = tokens.start
    dimensions = read_dimensions(tokens)
    tokens.expect("<=", "after the number of groups and their size")
    read_iota(tokens)
    if len(dimensions) != 2:
        tokens.fail("expected the number of groups and their size", start, tokens.previous_end)
    return dimensions


def read_domain(tokens: Tokens) -> object:
    """`{kind="sharding", entry={…}, exit={…}}`."""
    return _DOMAIN(tokens)


def _read_kind(tokens: Tokens) -> object:
    start, end = tokens.start, tokens.end
    kind = read_string(tokens)
    if kind[1:-1] != "sharding":
        tokens.fail("the only kind of domain is sharding", start, end)
    return kind


_DOMAIN: Final = fields(
    {"kind": _read_kind, "entry": read_sharding, "exit": read_sharding}, required=("kind", "entry", "exit")
)


def _read_braced(tokens: Tokens) -> None:
    tokens.expect("{", "before a sharding of the tuple")
    _read_single(tokens)


def _read_single(tokens: Tokens) -> None:
    """What stands between the braces, and the closing one."""
    if tokens.kind == tk.IDENT and tokens.text in ("mesh", "maximal_mesh"):
        read_mesh_sharding(tokens)
        return
    _TileReader(tokens).read()


class _TileReader:
    """Reads the items of one sharding; what may stand together is checked at the end, as XLA does."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.words: set[str] = set()
        self.dimensions: tuple[int, ...] = ()
        self.devices: list[int] = []
        self.iota: list[int] = []
        self.subgroups = 0

    def read(self) -> None:
        tokens = self.tokens
        start = tokens.start
        while tokens.kind != "}":
            self._read_item()
        problem = self._problem()
        if problem is not None:
            tokens.fail(problem, start, tokens.end)
        tokens.advance()

    def _read_item(self) -> None:
        tokens = self.tokens
        kind = tokens.kind
        if kind in (*_WHOLE, "last_tile_dim_replicate", "shard_as", "shard_like"):
            self.words.add(kind)
            tokens.advance()
            if kind.startswith("shard_"):
                read_int(tokens)
        elif kind == tk.ATTRIBUTE:
            self._read_named()
        else:
            tokens.fail("expected an item of a sharding")

    def _read_named(self) -> None:
        tokens = self.tokens
        start, name = tokens.start, tokens.text
        tokens.advance()
        match name:
            case "device":
                self.devices = [read_int(tokens)]
            case "devices":
                self._read_devices()
            case "metadata":
                read_metadata_or_list(tokens)
            case "unreduced":
                self.words.add(name)
                read_reduction(tokens)
            case "last_tile_dims":
                self.subgroups += len(read_list(tokens, _read_last_tile))
            case _:
                tokens.fail(
                    f"{name} is none of device, devices, last_tile_dims, unreduced and metadata",
                    start,
                    tokens.previous_end,
                )

    def _read_devices(self) -> None:
        tokens = self.tokens
        self.dimensions += read_dimensions(tokens)
        if tokens.accept("<="):
            if self.iota:
                tokens.fail("devices stands here twice", tokens.start, tokens.end)
            self.iota = list(read_iota(tokens, whole=True))
            return
        self.devices.append(read_int(tokens))
        while tokens.accept(","):
            self.devices.append(read_int(tokens))

    def _problem(self) -> str | None:
        whole = next((word for word in _WHOLE if word in self.words), None)
        if whole == "maximal":
            return None if len(self.devices) == 1 else "maximal needs one device"
        if whole is not None:
            return f"{whole} goes without devices" if self.devices else None
        if not self.dimensions:
            return "expected devices or one of " + ", ".join(_WHOLE)
        if "last_tile_dim_replicate" in self.words and self.subgroups:
            return "last_tile_dim_replicate and last_tile_dims exclude each other"
        if self.subgroups > len(self.dimensions):
            return f"there are {self.subgroups} last tile dimensions, the tiles have {len(self.dimensions)}"
        if self.iota:
            return "devices are given twice" if self.devices else None
        if len(self.devices) < 2:
            return "expected more than one device"
        if min(self.dimensions) < 0:
            return "expected sizes that are not negative"
        return None


def _read_last_tile(tokens: Tokens) -> str:
    if tokens.kind not in _LAST_TILE:
        tokens.fail(f"expected one of {', '.join(_LAST_TILE)}")
    word = tokens.kind
    tokens.advance()
    return word
