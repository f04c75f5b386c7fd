"""Traits of attributes: which name computations, which only annotate, and where they are allowed.

Analyses and rewrites use these; all other data on an attribute is in its row, `syntax/attributes/`. The traits of
asynchronous operations mirror `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from hlo_cli.ir.operations import CALLING_ATTRIBUTES

Trait: TypeAlias = Literal[
    "annotates",  # allowed for any opcode, without effect on the computed values
    "of a start",  # stays on the start of a sugared asynchronous operation
    "of what is wrapped",  # shared by asynchronous operations and the one that they wrap
    "of a value",  # also valid for a parameter that replaces an instruction
    "of one run",  # differs between runs of the compiler on the same program
    "of the whole",  # of a module's header, and no longer true of a part of the module
]

_TRAITS: Final[dict[str, tuple[Trait, ...]]] = {
    "async_execution_thread": ("of a start",),
    "sharding": ("annotates", "of a start", "of a value"),
    "frontend_attributes": ("annotates", "of what is wrapped"),
    "parameter_replication": ("of a start",),
    "control-predecessors": ("of a start",),
    "statistics": ("annotates", "of one run", "of what is wrapped"),
    "origin": ("annotates", "of one run", "of what is wrapped"),
    "metadata": ("annotates", "of a value", "of one run", "of what is wrapped"),
    "backend_config": ("annotates", "of what is wrapped"),
}
_TRAITS_OF_HEADERS: Final[dict[str, tuple[Trait, ...]]] = {
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

NAMING_ATTRIBUTES: Final = frozenset((*CALLING_ATTRIBUTES, "control-predecessors"))
"""Attributes whose value is names of computations or instructions."""


def attributes_with(trait: Trait) -> tuple[str, ...]:
    """The attributes of instructions with a trait, in the order in which XLA prints them.

    >>> attributes_with("of a value")
    ('sharding', 'metadata')
    """
    return tuple(name for name, traits in _TRAITS.items() if trait in traits)


def header_attributes_with(trait: Trait) -> tuple[str, ...]:
    """The attributes of headers with a trait.

    >>> header_attributes_with("of one run")
    ('is_scheduled', 'frontend_attributes', 'origin_recovery_table', 'debug_attributes')
    """
    return tuple(name for name, traits in _TRAITS_OF_HEADERS.items() if trait in traits)
