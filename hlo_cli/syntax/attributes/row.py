"""What a row of the tables of attributes says: all that is known of one attribute.

What analyses ask of an attribute, who may not import this, is among the traits in `ir/attribute_traits.py`. A row is
for some opcodes; where an attribute of one name means different things there are several rows of that name.
What the kind of value asks for (how its text is read, which message holds it) lies where that kind is read: grammars
in `values/grammars.py`, messages in `proto/attributes.py`, so that no row loads either.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple


class Kind(Enum):
    """The grammars of attribute values, named as in XLA's `AttrTy`."""

    BOOL = auto()
    BOOLS = auto()
    BOOLS_OR_BOOL = auto()
    INT = auto()
    INT32 = auto()
    INTS = auto()
    INT_LISTS = auto()
    FLOAT = auto()
    STRING = auto()
    STRING_OR_JSON = auto()
    SHAPE = auto()
    SHAPES = auto()
    LITERAL = auto()
    COMPUTATION = auto()
    COMPUTATIONS = auto()
    INSTRUCTIONS = auto()
    ALGORITHM = auto()
    ALIASING = auto()
    API_VERSION = auto()
    BUFFER_DONORS = auto()
    COMPUTATION_LAYOUT = auto()
    CONVOLUTION_KIND = auto()
    DEBUG_ATTRIBUTES = auto()
    DIM_LABELS = auto()
    DIRECTION = auto()
    DISTRIBUTION = auto()
    DOMAIN = auto()
    FFT_TYPE = auto()
    FRONTEND_ATTRIBUTES = auto()
    FUSION_KIND = auto()
    GROUP_MODE = auto()
    METADATA = auto()
    OPERAND_ALIASING = auto()
    ORDER = auto()
    ORIGIN = auto()
    PADDING = auto()
    PADDING_TYPE = auto()
    PRECISIONS = auto()
    RANDOM_ALGORITHM = auto()
    RECOVERY_TABLE = auto()
    REPLICA_GROUPS = auto()
    RESULT_ACCURACY = auto()
    SCHEDULE = auto()
    SHARDING = auto()
    SLICE = auto()
    SPARSITY = auto()
    STATISTICS = auto()
    TRANSPOSE = auto()
    TYPE = auto()
    WINDOW = auto()

    __hash__ = object.__hash__
    """Kinds are looked up with every value that is read, and the hash of the name would take longer than the rest."""


class Place(Enum):
    """Where XLA prints an attribute (`HloInstruction::PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc)."""

    OWN = auto()
    """First, with what else is the opcode's own."""
    BEFORE_CONTROL = auto()
    """Behind called computations, in front of control predecessors; of whatever opcode."""
    BEHIND_CONTROL = auto()
    """Behind control predecessors, in front of metadata and backend_config; of whatever opcode."""
    ASIDE = auto()
    """By a rule of its own, as what differs from one instruction to the next; or not at all."""


class AttributeRow(NamedTuple):
    """One attribute with the kind of its value and what it means in words.

    It is of the opcodes whose rows in `ir/operation_table/` list it, and of all where none does; one that names
    `opcodes` itself is of these, in place of the other rows of its name. Whether it is `required` the rows of opcodes
    say, too: `table.attributes_of` fills that in.

    `words` are those that the value may be, with what each means; `label` is a short name. `is_old` marks what only
    versions before jaxlib 0.10.2 printed: known, but nothing that XLA reads today.

    In protos it stands in the `proto_field` of its instruction, or of its module where it is of a header: a path, where
    messages are in messages; of the same name unless one is given. Printing a proto, XLA leaves out what is zero,
    empty or `usual`, unless it is `required` or `always` printed.
    Writing one, it writes `unsaid` where a text does not say; what is forgotten it reads, and writes nowhere.

    Rows are named tuples, which are made in a sixth of the time that frozen dataclasses take.
    """

    name: str
    kind: Kind
    meaning: str = ""
    opcodes: str = ""
    label: str = ""
    words: Mapping[str, str] = MappingProxyType({})
    required: bool = False
    is_old: bool = False
    proto_field: str = ""
    place: Place = Place.OWN
    usual: tuple[str, ...] = ()
    always: bool = False
    unsaid: str | bool | None = None
    is_forgotten: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The fields that lead to the value in a proto.

        >>> AttributeRow("lower", Kind.BOOL, opcodes="cholesky", proto_field="cholesky_options.lower").path
        ('cholesky_options', 'lower')
        """
        return tuple((self.proto_field or self.name).split("."))

    @property
    def calls(self) -> bool:
        """Whether the value names computations."""
        return self.kind in _CALLING


_CALLING: Final = frozenset((Kind.COMPUTATION, Kind.COMPUTATIONS))
