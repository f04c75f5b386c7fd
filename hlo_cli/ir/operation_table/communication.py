"""Collectives, transfers to other programs and the host, and all asynchronous operations."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.operation import Operation

_ASYNC: Final = "what runs meanwhile stands between this and its -done"
_WAIT: Final = "gives the result; nothing that needs it can run before"
_GROUPS: Final = "devices work together in replica groups"
_CHANNEL: Final = ("channel_id", "is_host_transfer")
_GROUPED: Final = ("channel_id", "replica_groups")
_ON_ARRAYS: Final = (*_GROUPED, "constrain_layout", "use_global_device_ids")
_THREAD: Final = ("async_execution_thread", "async_group_id")

ROWS: Final = (
    Operation(
        "all-gather",
        None,
        "Gathers parts from devices",
        f"joined along one dimension; {_GROUPS}",
        ("collective", "first dimension", "needs shape"),
        required=("dimensions",),
        optional=(*_ON_ARRAYS, "all_gather_dimension"),
        least=1,
    ),
    Operation(
        "all-gather-start",
        None,
        "Starts to gather parts from devices",
        _ASYNC,
        ("first dimension", "needs shape", "side effect", "start"),
        required=("dimensions",),
        optional=(*_ON_ARRAYS, "all_gather_dimension"),
        least=1,
        done="all-gather-done",
    ),
    Operation("all-gather-done", 1, "Waits for an all-gather", _WAIT, ("done", "needs shape", "side effect")),
    Operation(
        "all-reduce",
        None,
        "Reduces across devices",
        f"every device gets the result; {_GROUPS}",
        ("collective", "needs shape"),
        required=("to_apply",),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
    ),
    Operation(
        "all-reduce-start",
        None,
        "Starts to reduce across devices",
        _ASYNC,
        ("in place", "needs shape", "side effect", "start"),
        required=("to_apply",),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
        done="all-reduce-done",
    ),
    Operation("all-reduce-done", 1, "Waits for an all-reduce", _WAIT, ("done", "needs shape", "side effect")),
    Operation(
        "all-to-all",
        None,
        "Exchanges parts between devices",
        f"part i goes to device i of the group; {_GROUPS}",
        ("collective", "needs shape"),
        optional=(*_GROUPED, "constrain_layout", "split_dimension", "dimensions"),
        least=1,
    ),
    Operation(
        "async-start",
        None,
        "Starts a computation in the background",
        _ASYNC,
        ("asynchronous", "control flow", "needs shape", "no kernel", "start"),
        required=("calls",),
        optional=(*_THREAD, "output_to_operand_aliasing"),
    ),
    Operation(
        "async-update",
        None,
        "Goes on with a computation in the background",
        _ASYNC,
        ("asynchronous", "control flow", "needs shape", "no kernel", "update"),
        optional=(*_THREAD, "calls", "output_to_operand_aliasing"),
        least=1,
    ),
    Operation(
        "async-done",
        1,
        "Waits for a computation in the background",
        _WAIT,
        ("asynchronous", "control flow", "done", "needs shape", "no kernel"),
        optional=(*_THREAD, "calls"),
        least=1,
    ),
    Operation(
        "collective-broadcast",
        None,
        "Sends from one device to many",
        "the first of each group sends",
        ("collective", "needs shape", "side effect"),
        optional=(*_GROUPED, "has_dynamic_root"),
        least=1,
    ),
    Operation(
        "collective-permute",
        None,
        "Sends between pairs of devices",
        "who is nobody's target gets zeros",
        ("collective", "in place", "needs shape"),
        required=("source_target_pairs",),
        optional=("channel_id", "slice_sizes"),
        least=1,
    ),
    Operation(
        "collective-permute-start",
        None,
        "Starts to send between pairs of devices",
        _ASYNC,
        ("in place", "needs shape", "side effect", "start"),
        required=("source_target_pairs",),
        optional=("channel_id", "slice_sizes"),
        least=1,
        done="collective-permute-done",
    ),
    Operation(
        "collective-permute-done", 1, "Waits for a collective-permute", _WAIT, ("done", "needs shape", "side effect")
    ),
    Operation(
        "copy-start",
        1,
        "Starts a copy in the background",
        "the result is (target, source, context)",
        ("needs shape", "start"),
        optional=("cross_program_prefetch_index", "is_cross_program_prefetch"),
        done="copy-done",
    ),
    Operation("copy-done", 1, "Waits for a copy", _WAIT, ("done", "needs shape")),
    Operation(
        "ragged-all-to-all",
        6,
        "Exchanges parts of unequal sizes",
        f"the operands hold offsets and sizes; {_GROUPS}",
        ("collective", "in place", "needs shape"),
        optional=(*_GROUPED, "dimensions"),
        least=1,
    ),
    Operation(
        "recv",
        1,
        "Starts to receive",
        _ASYNC,
        ("needs shape", "side effect", "start"),
        optional=_CHANNEL,
        done="recv-done",
    ),
    Operation(
        "recv-done", 1, "Waits for what is received", _WAIT, ("done", "needs shape", "side effect"), optional=_CHANNEL
    ),
    Operation(
        "reduce-scatter",
        None,
        "Reduces across devices",
        f"every device gets one part of the result; {_GROUPS}",
        ("collective", "first dimension", "needs shape"),
        required=("dimensions", "to_apply"),
        optional=(*_ON_ARRAYS, "mode"),
        least=1,
    ),
    Operation(
        "send",
        2,
        "Starts to send",
        _ASYNC,
        ("needs shape", "side effect", "start"),
        optional=_CHANNEL,
        done="send-done",
    ),
    Operation(
        "send-done",
        1,
        "Waits until it is sent",
        "gives a token",
        ("done", "needs shape", "side effect"),
        optional=_CHANNEL,
    ),
)
