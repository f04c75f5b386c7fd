"""The operations of the user's program, known by their op_names, whatever compilers made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.analysis.origin.scopes_and_moves import generalize, scope_of
from hlo_cli.analysis.statements.layers import op_name_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex

OperationKey = tuple[str, str]
"""The scope of an operation, without numbers and loops, and its name."""

_NUMBER: Final = lazy_regex(r"\.[0-9]+$")
_EMPTY: Final = frozenset(("", "*"))


def scope_in_program(op_name: str) -> str:
    """The scope of an operation as the layers share it: without numbers and einsums.

    >>> scope_in_program("jit(f)/transpose(jvp(layers_2))/jvp(layers_2)/checkpoint/attention/dot_general")
    'layers_*/attention'
    """
    scope = generalize(scope_of(op_name))
    parts = [part for part in scope.split("/") if part not in _EMPTY and "->" not in part]
    return "/".join(part for at, part in enumerate(parts) if at == 0 or part != parts[at - 1])


def operation_key(op_name: str) -> OperationKey:
    """The key of an operation, equal in both passes and all layers.

    >>> operation_key("jit(f)/layers_0/mlp/dot_general")
    ('layers_*/mlp', 'dot_general')
    """
    name = op_name.rpartition("/")[2]
    return scope_in_program(op_name), "" if "(" in name else _NUMBER.sub("", name)


class Program:
    """The operations of a module: their keys, and whether a compiler has made kernels of them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._keys: frozenset[OperationKey] | None = None
        self._known: dict[str, OperationKey] = {}
        self.is_compiled = module.is_scheduled or any(each.opcode == opcodes.FUSION for each in module.instructions)

    @property
    def keys(self) -> frozenset[OperationKey]:
        """The keys of all operations."""
        if self._keys is None:
            names = {op_name_of(each) for each in self._module.instructions if each.opcode != opcodes.PARAMETER}
            self._keys = frozenset(map(self.key, names - {""}))
        return self._keys

    def key(self, op_name: str) -> OperationKey:
        """The key of an op_name."""
        if op_name not in self._known:
            self._known[op_name] = operation_key(op_name)
        return self._known[op_name]


def scopes_of(instructions: Iterable[Instruction]) -> tuple[str, ...]:
    """The distinct scopes of some instructions, in their order."""
    names = dict.fromkeys(filter(None, map(op_name_of, instructions)))
    return tuple(dict.fromkeys(scope for name in names if (scope := scope_in_program(name))))
