"""The attributes of collectives, sends and receives.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, in whose order the rows stand.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

_GATHERS: Final = "all-gather all-gather-start"
_REDUCES: Final = "all-reduce all-reduce-start reduce-scatter"
_PERMUTES: Final = "collective-permute collective-permute-start"
_GROUPED: Final = f"{_GATHERS} {_REDUCES} all-to-all ragged-all-to-all collective-broadcast"
_CHANNELS: Final = "send send-done recv recv-done"

COLLECTIVES: Final = (
    AttributeRow(
        "channel_id",
        Kind.INT,
        f"{_GROUPED} {_PERMUTES} {_CHANNELS}",
        "which instructions on different devices belong together",
    ),
    AttributeRow("is_host_transfer", Kind.BOOL, _CHANNELS, "whether the other side is the host"),
    AttributeRow("source_target_pairs", Kind.INT_LISTS, _PERMUTES, "who sends to whom", label="pairs", required=True),
    AttributeRow(
        "slice_sizes", Kind.INT_LISTS, _PERMUTES, "the sizes of what is sent", proto_field="dynamic_slice_sizes"
    ),
    AttributeRow("replica_groups", Kind.REPLICA_GROUPS, _GROUPED, "which devices work together", label="groups"),
    AttributeRow(
        "constrain_layout",
        Kind.BOOL,
        f"{_GATHERS} {_REDUCES} all-to-all",
        "whether layout assignment has to keep the layouts",
    ),
    AttributeRow("dimensions", Kind.INTS, _GATHERS, "the dimension along which the parts are joined", required=True),
    AttributeRow("dimensions", Kind.INTS, "all-to-all", "the dimension that is cut into parts"),
    AttributeRow(
        "use_global_device_ids",
        Kind.BOOL,
        f"{_GATHERS} {_REDUCES}",
        "whether groups list devices of the whole run, not replicas",
        label="global ids",
    ),
    AttributeRow(
        "dimensions",
        Kind.INTS,
        "reduce-scatter",
        "the dimension that is cut into parts, one a device",
        required=True,
    ),
    AttributeRow("mode", Kind.GROUP_MODE, _REDUCES, "how the groups are counted; XLA ignores it", is_forgotten=True),
    AttributeRow(
        "has_dynamic_root",
        Kind.BOOL,
        "collective-broadcast",
        "whether the sender is known only when the program runs",
    ),
    AttributeRow(
        "all_gather_dimension",
        Kind.INT,
        _GATHERS,
        "the dimension along which the parts are joined; an old spelling",
        is_old=True,
    ),
    AttributeRow(
        "split_dimension",
        Kind.INT,
        "all-to-all",
        "the dimension along which parts are cut; an old spelling",
        is_old=True,
    ),
)
