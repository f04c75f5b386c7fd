"""Shardings as arguments: complete, over a mesh that is in the text or given, with the place of an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AnySharding, DimensionSharding, Mesh, NamedSharding
from hlo_cli.source import HloError, Source, Span, did_you_mean
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.sharding_forms import GivenSharding, read_given_sharding


@dataclass(frozen=True, slots=True)
class ShardingText:
    """A sharding, and remarks on what is not in its text."""

    sharding: AnySharding
    remarks: tuple[str, ...] = ()


def read_sharding_text(text: str, *, mesh: Mesh | None = None, rank: int | None = None) -> ShardingText:
    """The sharding in a text; HloError, with its span, if it cannot be read or names an axis that no mesh has.

    A PartitionSpec is over the given mesh, and may omit dimensions if the `rank` of the array is given.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> print(read_sharding_text("P(None, 'x')", mesh=Mesh((MeshAxis("x", 2),))).sharding)
    {mesh['x'=2], [{}, {'x'}]}
    """
    source = Source("", text)
    is_hlo = text.lstrip().startswith("{")
    try:
        found = read_given_sharding(text, mesh=mesh)
    except HloError as error:
        if is_hlo:
            _read_strictly(source)
        raise HloError(
            error.diagnostic.message, Span(0, len(text)), source=source, hint=error.diagnostic.hint
        ) from error
    if is_hlo and found.remarks and not _is_elided(text):
        _read_strictly(source)
    if found.sharding is None:
        raise _mesh_error(found, source, mesh)
    sharding = found.sharding
    if not is_hlo and rank is not None and isinstance(sharding, NamedSharding):
        missing = rank - len(sharding.dim_shardings)
        sharding = replace(sharding, dim_shardings=(*sharding.dim_shardings, *(DimensionSharding(),) * missing))
    return ShardingText(sharding, found.remarks)


def _read_strictly(source: Source) -> None:
    """Raises HloError with the place where the text stops to be a sharding."""
    from hlo_cli.syntax.values.sharding import read_sharding  # its grammar is slow to import

    tokens = Tokens(source)
    read_sharding(tokens)
    if tokens.kind != tk.END:
        tokens.fail("expected the end of the sharding", tokens.start, tokens.end)


def _is_elided(text: str) -> bool:
    return "..." in text or "\N{HORIZONTAL ELLIPSIS}" in text


def _mesh_error(found: GivenSharding, source: Source, mesh: Mesh | None) -> HloError:
    """An error about an axis that the mesh does not have, or about a missing mesh."""
    used = list(dict.fromkeys(name for names in found.axes for name in names))
    if mesh is None:
        axes = ",".join(f"{name}=2" for name in used) or "data=2"
        return HloError("the mesh is not in the text", hint=f"give the sizes of its axes, such as --mesh {axes}")
    names = [axis.name for axis in mesh.axes]
    unknown = next((name for name in used if name not in names), used[0] if used else "")
    return HloError(
        f"unknown mesh axis '{unknown}'", _place(source, unknown), source=source, hint=_hint(unknown, names)
    )


def _place(source: Source, name: str) -> Span:
    match = re.search(rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])", source.text)
    return Span(match.start(), match.end()) if match else Span(0, len(source.text))


def _hint(name: str, names: Sequence[str]) -> str | None:
    if close := get_close_matches(name, names, 1):
        return did_you_mean(close[0])
    return f"the mesh has {', '.join(names)}"
