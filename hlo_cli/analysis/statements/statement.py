"""Statements about two modules: what an engineer changed or a compiler did, each with the rows that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Fold:
    """The rows of a diff that one statement explains; each row is in one fold at most."""

    changed: tuple[Changed, ...] = ()
    added: tuple[Instruction, ...] = ()
    removed: tuple[Instruction, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows.

        >>> Fold().rows
        0
        """
        return len(self.changed) + len(self.added) + len(self.removed)

    @property
    def before(self) -> Iterator[Instruction]:
        """The instructions of the old module."""
        yield from (each.before for each in self.changed)
        yield from self.removed

    @property
    def after(self) -> Iterator[Instruction]:
        """The instructions of the new module."""
        yield from (each.after for each in self.changed)
        yield from self.added


@dataclass(frozen=True, slots=True)
class Substitution:
    """A number or a word that takes the place of another one throughout."""

    before: str
    after: str

    def __str__(self) -> str:
        """As text.

        >>> print(Substitution("256", "320"))
        256 → 320
        """
        return f"{self.before or 'none'} → {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class DimensionChange:
    """A size of dimensions changed everywhere, and with it its multiples.

    `name` is what users call the dimension, such as `hidden size`; empty where the arguments do not tell. `also` are
    the other sizes with the same factor, `with_it` the sizes that changed in the same shapes by another factor.
    `is_internal` says that no argument of a compiled module has the size, so that compilers may have chosen it.
    """

    name: str
    change: Substitution
    also: tuple[Substitution, ...]
    with_it: tuple[Substitution, ...]
    shapes: int
    is_internal: bool = False
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class TypeChange:
    """An element type took the place of another one; `arguments` is the name that the changed arguments share."""

    change: Substitution
    shapes: int
    converts_added: int
    converts_removed: int
    arguments: str
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Layers that only one module has; `like` is the layer of both modules that is most alike."""

    is_added: bool
    layers: tuple[str, ...]
    like: str
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class TripCountChange:
    """Loops that run another number of iterations; `shapes` is the number of shapes that have this number too."""

    loops: tuple[str, ...]
    before: int
    after: int
    shapes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class LoopChange:
    """Loops that only one module has, with their trip counts; `others` are instructions of the other module instead."""

    is_added: bool
    loops: int
    trips: tuple[int, ...]
    inside: int
    others: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """Arguments of the entry that only one module has: their labels, and their bytes."""

    is_added: bool
    labels: tuple[str, ...]
    shape: str
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ResultChange:
    """Results of the entry that only one module has: their numbers there, and the bytes.

    `shape` is empty if there are several, and `opcode` is that of what computes a single one.
    """

    is_added: bool
    numbers: tuple[int, ...]
    shape: str
    opcode: str
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class InterfaceChange:
    """Arguments or results that both modules have, in another form.

    `places` has for each its name, such as `1 (w2)`, and what changed: its number, label, shape, type, or layout.
    """

    part: Literal["argument", "result"]
    form: InterfaceForm
    places: tuple[tuple[str, Substitution], ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ProductChange:
    """Matrix products and convolutions that take operands of another element type; `names` are the instructions.

    `is_by_compiler` says that no conversion of the program is added or removed: compilers for TPUs round operands.
    """

    opcode: str
    change: Substitution
    names: tuple[str, ...]
    is_by_compiler: bool
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class DonationChange:
    """The number of arrays that arguments and results share, and the labels of the arguments where this changed."""

    before: int
    after: int
    labels: tuple[str, ...]
    bytes: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collectives of one kind: how many, and the bytes of their results."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CollectiveChange:
    """Collectives that took the place of others; one side is empty if they were added or removed."""

    before: tuple[Collectives, ...]
    after: tuple[Collectives, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ShardingChange:
    """Another mesh, number of devices, or shardings; meshes and numbers are empty where they are equal or unknown.

    `shapes` is the number of shapes that changed with it, `dimensions` how.
    """

    mesh: Substitution | None
    devices: Substitution | None
    shardings: int
    shapes: int
    dimensions: tuple[Substitution, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class OperationChange:
    """Operations of the program that took the place of others, were added, or removed, in one scope.

    An empty `scope` is the whole program. `counts` has operations with both numbers, if compilers may have
    fused them differently.
    """

    scope: str
    counts: tuple[tuple[str, int, int], ...] = ()
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class RematerializationChange:
    """Values that only one module computes again in the backward pass."""

    is_added: bool
    instructions: int
    scopes: tuple[str, ...]
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class ValueChange:
    """Constants, attributes, or configurations that changed in one way; `subject` says what changed.

    `names` are the instructions, and `shapes` is the number of shapes that changed because of it.
    """

    kind: ValueKind
    subject: str
    changes: tuple[tuple[Substitution, int], ...]
    instructions: int
    names: tuple[str, ...] = ()
    shapes: int = 0
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class CompilationChange:
    """Instructions that a compiler made differently from the same operations.

    `kernels` are the kinds of kernels whose number changed; `program` says whether the program is the same, so that
    it is another compiler or other flags; or that only one of the modules is compiled.
    """

    kernels: tuple[tuple[str, int, int], ...]
    program: Sameness
    instructions: int
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """Metadata that changed; `is_whole` says that nothing else did.

    `change` is what changed in many op_names, and `names` are the instructions.
    """

    kind: MetadataKind
    instructions: int
    is_whole: bool
    change: Substitution | None = None
    names: tuple[str, ...] = ()
    fold: Fold = Fold()


@dataclass(frozen=True, slots=True)
class HeaderChange:
    """Fields of the header that changed by themselves, each with both texts."""

    fields: tuple[tuple[str, Substitution], ...]
    fold: Fold = Fold()


Sameness = Literal["same", "alike", "nearly", "other", "stage", "unknown"]
MetadataKind = Literal["source", "names", "metadata"]
ValueKind = Literal[
    "constants", "attribute", "backend_config", "opcode", "layout", "tiling", "memory_space", "shape", "operands"
]
InterfaceForm = Literal["renamed", "reordered", "transposed", "reshaped", "type", "shape", "layout", "computed"]


Statement: TypeAlias = (
    DimensionChange
    | TypeChange
    | LayerChange
    | TripCountChange
    | LoopChange
    | ArgumentChange
    | ResultChange
    | InterfaceChange
    | ProductChange
    | DonationChange
    | CollectiveChange
    | ShardingChange
    | OperationChange
    | RematerializationChange
    | ValueChange
    | CompilationChange
    | MetadataChange
    | HeaderChange
)
