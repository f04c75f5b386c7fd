"""Original values, the values of the program before compiler passes, and the tables of a module about them.

Mirrors xla/hlo/ir/hlo_original_value.h and `DebugAttributesProto` of xla/service/hlo.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.ir.strings import quoted
from hlo_cli.ir.words import DebugLogMode


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """An array of an instruction of the original program; without a name it is unknown.

    >>> str(OriginalArray("foo", (1,))), str(OriginalArray("foo")), str(OriginalArray())
    ('{"foo" {1}}', '{"foo"}', '{}')
    """

    instruction_name: str = ""
    shape_index: ShapeIndex = ()

    def __str__(self) -> str:
        if not self.instruction_name:
            return "{}"
        index = f" {index_text(self.shape_index)}" if self.shape_index else ""
        return f'{{"{self.instruction_name}"{index}}}'


@dataclass(frozen=True, slots=True)
class OriginalTuple:
    """A tuple of original values."""

    elements: tuple[OriginalArray | OriginalTuple, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.elements)) + ")"


@dataclass(frozen=True, slots=True)
class OriginalValue:
    """The original value of an instruction: a tree like its shape, or None for a call that the compiler made.

    `call_hierarchy` are the calls around the original instruction. Since jaxlib 0.12, an empty one marks a call that
    the compiler made; without one, such a call is printed as before.

    >>> str(OriginalValue(OriginalTuple((OriginalArray("a"), OriginalArray()))))
    '{({"a"}, {})}'
    >>> str(OriginalValue(OriginalArray("a"), "call.1")), str(OriginalValue(None, "")), str(OriginalValue(None))
    ('{{"a"},["call.1"]}', '{(),[""]}', '{[synthetic_call]}')
    """

    tree: OriginalArray | OriginalTuple | None
    call_hierarchy: str | None = None

    def __str__(self) -> str:
        if self.call_hierarchy is None:
            return "{[synthetic_call]}" if self.tree is None else f"{{{self.tree}}}"
        return f"{{{'()' if self.tree is None else self.tree},[{quoted(self.call_hierarchy)}]}}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The computation of an array of the original program from one that still exists, as a module in text form."""

    old: OriginalArray
    new: OriginalArray
    module: str = ""

    def __str__(self) -> str:
        module = self.module.replace("\\", "\\\\").replace('"', '\\"')
        return f"{self.old} : {self.new}" + (f', "{module}"' if module else "")


@dataclass(frozen=True, slots=True)
class RecoveryTable:
    """The recovery of lost arrays of the original program; printed on one line, where XLA uses several.

    >>> str(RecoveryTable((Recovery(OriginalArray("a"), OriginalArray("b")),)))
    '{ {"a"} : {"b"} }'
    """

    entries: tuple[Recovery, ...]

    def __str__(self) -> str:
        return "{ " + " ".join((*map(str, self.entries), "}"))


@dataclass(frozen=True, slots=True)
class DebugAttributes:
    """The log settings of an instruction.

    >>> str(DebugAttributes(DebugLogMode.DEFAULT, op_id=3))
    '{log_mode=default,op_id=3}'
    """

    log_mode: DebugLogMode | None = None
    callback_id: int = 0
    partitioned: bool = False
    op_id: int = 0

    def __str__(self) -> str:
        fields = [f"log_mode={self.log_mode}"] if self.log_mode is not None else []
        fields += [f"callback_id={self.callback_id}"] if self.callback_id else []
        fields += ["partitioned=true"] if self.partitioned else []
        fields += [f"op_id={self.op_id}"] if self.op_id else []
        return "{" + ",".join(fields) + "}"


@dataclass(frozen=True, slots=True)
class DebuggedArray:
    """An array of the original program, and its log settings."""

    array: OriginalArray
    attributes: tuple[DebugAttributes, ...]

    def __str__(self) -> str:
        return f"{self.array}:({', '.join(map(str, self.attributes))})"
