"""What an operation is and may have: the rows of all opcodes by name, and the traits of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from hlo_cli.ir import operation_table
from hlo_cli.ir.operation_table import ANY, Operation, Trait

# --- all operations ---
# All operations of XLA: their operand counts, traits, attributes, and descriptions.
#
# Mirrors xla/hlo/ir/hlo_opcode.h. The rows are in `ir/operation_table.py`: adding an opcode is adding a row. An opcode
# is the string that XLA prints; unknown ones are kept unchanged. The sets hold the opcodes that share a trait.


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        operation.opcode: operation
        for family in (
            operation_table.ELEMENTWISE_ROWS,
            operation_table.DATA_MOVEMENT_ROWS,
            operation_table.COMPUTING_ROWS,
            operation_table.CONTROL_ROWS,
            operation_table.COMMUNICATION_ROWS,
        )
        for operation in family
    }
)
"""The row of every opcode."""
OPCODE_ARITY: Final = {opcode: operation.arity for opcode, operation in OPERATIONS.items()}
"""Every opcode with its number of operands; None if any number is allowed."""
OPERAND_COUNTS: Final = {opcode: operation.operand_counts for opcode, operation in OPERATIONS.items()}
"""The smallest and the largest number of operands. Old dumps have dots with more, new ones async-dones with several."""
EXACT_COUNTS: Final = {opcode: least for opcode, (least, most) in OPERAND_COUNTS.items() if least == most}
"""The number of operands of opcodes with a fixed number."""

CONTROL_PREDECESSORS: Final = "control-predecessors"
OUTPUT_TO_OPERAND_ALIASING: Final = "output_to_operand_aliasing"
CALLING_ATTRIBUTES: Final = (
    "calls",
    "to_apply",
    "body",
    "condition",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
    "select",
    "scatter",
)
"""The attributes that name computations, in the order in which XLA lists called computations."""


def having(trait: Trait) -> frozenset[str]:
    """The opcodes with a trait.

    >>> sorted(having("host feed"))
    ['infeed', 'outfeed']
    """
    return frozenset(opcode for opcode, operation in OPERATIONS.items() if trait in operation.traits)


def taking(*attributes: str) -> frozenset[str]:
    """The opcodes that require or allow one of these attributes, without sugared asynchronous ones.

    >>> sorted(taking("source_target_pairs"))
    ['collective-permute', 'collective-permute-start']
    """
    names = frozenset(attributes)
    return frozenset(opcode for opcode, operation in OPERATIONS.items() if not names.isdisjoint(operation.attributes))


APPLIERS: Final = having("applies")
ARGUMENT_OPCODES: Final = having("argument")
ASYNCHRONOUS: Final = having("asynchronous")
BLOCK_MOVES: Final = having("block")
COLLECTIVES: Final = having("collective")
COMMUTATIVE: Final = having("commutative")
CONTROL_FLOW: Final = having("control flow")
DEVICE_IDS: Final = having("device id")
ELEMENTWISE: Final = having("elementwise")
FIRST_DIMENSION: Final = having("first dimension")
FORWARDING: Final = having("forwards")
HOST_FEEDS: Final = having("host feed")
IN_PLACE: Final = having("in place")
MATMULS: Final = having("matmul")
MOVES: Final = having("moves data")
NO_KERNELS: Final = having("no kernel")
OTHER_TYPE: Final = having("other type")
OWN_KERNELS: Final = having("own kernel")
RANDOM_STATE: Final = having("random state")
SIDE_EFFECTS: Final = having("side effect")
TRANSCENDENTAL: Final = having("transcendental")
TRITON: Final = having("triton")
TRITON_OF_FLOATS: Final = having("triton float")
TRITON_OF_PREDICATES: Final = having("triton pred")

# As libtpu prints them; XLA's public sources have no such targets.
ASYNC_COLLECTIVE_START: Final = "AsyncCollectiveStart"
ASYNC_COLLECTIVE_DONE: Final = "AsyncCollectiveDone"
"""The custom-call targets of the roots of TPU fusions that start and end an asynchronous collective."""

NO_KERNEL_TARGETS: Final = frozenset(
    ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "LayoutConstraint", "control_dep")
)
"""Targets of custom calls that only tell a compiler something, or name memory."""

UNARY: Final = frozenset(opcode for opcode in ELEMENTWISE if OPCODE_ARITY[opcode] == 1)
BINARY: Final = frozenset(opcode for opcode in ELEMENTWISE if OPCODE_ARITY[opcode] == 2)
NATIVE_DONES: Final = {opcode: operation.done for opcode, operation in OPERATIONS.items() if operation.done is not None}
"""The done opcode of each opcode that starts an operation without a computation of its own."""
DONES: Final = having("done")
RUNNERS: Final = CONTROL_FLOW - DONES - having("update")
"""Opcodes that run the computations they call as control flow."""
CALLERS: Final = taking(*CALLING_ATTRIBUTES)
"""Opcodes that call computations, without sugared asynchronous ones."""
PERMUTES: Final = taking("source_target_pairs")
"""Collectives that send between pairs of devices."""
CHANNEL_OPCODES: Final = taking("is_host_transfer")
"""Sends and receives, and their dones."""
NATIVE_ENDS: Final = DONES - ASYNCHRONOUS
CHANNEL_STARTS: Final = CHANNEL_OPCODES - DONES
"""Sends and receives alone."""
ASYNC_CONTINUATIONS: Final = ASYNCHRONOUS - RUNNERS
"""The opcodes that continue an async-start: updates and done."""
# xla/service/spmd/spmd_partitioner.cc replaces them
ANNOTATIONS: Final = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"))
"""Targets of custom calls that annotate a value and forward it."""
_NATIVE_ASYNC: Final = frozenset(start.removesuffix("-start") for start in NATIVE_DONES)


def wrapped_opcode(opcode: str) -> str | None:
    """The operation in a sugared asynchronous opcode, or None for any other opcode.

    >>> wrapped_opcode("slice-start"), wrapped_opcode("copy-start"), wrapped_opcode("async-start")
    ('slice', None, None)
    """
    for suffix in ("-start", "-update", "-done"):
        wrapped = opcode.removesuffix(suffix)
        if wrapped != opcode and opcode not in OPCODE_ARITY:
            return wrapped if wrapped in OPCODE_ARITY and wrapped not in _NATIVE_ASYNC else None
    return None


def is_known(opcode: str) -> bool:
    """Whether XLA has this opcode, including sugared asynchronous ones.

    >>> is_known("add"), is_known("frob"), is_known("all-to-all-start")
    (True, False, True)
    """
    return opcode in OPCODE_ARITY or wrapped_opcode(opcode) is not None


def takes(opcode: str, count: int) -> bool:
    """Whether an operation may have this number of operands.

    >>> takes("add", 2), takes("add", 1), takes("frob", 7)
    (True, False, True)
    """
    least, most = OPERAND_COUNTS.get(opcode, (0, ANY))
    return least <= count <= most


# --- traits of attributes ---
# Which name computations, which only annotate, and where they are allowed.
#
# Analyses and rewrites use these; all other data on an attribute is in its row, `syntax/attribute_table.py`. The traits
# of asynchronous operations mirror `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.


AttributeTrait: TypeAlias = Literal[
    "annotates",  # allowed for any opcode, without effect on the computed values
    "of a start",  # stays on the start of a sugared asynchronous operation
    "of what is wrapped",  # shared by asynchronous operations and the one that they wrap
    "of a value",  # also valid for a parameter that replaces an instruction
    "of one run",  # differs between runs of the compiler on the same program
    "of the whole",  # of a module's header, and no longer true of a part of the module
]

_TRAITS: Final[dict[str, tuple[AttributeTrait, ...]]] = {
    "async_execution_thread": ("of a start",),
    "sharding": ("annotates", "of a start", "of a value"),
    "frontend_attributes": ("annotates", "of what is wrapped"),
    "parameter_replication": ("of a start",),
    CONTROL_PREDECESSORS: ("of a start",),
    "statistics": ("annotates", "of one run", "of what is wrapped"),
    "origin": ("annotates", "of one run", "of what is wrapped"),
    "metadata": ("annotates", "of a value", "of one run", "of what is wrapped"),
    "backend_config": ("annotates", "of what is wrapped"),
}
_TRAITS_OF_HEADERS: Final[dict[str, tuple[AttributeTrait, ...]]] = {
    "is_scheduled": ("of one run",),
    "input_output_alias": ("of the whole",),
    "buffer_donor": ("of the whole",),
    "alias_passthrough_params": ("of the whole",),
    "entry_computation_layout": ("of the whole",),
    "allow_spmd_sharding_propagation_to_parameters": ("of the whole",),
    "allow_spmd_sharding_propagation_to_output": ("of the whole",),
    "frontend_attributes": ("of one run",),
    "origin_recovery_table": ("of one run", "of the whole"),
    "debug_attributes": ("of one run", "of the whole"),
}

NAMING_ATTRIBUTES: Final = frozenset((*CALLING_ATTRIBUTES, CONTROL_PREDECESSORS))
"""Attributes whose value is names of computations or instructions."""


def attributes_with(trait: AttributeTrait) -> tuple[str, ...]:
    """The attributes of instructions with a trait, in the order in which XLA prints them.

    >>> attributes_with("of a value")
    ('sharding', 'metadata')
    """
    return tuple(name for name, traits in _TRAITS.items() if trait in traits)


def header_attributes_with(trait: AttributeTrait) -> tuple[str, ...]:
    """The attributes of headers with a trait.

    >>> header_attributes_with("of one run")
    ('is_scheduled', 'frontend_attributes', 'origin_recovery_table', 'debug_attributes')
    """
    return tuple(name for name, traits in _TRAITS_OF_HEADERS.items() if trait in traits)
