"""What rewrites make of small modules, whole, in `data/whole_rewrites.txt`; `--write` renews it, `--choose` what is in it.

    in place two updates of one: fuse
    -%e = f32[8]{0} dynamic-update-slice(%n, %u, %k)
    +%copy = f32[8]{0} copy(%n)

Below a rewrite stand the lines that it takes out of a module and those that it puts in, or its error. Those are chosen that
go from one line of `hlo_cli/transform` to another as no rewrite above them does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from difflib import ndiff
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import get_args

from arcs import Arcs, arcs
from async_texts import ACCEPTED
from fusible_programs import fusible_program
from hlo_cli import HloError, Module, parse_module
from hlo_cli.transform.extract import extract
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from hlo_cli.transform.fusion.gpu_fusion import gpu_fused_module
from hlo_cli.transform.in_place_hazards import fix_in_place_hazards
from hlo_cli.transform.normalize import normalize
from hlo_cli.transform.reduction.draft import draft_of
from hlo_cli.transform.reduction.steps import STEPS
from hlo_cli.transform.reorder import Goal, reorder
from hlo_cli.transform.sugar import desugar, sugar
from lint_findings import OF_RULES
from scheduled_programs import scheduled_program
from test_in_place import NOTHING, TEXTS

KEPT = Path(__file__).parent / "data" / "whole_rewrites.txt"

Rewrite = Callable[[Module], str]


# --- what is rewritten ---


@cache
def text_of(source: str) -> str:
    """A small module: one of another file of tests, or a random one."""
    kind, _, name = source.partition(" ")
    match kind:
        case "fusible":
            return fusible_program(Random(int(name)), length=8)
        case "scheduled":
            return scheduled_program(Random(int(name)))
        case "async":
            return ACCEPTED[name]
        case "in-place":
            return TEXTS[name]
    return OF_RULES[kind].good if name == "good" else OF_RULES[kind].bad.replace("«", "").replace("»", "")


def _sources() -> Iterator[str]:
    yield from (f"in-place {name}" for name in TEXTS)
    yield from (f"async {name}" for name in ACCEPTED)
    yield from (
        f"{name} {which}" for name in OF_RULES for which in ("bad", "good") if name >= "HLO02" or which == "good"
    )
    yield from (f"{kind} {seed}" for seed in range(_RANDOM) for kind in ("fusible", "scheduled"))


_RANDOM, _LONG = 8, 2500
"""Random modules of each kind that may be chosen, and characters of texts that take too long."""


# --- rewrites ---


def rewrite_of(words: str) -> Rewrite:
    """A rewrite by its words: `fuse`, `pair a,b`, `reorder dfs`, `step 3 unused parameters`."""
    kind, _, rest = words.partition(" ")
    match kind:
        case "pair" | "keep":
            one, _, other = rest.partition(",")
            return lambda module: str(fuse_pair(module, one, other, keep=kind == "keep"))
        case "reorder":
            return lambda module: str(reorder(module, rest))  # type: ignore[arg-type]
        case "extract":
            return lambda module: str(extract(module, rest))
        case "unfuse":
            return lambda module: str(unfuse(module, [rest] if rest else None))
        case "gpu":
            return lambda module: str(gpu_fused_module(module, rest) or module)
        case "step":
            number, _, name = rest.partition(" ")
            return partial(_stepped, int(number), name)
    return _PLAIN[words]


_PLAIN: dict[str, Rewrite] = {
    "fuse": lambda module: str(fuse(module).module),
    "sugar": lambda module: str(sugar(module)),
    "desugar": lambda module: str(desugar(module)),
    "normalize": lambda module: str(normalize(module)),
    "copies": lambda module: str(fix_in_place_hazards(module, NOTHING).module),
}


def _stepped(number: int, name: str, module: Module) -> str:
    """The module after one edit of a step of `hlo reduce`."""
    draft = draft_of(module)
    step = next(each for each in STEPS if each.words == name)
    edit = list(step.edits(draft))[number]
    return (edit(draft) or draft).to_string()


def _rewrites(module: Module) -> Iterator[str]:
    yield from _PLAIN
    yield from ("unfuse", "gpu h100", *(f"reorder {goal}" for goal in get_args(Goal)))
    entry = module.entry.instructions
    yield from (f"unfuse {each.name}" for each in entry if each.opcode == "fusion")
    yield from (f"extract {each.name}" for each in entry[-2:])
    pairs = [(one.name, each.name) for each in entry for one in each.operands if one.opcode != "parameter"][:3]
    yield from (f"{kind} {one},{other}" for one, other in pairs for kind in ("pair", "keep"))
    draft = draft_of(module)
    for step in STEPS:
        yield from (f"step {number} {step.words}" for number in range(min(len(list(step.edits(draft))), 2)))


def told(source: str, words: str) -> str:
    """The lines that a rewrite changes, or its error."""
    module = parse_module(text_of(source))
    before = draft_of(module).to_string() if words.startswith("step ") else str(module)
    try:
        after = rewrite_of(words)(module)
    except HloError as error:
        return f"error: {error}\n"
    one, other = (re.sub(r"(?m)^ +", "", text).splitlines() for text in (before, after))
    lines = ndiff(one, other)
    return "".join(f"{line[0]}{line[2:]}\n" for line in lines if line[0] in "+-" and line[2:])


# --- which are kept ---


def kept() -> dict[tuple[str, str], str]:
    """What the file holds: what each rewrite makes of a module."""
    blocks = KEPT.read_text(encoding="utf-8").split("\n\n")
    found = {}
    for block in blocks:
        head, _, lines = block.partition("\n")
        source, _, words = head.partition(": ")
        found[source, words] = f"{lines.rstrip()}\n" if lines.strip() else ""
    return found


def _chosen() -> Iterator[tuple[str, str]]:
    seen: Arcs = set()
    for source in _sources():
        module = parse_module(text_of(source))
        if len(text_of(source)) > _LONG or module.errors:
            continue
        for words in _rewrites(module):
            _, ways = arcs(("transform",), partial(told, source, words))
            if len(ways - seen) >= _NEW:
                seen |= ways
                yield source, words


_NEW = 4
"""Ways from line to line that a rewrite must be the first to go: with fewer, most are of one condition."""


if __name__ == "__main__":
    if "--write" in sys.argv or "--choose" in sys.argv:
        names = list(_chosen() if "--choose" in sys.argv else kept())
        blocks = [f"{source}: {words}\n{told(source, words)}" for source, words in names]
        KEPT.write_text("\n".join(blocks), encoding="utf-8")
