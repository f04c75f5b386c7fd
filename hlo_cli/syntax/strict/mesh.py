"""Meshes with named axes, the shardings written over them, and replica groups along their axes.

Mirrors `ParseMesh` and `ParseAxisRef` of xla/hlo/parser/hlo_parser.cc and the checks of xla/hlo/ir/named_sharding.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.syntax.strict import tokens as tk
from hlo_cli.syntax.strict.metadata import read_metadata_or_list
from hlo_cli.syntax.strict.tokens import Tokens
from hlo_cli.syntax.strict.values import read_int, read_iota, read_list, read_reduction

_WHOLE: Final = ("replicated", "unreduced", "manual")


@dataclass(frozen=True, slots=True)
class _Axis:
    """Part of a mesh axis: `size` devices of it, behind `pre` of them."""

    index: int
    pre: int
    size: int


@dataclass(slots=True)
class _Mesh:
    """The axes of a mesh: the number of each by its name, and the size of each by its number."""

    numbers: dict[str, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    is_maximal: bool = False


def read_mesh_groups(tokens: Tokens) -> object:
    """`mesh['x'=2,'y'=4] {'x'}`."""
    start = tokens.start
    mesh = _read_mesh(tokens)
    tokens.accept(",")
    axes = _read_axes(tokens, mesh)
    if not axes:
        tokens.fail("expected at least one axis", start, tokens.previous_end)
    _check_axes(tokens, [axes], mesh, start)
    return axes


def read_mesh_sharding(tokens: Tokens) -> None:
    """What stands between the braces of a sharding that names a mesh, and the closing one."""
    start = tokens.start
    mesh = _read_mesh(tokens)
    if not mesh.is_maximal:
        tokens.accept(",")
        if tokens.kind == tk.ATTRIBUTE and tokens.text == "unreduced":
            tokens.advance()
            read_reduction(tokens)
        elif tokens.kind in _WHOLE:
            tokens.advance()
        else:
            _read_dimension_shardings(tokens, mesh, start)
            return
    elif tokens.kind not in (",", "}"):
        tokens.fail("expected } after the mesh")
    if tokens.accept(","):
        _expect_metadata(tokens)
    tokens.expect("}", "after the sharding")


def _read_dimension_shardings(tokens: Tokens, mesh: _Mesh, start: int) -> None:
    used = list(read_list(tokens, lambda tokens: _read_dimension(tokens, mesh), "[]"))
    while tokens.kind != "}":
        tokens.expect(",", "before what else the sharding says")
        at, name = tokens.start, tokens.expect(tk.ATTRIBUTE, "of the sharding")
        if name == "metadata":
            read_metadata_or_list(tokens)
        elif name in _WHOLE:
            if name == "unreduced" and tokens.kind != "{":
                read_reduction(tokens)
            axes = _read_axes(tokens, mesh)
            if any((a.index, a.pre) >= (b.index, b.pre) for a, b in pairwise(axes)):
                tokens.fail(f"the axes of {name} stand in the order of the mesh", at, tokens.previous_end)
            used.append(axes)
        else:
            tokens.fail(f"{name} is none of {', '.join(_WHOLE)} and metadata", at, tokens.previous_end)
    _check_axes(tokens, used, mesh, start)
    tokens.advance()


def _read_mesh(tokens: Tokens) -> _Mesh:
    is_maximal = tokens.text == "maximal_mesh"
    tokens.advance()
    tokens.expect("[", "after the word mesh")
    if is_maximal:
        if tokens.kind != tk.ATTRIBUTE or tokens.text != "device_id":
            tokens.fail("expected device_id=")
        tokens.advance()
        read_int(tokens)
        tokens.expect("]", "after the device")
        return _Mesh(is_maximal=True)
    mesh = _Mesh()
    while tokens.kind != "]":
        _read_mesh_axis(tokens, mesh)
        if tokens.kind != "]":
            tokens.expect(",", "between the axes of the mesh")
            if tokens.kind == "]":
                tokens.fail("expected an axis of the mesh")
    tokens.advance()
    if tokens.kind == "," and _device_ids_follow(tokens):
        _read_device_ids(tokens, mesh)
    return mesh


def _read_mesh_axis(tokens: Tokens, mesh: _Mesh) -> None:
    start, end = tokens.start, tokens.end
    if tokens.kind == tk.ATTRIBUTE:
        name = tokens.text
        tokens.advance()
    else:
        name = tokens.expect(tk.STRING, "as the name of an axis")[1:-1]
        tokens.expect("=", "after the name of the axis")
    if name in mesh.numbers:
        tokens.fail(f"the mesh has two axes {name}", start, end)
    mesh.numbers[name] = len(mesh.sizes)
    mesh.sizes.append(read_int(tokens))


def _device_ids_follow(tokens: Tokens) -> bool:
    ahead = Tokens(tokens.source, tokens.end)
    return ahead.kind == tk.ATTRIBUTE and ahead.text == "device_ids"


def _read_device_ids(tokens: Tokens, mesh: _Mesh) -> None:
    tokens.advance()
    tokens.advance()
    start = tokens.start
    if tokens.peek() == "[":
        tokens.expect("(", "before the devices")
        read_iota(tokens)
        tokens.expect(")", "after the devices")
        return
    devices = read_list(tokens, read_int, "()")
    count = prod(mesh.sizes)
    if len(devices) != count or sorted(devices) != list(range(count)):
        tokens.fail(f"expected the {count} devices of the mesh in some order", start, tokens.previous_end)
    if list(devices) == sorted(devices):
        tokens.fail("devices in their own order are left out", start, tokens.previous_end)


def _read_dimension(tokens: Tokens, mesh: _Mesh) -> list[_Axis]:
    """`{'x', ?}`: the axes along which a dimension is cut; ? stands last."""
    axes: list[_Axis] = []

    def item(tokens: Tokens) -> bool:
        if tokens.accept("?"):
            if tokens.kind != "}":
                tokens.fail("? stands last")
            return True
        axes.append(_read_axis(tokens, mesh))
        return False

    read_list(tokens, item)
    return axes


def _read_axes(tokens: Tokens, mesh: _Mesh) -> list[_Axis]:
    return list(read_list(tokens, lambda tokens: _read_axis(tokens, mesh)))


def _read_axis(tokens: Tokens, mesh: _Mesh) -> _Axis:
    """`'x'` or `'x':(1)2`; an axis may also be named by its number."""
    start, end, kind = tokens.start, tokens.end, tokens.kind
    if kind not in (tk.STRING, tk.NAME, tk.IDENT):
        tokens.fail("expected the name of an axis")
    name = tokens.text[1:-1] if kind == tk.STRING else tokens.text
    tokens.advance()
    if name in mesh.numbers:
        index = mesh.numbers[name]
    elif name.isdecimal() and len(name) < 10 and int(name) < len(mesh.sizes):
        index = int(name)
    else:
        tokens.fail(f"the mesh has no axis {name}", start, end)
    if (kind == tk.STRING and not tokens.accept(":")) or not tokens.accept("("):
        return _Axis(index, 1, mesh.sizes[index])
    pre = read_int(tokens)
    tokens.expect(")", "after the size before the part of the axis")
    size, whole = read_int(tokens), mesh.sizes[index]
    if pre < 1 or size < 2 or size >= whole or whole % (pre * size):
        tokens.fail(f"({pre}){size} is no part of an axis of {whole}", start, tokens.previous_end)
    return _Axis(index, pre, size)


def _check_axes(tokens: Tokens, used: list[list[_Axis]], mesh: _Mesh, start: int) -> None:
    """No two parts of an axis overlap, and neighbours that could be one part are one."""
    for axes in used:
        if any(a.index == b.index and a.pre * a.size == b.pre for a, b in pairwise(axes)):
            tokens.fail("two parts of an axis that follow each other are written as one", start, tokens.previous_end)
    parts = sorted((a.index, a.pre, a.size) for axes in used for a in axes)
    for (index, pre, size), (other, behind, _) in pairwise(parts):
        if index == other and pre * size > behind:
            tokens.fail(f"axis {list(mesh.numbers)[index]} is used twice", start, tokens.previous_end)


def _expect_metadata(tokens: Tokens) -> None:
    if tokens.kind != tk.ATTRIBUTE or tokens.text != "metadata":
        tokens.fail("expected metadata=")
    tokens.advance()
    read_metadata_or_list(tokens)
