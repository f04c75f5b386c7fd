"""A row of the tables of attributes: everything known of one attribute.

Analyses cannot import this; the traits that they need are in `ir/attribute_traits.py`. A row is for some opcodes; an
attribute whose meaning depends on the opcode has several rows of one name. Data that depends on the kind of value is
kept where that kind is read: grammars in `values/grammars.py`, messages in `proto/attributes.py`, so that no row
imports either.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple


class Kind(Enum):
    """The grammars of attribute values, named as in XLA's `AttrTy`."""

    BOOL = auto()
    BOOL_IF_GIVEN = auto()
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
    BLOCK_SCALING = auto()
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
    SHUFFLE_MODE = auto()
    SLICE = auto()
    SPARSITY = auto()
    STATISTICS = auto()
    TRANSPOSE = auto()
    TYPE = auto()
    WINDOW = auto()

    __hash__ = object.__hash__
    """Kinds are hashed for every value that is read, and hashing the name would take longer than the rest."""


class Place(Enum):
    """Where XLA prints an attribute (`HloInstruction::PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc)."""

    OWN = auto()
    """First, with the opcode's other attributes."""
    BEFORE_CONTROL = auto()
    """After called computations, before control predecessors; for all opcodes."""
    BEHIND_CONTROL = auto()
    """After control predecessors, before metadata and backend_config; for all opcodes."""
    ASIDE = auto()
    """By a rule of its own, as for values that differ by instruction; or not at all."""


class AttributeRow(NamedTuple):
    """One attribute with the kind of its value and its meaning in words.

    It applies to the opcodes whose rows in `ir/operation_table/` list it, and to all if none does; a row with `opcodes`
    applies to these, instead of other rows of its name. The rows of opcodes also determine whether it is `required`:
    `table.attributes_of` fills that in.

    `words` are the possible values with their meanings; `label` is a short name. `is_old` marks attributes that only
    versions before jaxlib 0.10.2 printed, and that XLA no longer reads.

    In protos the value is in the `proto_field` of its instruction, or of its module for a header: a path if messages
    are nested; by default, the name of the attribute. In text, XLA omits values that are zero, empty, or `usual`,
    unless the attribute is `required` or `always` printed. In protos, XLA writes `unsaid` where a text has no value;
    forgotten attributes are read but never written.

    Rows are named tuples, which are created in a sixth of the time of frozen dataclasses.
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
