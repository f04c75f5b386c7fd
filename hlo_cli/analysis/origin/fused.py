"""Fusions: which instruction of a body XLA takes the metadata of a fusion and of its results from.

Derived from dumps of TPU compilers: a fusion has the metadata of its first root, before a matmul joined it, of which it
then has the metadata; its get-tuple-elements keep those of before.
"""

from __future__ import annotations

from collections.abc import Container

from hlo_cli.analysis.fusion.heroes import all_fused, heroes_of, roots_of
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import MATMULS


class FusionSources:
    """The instructions that fusions have their source locations from."""

    __slots__ = ("_found", "_sourced")

    def __init__(self, sourced: Container[Instruction]) -> None:
        """Takes the instructions with a source location of their own."""
        self._sourced = sourced
        self._found: dict[Instruction, tuple[Instruction | None, Instruction | None]] = {}

    def of(self, fusion: Instruction) -> Instruction | None:
        """The matmul of a fusion, else the instruction of its first result; None if none has a source location.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m
        ... f { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT c = f32[2] convert(n) }
        ... ENTRY e { q = f32[2] parameter(0)  ROOT r = f32[2] fusion(q), kind=kLoop, calls=f }'''
        >>> module = parse_module(text)
        >>> FusionSources({module.instruction("n")}).of(module.entry.root)
        <negate n>
        """
        return self._both(fusion)[0]

    def of_elements(self, fusion: Instruction) -> Instruction | None:
        """The instruction that elements of a fusion's result have their source location from, if a matmul joined it."""
        matmul, first = self._both(fusion)
        return first if matmul is not first else None

    def _both(self, fusion: Instruction) -> tuple[Instruction | None, Instruction | None]:
        if fusion not in self._found:
            body = fusion.called_computations[0] if fusion.called_computations else None
            self._found[fusion] = self._sources(body) if body is not None else (None, None)
        return self._found[fusion]

    def _sources(self, body: Computation) -> tuple[Instruction | None, Instruction | None]:
        inner = list(all_fused(body))
        first = self._first_result(body, inner)
        if any(each.opcode in MATMULS for each in inner):
            matmul = next((each for each in heroes_of(body) if each in self._sourced), None)
            return matmul or first, first
        return first, first

    def _first_result(self, body: Computation, inner: list[Instruction]) -> Instruction | None:
        """The first root, or that from which it is computed; else the last instruction with a source location."""
        made = next(iter(roots_of(body)), None)
        for _ in inner:
            if made is None or made in self._sourced:
                break
            made = made.operands[0] if made.operands else None
        if made is not None and made in self._sourced:
            return made
        return next((each for each in reversed(inner) if each in self._sourced), None)
