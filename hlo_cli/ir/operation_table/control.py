"""Operations that order, group, and call others, and those that take arguments or communicate with the host."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.operation import Operation

ROWS: Final = (
    Operation(
        "add-dependency",
        2,
        "Returns its operand after a token is ready",
        "the second operand is the token",
        ("forwards", "no kernel"),
    ),
    Operation(
        "after-all",
        None,
        "Joins tokens",
        "the result is ready when all operands are",
        ("no kernel",),
    ),
    Operation(
        "call",
        None,
        "Calls a computation",
        "the operands are its arguments",
        ("control flow", "no kernel"),
        required=("to_apply",),
        optional=("is_composite",),
    ),
    Operation(
        "conditional",
        None,
        "Runs one of several branches",
        "the first operand selects the branch; each branch has one argument",
        ("control flow", "no kernel"),
        optional=("true_computation", "false_computation", "branch_computations"),
        least=2,
    ),
    Operation(
        "custom-call",
        None,
        "Calls external code",
        "custom_call_target names it; opaque to XLA",
        ("in place", "needs shape"),
        required=("custom_call_target",),
        optional=(
            "output_to_operand_aliasing",
            "to_apply",
            "window",
            "dim_labels",
            "feature_group_count",
            "batch_group_count",
            "operand_precision",
            "algorithm",
            "padding_type",
            "operand_layout_constraints",
            "custom_call_has_side_effect",
            "literal",
            "schedule",
            "api_version",
            "called_computations",
        ),
    ),
    Operation(
        "domain",
        1,
        "Marks a domain boundary",
        "between instructions that differ in an attribute, such as sharding",
        ("forwards", "no kernel"),
        required=("domain",),
    ),
    Operation(
        "fusion",
        None,
        "Runs a fused computation",
        "a group of instructions compiled into one kernel",
        ("in place", "needs shape"),
        required=("calls", "kind"),
        optional=("output_to_operand_aliasing",),
    ),
    Operation(
        "get-tuple-element",
        1,
        "Extracts a tuple element",
        "no data movement",
        ("moves data", "no kernel"),
        required=("index",),
    ),
    Operation(
        "infeed",
        1,
        "Reads from the host",
        "returns the data and a token",
        ("host feed", "needs shape", "side effect"),
        optional=("infeed_config",),
    ),
    Operation(
        "opt-barrier",
        1,
        "Returns its operand unchanged",
        "optimization barrier: passes do not move operations across it",
        ("forwards", "moves data", "needs shape", "no kernel"),
    ),
    Operation(
        "outfeed",
        2,
        "Writes to the host",
        "the last operand is a token",
        ("host feed", "needs shape", "side effect"),
        optional=("outfeed_shape", "outfeed_config"),
    ),
    Operation(
        "parameter",
        0,
        "Parameter of the computation",
        "an argument of the computation; the number is its position",
        ("argument", "needs shape", "no kernel"),
    ),
    Operation(
        "partition-id", 0, "Returns the id of this partition", "the result is a u32 scalar", ("device id", "no kernel")
    ),
    Operation(
        "replica-id", 0, "Returns the id of this replica", "the result is a u32 scalar", ("device id", "no kernel")
    ),
    Operation(
        "tuple", None, "Builds a tuple", "a table of pointers to the elements, which are not copied", ("no kernel",)
    ),
    Operation(
        "while",
        1,
        "Runs a loop",
        "runs body while condition is true; both take the loop state",
        ("control flow", "no kernel"),
        required=("condition", "body"),
    ),
)
