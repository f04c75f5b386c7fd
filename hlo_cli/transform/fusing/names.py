"""Unique names as XLA makes them: the wanted name, or with the next free number.

Mirrors xla/service/name_uniquer.cc, and the names of clones of xla/hlo/ir/hlo_instruction.cc.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.ir.module import Module


class Names:
    """Names in use, by the part before their number.

    >>> names = Names(("add", "add.2", "fusion"))
    >>> [names.new(wanted) for wanted in ("add", "add", "add.7", "add.7", "sub")]
    ['add.1', 'add.3', 'add.7', 'add.4', 'sub']
    """

    __slots__ = ("_next", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        for name in taken:
            self.new(name)

    def new(self, wanted: str) -> str:
        """Reserves and returns an unused name that resembles `wanted`."""
        stem, dot, digits = wanted.rpartition(".")
        if not (stem and dot and digits.isdecimal()):
            stem, digits = wanted, ""
        taken = self._taken.get(stem)
        if taken is None:
            taken = self._taken[stem] = set()
        number = int(digits or 0)
        if number in taken:
            number = self._next.get(stem, 0)
            while number in taken:
                number += 1
            self._next[stem] = number + 1
        taken.add(number)
        return f"{stem}.{number}" if number or digits else stem


def name_of_clone(name: str) -> str:
    """Name for a clone: with suffix `.clone`, or `.clone` and a number for further clones (`HloInstruction::Clone`).

    >>> [name_of_clone(name) for name in ("add.3", "add.3.clone", "add.3.clone2", "add.3.clone.1")]
    ['add.3.clone', 'add.3.clone2', 'add.3.clone3', 'add.3.clone.1.clone']
    """
    stem, mark, suffix = name.rpartition(".clone")
    # Clone avoids names such as `add.clone.clone`: it counts in the suffix, without a dot.
    if mark and not suffix:
        return f"{name}2"
    if mark and suffix.isdecimal():
        return f"{stem}.clone{int(suffix) + 1}"
    return f"{name}.clone"


class ModuleNames:
    """Names of the instructions and of the computations of a module, which are separate."""

    __slots__ = ("computations", "instructions")

    def __init__(self, module: Module) -> None:
        self.instructions = Names(instruction.name for instruction in module.instructions)
        self.computations = Names(computation.name for computation in module.computations)
