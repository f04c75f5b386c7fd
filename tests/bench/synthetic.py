"""Large modules for measuring: one dump many times over, every name made unique, called from one entry."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
SEED = "gpu/h100_transformer/after_optimizations.txt.gz"
"""The largest dump that jaxlib reads, too."""

_NAME = re.compile(r'("(?:[^"\\]|\\.)*+")|%([A-Za-z_][A-Za-z0-9_.\-]*+)', re.DOTALL)
_ENTRY = re.compile(r"^ENTRY %(\S+) \((.*)\) -> (.*) \{$", re.MULTILINE)
_PARAMETER = re.compile(r"^ +(?:ROOT )?%(\S+) = (\S+|\(.*?\)) parameter\((\d+)\)", re.MULTILINE)
_ROOT = re.compile(r"^ +ROOT %\S+ = (\S+|\(.*?\)) [a-z][a-z0-9\-]*\(", re.MULTILINE)


def text_of(path: Path) -> str:
    """A file's text, compressed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def synthetic(megabytes: float, seed: str = SEED) -> str:
    """A module of about so many megabytes; the same one each time.

    The dump's entry becomes a computation of each copy, and a new entry calls all of them with its own parameters.
    """
    text = text_of(FIXTURES / seed)
    match = _ENTRY.search(text)
    assert match is not None, f"{seed} has no entry"
    first = re.search(r"^%", text, re.MULTILINE)
    assert first is not None
    head, body = text[: first.start()], text[first.start() :]
    entry, signature, result = match.groups()
    inside = text[match.end() :]
    shapes = {int(number): shape for _, shape, number in _PARAMETER.findall(inside)}
    root = _ROOT.search(inside)
    assert root is not None, f"{seed} has no root"

    copies: list[str] = []
    made = len(head)
    while made < megabytes * 1e6:
        suffix = f".c{len(copies)}"
        copy = _NAME.sub(lambda found, suffix=suffix: found[1] or f"%{found[2]}{suffix}", body)  # type: ignore[misc]
        copies.append(copy.replace(f"ENTRY %{entry}{suffix}", f"%{entry}{suffix}"))
        made += len(copies[-1])

    arguments = ", ".join(f"%argument.{n}" for n in sorted(shapes))
    lines = [f"ENTRY %{entry} ({signature}) -> {result} {{"]
    lines += [f"  %argument.{n} = {shape} parameter({n})" for n, shape in sorted(shapes.items())]
    for n in range(len(copies)):
        last = "ROOT " if n == len(copies) - 1 else ""
        lines.append(f"  {last}%step.{n} = {root[1]} call({arguments}), to_apply=%{entry}.c{n}")
    return head + "".join(copies) + "\n".join([*lines, "}", "", ""])


def overwriting(kept: int, made: int) -> str:
    """A module in which the result overwrites all arguments, while values that may lie in their place come and go."""
    aliases = ", ".join(f"{{{n}}}: ({n}, {{}}, may-alias)" for n in range(kept))
    lines = [f"HloModule overwriting, is_scheduled=true, input_output_alias={{ {aliases} }}", "", "ENTRY %e {"]
    lines += [f"  %p.{n} = f32[4096]{{0}} parameter({n})" for n in range(kept)]
    last = "p.0"
    for n in range(made):
        lines.append(
            f'  %t.{n} = f32[{16 << n % 3}]{{0}} custom-call(%{last}, %p.{n % kept}), custom_call_target="step"'
        )
        last = f"t.{n}"
    lines += [f'  %r.{n} = f32[4096]{{0}} custom-call(%p.{n}, %{last}), custom_call_target="end"' for n in range(kept)]
    shapes, results = ", ".join(["f32[4096]{0}"] * kept), ", ".join(f"%r.{n}" for n in range(kept))
    return "\n".join([*lines, f"  ROOT %r = ({shapes}) tuple({results})", "}", ""])
