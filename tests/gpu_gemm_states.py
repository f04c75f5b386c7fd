"""Programs compiled for GPUs with the text of the module after each pass that changed it, and how two texts compare.

`fixtures/gpu_gemm/CHIP/PROGRAM.gz` holds texts under lines `=== PASS [pipeline]`; `fixtures/README.md` says how they
were made. `=== state [pipeline]` is the text just before the next pass of that pipeline.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpu_fusion_dumps import CHIPS
from hlo_cli import parse_module
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COMMUTATIVE

HOME = Path(__file__).parent.parent / "fixtures" / "gpu_gemm"
CORPUS = Path(os.environ.get("HLO_CORPUS", HOME))
_HEAD = re.compile(r"(?m)^=== (.*)\n")
SPLIT_K = "splitk-rewriter [hlo_normalization]"
GEMM = "triton-gemm-rewriter [hlo_normalization]"
HOIST = "hoist-fused-bitcasts [hlo_normalization]"
SWAP = "gemm-fusion-swap-operands [hlo_normalization]"
SOFTMAX = "triton-softmax-rewriter [hlo_normalization]"
PRIORITY = "priority-fusion [fusion]"
_NORMALIZATION = "state [hlo_normalization]"
GEMM_PASSES = (SPLIT_K, GEMM, HOIST, SWAP)


@dataclass(frozen=True)
class Program:
    """One compiled program."""

    path: Path

    @property
    def chip(self) -> str:
        """Name of the chip it was compiled for."""
        return CHIPS[self.path.parent.name]

    @cached_property
    def states(self) -> list[tuple[str, str]]:
        """Passes that changed the module, and its text after each."""
        parts = _HEAD.split(gzip.decompress(self.path.read_bytes()).decode())[1:]
        return list(zip(parts[::2], parts[1::2], strict=True))

    @property
    def passes(self) -> list[str]:
        """The passes that changed the module, in order."""
        return [name for name, _ in self.states]

    def around(self, one: str, passes: Sequence[str] = ()) -> tuple[str, str] | None:
        """The text before a pass, and after it; equal if it changed nothing, None if the program does not have both.

        `passes` are those of the pipeline in their order, of which some may have changed nothing.
        """
        names = self.passes
        if one in names:
            place = names.index(one)
            return self.states[place - 1][1], self.states[place][1]
        earlier = [name for name in passes[: passes.index(one)] if name in names] if passes else []
        start = earlier[-1] if earlier else _NORMALIZATION
        if start not in names:
            return None
        text = self.states[names.index(start)][1]
        return text, text

    def __str__(self) -> str:
        return f"{self.path.parent.name}-{self.path.name.removesuffix('.gz')}"


def programs(home: Path = HOME) -> list[Program]:
    """The programs of a directory, at any depth, for chips that are known."""
    return [Program(path) for path in sorted(home.glob("**/*.gz")) if path.parent.name in CHIPS]


# --- whether two modules are the same ---


_IGNORED = frozenset(
    ("metadata", "origin", "frontend_attributes", "calls", "to_apply", "sharding", "body", "condition")
)


def content(module: Module) -> str:
    """What a module computes, with which operations: names, order, and dead instructions do not count."""
    known: dict[Computation, str] = {}
    return _of_computation(module.entry, known)


def _of_computation(computation: Computation, known: dict[Computation, str]) -> str:
    if computation not in known:
        assert computation.root is not None
        found: dict[Instruction, str] = {}
        for instruction in computation.instructions:
            operands = [found[operand] for operand in instruction.operands]
            if instruction.opcode in COMMUTATIVE:
                operands.sort()
            attributes = sorted((k, v.replace(" ", "")) for k, v in instruction.pairs if k not in _IGNORED)
            called = [_of_computation(each, known) for each in instruction.called_computations]
            argument = instruction.raw[0].strip() if not instruction.operands else ""
            parts = (instruction.opcode, str(instruction.shape), operands, attributes, called, argument)
            found[instruction] = hashlib.sha1(repr(parts).encode()).hexdigest()[:12]
        known[computation] = found[computation.root]
    return known[computation]


def dots_of(module: Module) -> Iterator[Instruction]:
    """The dots of a module."""
    return (each for each in module.instructions if each.opcode == opcodes.DOT)


def same(one: Module, other: str, *, but: Callable[[Module], str] = content) -> bool:
    """Whether a module is the one of a text."""
    return but(parse_module(one.to_string())) == but(parse_module(other))
