"""What every attribute means, in words; where the value is one of a few words, what that one means."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hlo_cli.report.numbers import format_count

_ATTRIBUTES: Final[dict[str, str]] = {
    "algorithm": "the arithmetic: types of operands, accumulator and result",
    "all_gather_dimension": "the dimension along which the parts are joined; an old spelling",
    "api_version": "how the compiled program calls the target",
    "async_execution_thread": "who runs it meanwhile",
    "async_group_id": "pairs the start with its done; an old spelling",
    "backend_config": "settings of the compiler's backend for this instruction",
    "batch_group_count": "the batch is cut into so many groups that do not mix",
    "body": "runs once a round of the loop",
    "branch_computations": "the branches, chosen by number",
    "called_computations": "computations that the target may call",
    "calls": "the computation that it runs",
    "channel_id": "which instructions on different devices belong together",
    "collapsed_slice_dims": "slice dimensions of size 1 that the result leaves out",
    "condition": "says before each round whether to go on",
    "constrain_layout": "whether layout assignment has to keep the layouts",
    "control-predecessors": "these have to run before it, though no value says so",
    "conv_kind": "which of training's three convolutions it is; an old spelling",
    "convolution_kind": "which of training's three convolutions it is",
    "cross_program_prefetch_index": "fetched while the previous run ends; which such fetch it is",
    "custom_call_has_side_effect": "whether it must run even if nobody uses its result",
    "custom_call_target": "the name under which the code is registered",
    "delta": "how far the state moves on",
    "dimensions": "the dimensions that it works on",
    "direction": "which comparison",
    "distribution": "how the numbers are distributed",
    "domain": "the attribute's values on both sides",
    "dynamic_slice_sizes": "the sizes of the block",
    "epsilon": "added to the variance, so that nothing is divided by zero",
    "exponent_bits": "bits that are left for the exponent",
    "false_computation": "runs if the first operand is false",
    "feature_group_count": "the features are cut into so many groups that do not mix",
    "feature_index": "which dimension counts the features",
    "fft_length": "how many points each transform has",
    "fft_type": "which transform",
    "frontend_attributes": "notes of the framework that made the program",
    "has_dynamic_root": "whether the sender is known only when the program runs",
    "index": "which element, counted from 0",
    "index_vector_dim": "the dimension of the indices that holds one place",
    "indices_are_sorted": "whether the places are known to rise",
    "infeed_config": "settings of the infeed",
    "inferred_dimension": "the result dimension whose size followed from the others",
    "input_batching_dims": "array dimensions that go with batch dimensions of the indices",
    "inserted_window_dims": "array dimensions of window size 1 that the updates leave out",
    "iota_dimension": "the dimension along which it counts",
    "is_associative": "whether the steps may be grouped in any way",
    "is_composite": "whether the call stands for one operation of the framework",
    "is_cross_program_prefetch": "whether it is fetched while the previous run ends; an old spelling",
    "is_host_transfer": "whether the other side is the host",
    "is_reverse": "whether it runs from the end",
    "is_stable": "whether equal elements keep their sequence",
    "k": "how many are wanted",
    "kind": "what sort of kernel",
    "largest": "whether the largest are wanted, else the smallest",
    "left_side": "whether the triangular matrix stands on the left of the unknown",
    "lhs_batch_dims": "batch dimensions of the first operand, paired with those of the second",
    "lhs_contracting_dims": "dimensions of the first operand that are summed over",
    "lhs_ragged_dims": "the dimension whose groups differ in size",
    "literal": "a constant that the target gets",
    "lower": "whether the lower triangle counts, else the upper",
    "mantissa_bits": "bits that are left for the mantissa",
    "mode": "how the groups are counted; XLA ignores it",
    "num_carries": "how many values are carried from step to step",
    "offset_dims": "result dimensions that run within a slice",
    "operand_batching_dims": "operand dimensions that go with batch dimensions of the indices",
    "operand_layout_constraints": "the layouts that the target wants its operands in",
    "operand_precision": "how exact the product of each operand has to be",
    "order": "how floats are compared; an old spelling",
    "origin": "which instruction it was before optimization",
    "outfeed_config": "settings of the outfeed",
    "outfeed_shape": "the shape in which the host gets it",
    "output_to_operand_aliasing": "results that lie in the same memory as an operand",
    "padding": "low_high of each dimension, a third number between the elements",
    "padding_type": "how the edges of windows are filled",
    "parameter_replication": "for each leaf whether all replicas get the same",
    "replica_groups": "which devices work together",
    "result_accuracy": "how exact the result has to be",
    "rhs_batch_dims": "batch dimensions of the second operand",
    "rhs_contracting_dims": "dimensions of the second operand that are summed over",
    "rhs_group_dims": "dimensions of the second operand that count the groups",
    "scatter": "joins what falls on the same element",
    "scatter_dims_to_operand_dims": "array dimensions that an index counts along",
    "scatter_indices_batching_dims": "batch dimensions of the indices",
    "schedule": "when the scheduler should place it",
    "select": "chooses between two elements of a window",
    "sharding": "how the value is divided among devices",
    "slice": "start:limit:stride of each dimension",
    "slice_sizes": "the sizes of one slice",
    "source_target_pairs": "who sends to whom",
    "sparsity": "which operand is sparse; an old spelling",
    "sparsity_config": "which operands are sparse, and how",
    "split_dimension": "the dimension along which parts are cut; an old spelling",
    "start_index_map": "operand dimensions that an index counts along",
    "start_indices_batching_dims": "batch dimensions of the indices",
    "statistics": "numbers that a profiler attached",
    "to_apply": "the computation that it applies",
    "transpose_a": "whether the triangular matrix is turned first",
    "true_computation": "runs if the first operand is true",
    "type": "how the numbers are compared",
    "unique_indices": "whether no two updates fall on the same place",
    "unit_diagonal": "whether the diagonal counts as ones",
    "update_window_dims": "update dimensions that run within a window",
    "use_global_device_ids": "whether groups list devices of the whole run, not replicas",
    "window": "the window that slides over the array",
}

_BY_OPCODE: Final[dict[str, str]] = {
    "all-gather.dimensions": "the dimension along which the parts are joined",
    "all-gather-start.dimensions": "the dimension along which the parts are joined",
    "all-to-all.dimensions": "the dimension that is cut into parts",
    "broadcast.dimensions": "where in the result each operand dimension goes",
    "concatenate.dimensions": "the dimension along which they are joined",
    "get-dimension-size.dimensions": "whose size",
    "map.dimensions": "the dimensions it runs over: all of them",
    "reduce.dimensions": "the dimensions that are reduced away",
    "reduce-scatter.dimensions": "the dimension that is cut into parts, one a device",
    "reverse.dimensions": "the dimensions that are turned round",
    "scan.dimensions": "the dimension it runs along",
    "set-dimension-size.dimensions": "whose size",
    "sort.dimensions": "the dimension along which it sorts",
    "transpose.dimensions": "which operand dimension each result dimension is",
    "sort.to_apply": "says which of two elements comes first",
    "call.to_apply": "the computation that is called",
    "rng-bit-generator.algorithm": "how the bits are made",
    "fusion.calls": "what is inside the kernel",
    "collective-permute.slice_sizes": "the sizes of what is sent",
    "collective-permute-start.slice_sizes": "the sizes of what is sent",
}

_VALUES: Final[dict[str, dict[str, str]]] = {
    "kind": {
        "kLoop": "a loop over the elements of the result",
        "kInput": "a loop over the elements of an operand, for a reduction or a scatter at its end",
        "kOutput": "a convolution or product and the work on its result",
        "kCustom": "a pattern that the backend knows by name",
    },
    "direction": {
        "EQ": "equal", "NE": "not equal", "GE": "greater or equal", "GT": "greater",
        "LE": "less or equal", "LT": "less",
    },
    "type": {
        "FLOAT": "as floats: nothing equals nan",
        "TOTALORDER": "as floats in total order: -nan, -inf, … -0, 0, … inf, nan",
        "SIGNED": "as signed integers",
        "UNSIGNED": "as unsigned integers",
    },
    "fft_type": {
        "FFT": "complex to complex", "IFFT": "complex to complex, inverse",
        "RFFT": "real to complex", "IRFFT": "complex to real, inverse",
    },
    "distribution": {"rng_uniform": "uniform between two limits", "rng_normal": "normal with mean and deviation"},
    "transpose_a": {
        "NO_TRANSPOSE": "the matrix as it is", "TRANSPOSE": "transposed", "ADJOINT": "transposed and conjugated",
    },
    "convolution_kind": {
        "fprop": "the forward pass", "wgrad": "the kernel's gradient", "dgrad": "the input's gradient",
    },
    "api_version": {
        "API_VERSION_STATUS_RETURNING": "an old form that can report an error",
        "API_VERSION_STATUS_RETURNING_UNIFIED": "an old form, the same on CPU and GPU",
        "API_VERSION_TYPED_FFI": "typed buffers and attributes, the present form",
    },
    "schedule": {"SCHEDULE_LATEST": "as late as possible", "SCHEDULE_EARLIEST": "as early as possible"},
    "padding_type": {"PADDING_VALID": "windows stay inside", "PADDING_SAME": "the result is as large as the operand"},
}  # fmt: skip

_LABELS: Final[dict[str, str]] = {
    "async_execution_thread": "thread",
    "backend_config": "backend",
    "branch_computations": "branches",
    "called_computations": "calls",
    "control-predecessors": "after",
    "custom_call_has_side_effect": "side effect",
    "custom_call_target": "target",
    "dynamic_slice_sizes": "block",
    "false_computation": "false",
    "frontend_attributes": "frontend",
    "iota_dimension": "dimension",
    "lhs_batch_dims": "lhs batch",
    "lhs_contracting_dims": "lhs sum",
    "operand_layout_constraints": "layouts",
    "operand_precision": "precision",
    "output_to_operand_aliasing": "aliases",
    "replica_groups": "groups",
    "rhs_batch_dims": "rhs batch",
    "rhs_contracting_dims": "rhs sum",
    "source_target_pairs": "pairs",
    "true_computation": "true",
    "use_global_device_ids": "global ids",
}
_WINDOW: Final = {
    "stride": "in steps of",
    "pad": "low_high padding",
    "lhs_dilate": "array dilated by",
    "rhs_dilate": "window dilated by",
    "rhs_reversal": "reversed where 1:",
}
_IOTA_GROUPS = re.compile(r"\[([0-9]{1,18}),([0-9]{1,18})\]<=")
_GROUP = re.compile(r"\{([\d,\s]*)\}")


def describe_attribute(opcode: str, name: str, value: str) -> str:
    """What an attribute says about an instruction of this opcode; empty if it is not known.

    >>> describe_attribute("fusion", "kind", "kLoop"), describe_attribute("transpose", "dimensions", "{1,0}")
    ('a loop over the elements of the result', 'which operand dimension each result dimension is')
    """
    if name in _COMPUTED and (said := _COMPUTED[name](value)):
        return said
    if (known := _VALUES.get(name, {}).get(value.strip('"'))) is not None:
        return known
    return _BY_OPCODE.get(f"{opcode}.{name}") or _ATTRIBUTES.get(name, "")


def attribute_label(name: str) -> str:
    """A short name for an attribute, to stand in front of its value.

    >>> attribute_label("lhs_contracting_dims"), attribute_label("kind")
    ('lhs sum', 'kind')
    """
    return _LABELS.get(name, name)


def _settings(value: str) -> str:
    """The settings of a backend that hold anything, by their keys."""
    import json

    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    said = [f"{key} {held}" if isinstance(held, int | str) else str(key) for key, held in found.items() if held]
    return f"of the compiler's backend: {', '.join(said)}" if said else "of the compiler's backend: all empty"


def _groups(value: str) -> str:
    if (iota := _IOTA_GROUPS.match(value)) is not None:
        return f"{format_count(int(iota[1]), 'groups')} of {format_count(int(iota[2]), 'devices')}"
    if value.replace(" ", "") in ("{}", "{{}}"):
        return "all devices in one group"
    sizes = {len(group.split(",")) for group in _GROUP.findall(value[1:])} if value.startswith("{") else set()
    number = len(_GROUP.findall(value[1:])) if sizes else 0
    return f"{format_count(number, 'groups')} of {format_count(sizes.pop(), 'devices')}" if len(sizes) == 1 else ""


def _labels(value: str) -> str:
    parts = re.fullmatch(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)", value)
    if parts is None:
        return "which dimension of operands and result is what"
    return f"operands {parts[1]} and {parts[2]}, result {parts[3]}: b batch, f feature, i in, o out, digits space"


def _window(value: str) -> str:
    fields = dict(part.split("=", 1) for part in value.strip("{}").split() if "=" in part)
    said = [f"{fields['size'].replace('x', ' × ')} elements"] if "size" in fields else []
    said += [f"{words} {fields[name].replace('x', ' × ')}" for name, words in _WINDOW.items() if name in fields]
    return ", ".join(said)


_COMPUTED: Final[dict[str, Callable[[str], str]]] = {
    "backend_config": _settings,
    "replica_groups": _groups,
    "dim_labels": _labels,
    "window": _window,
}
