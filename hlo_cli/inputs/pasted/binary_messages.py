"""Which message of a compiler is a small binary file next to a dump, and how is it written as text?

XLA and libtpu write these as text, or, with `--xla_dump_hlo_as_proto`, as protobufs of the same fields. Those of libtpu
are not public: their numbers were read from both forms of the same compilations (libtpu 0.0.52).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.kinds import PastedKind
from hlo_cli.wire import Field, WireError, read_fields

_TPU_VERSIONS: Final = {
    1: "TPU_VERSION_JELLYFISH",
    2: "TPU_VERSION_DRAGONFISH",
    3: "TPU_VERSION_PUFFERFISH",
    4: "TPU_VERSION_VIPERFISH",
    5: "TPU_VERSION_GHOSTLITE",
    6: "TPU_VERSION_6acc60406",
}
"""The generations of TPUs as libtpu counts and names them: v2, v3, v4, v5, v6e, 7x."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What a field is called; a message has fields, an enum names."""

    name: str
    fields: Mapping[int, _Named] | None = None
    names: Mapping[int, str] | None = None


_BOUNDS: Final = {1: _Named("x"), 2: _Named("y"), 3: _Named("z")}
_TPU: Final = {
    1: _Named("version", names=_TPU_VERSIONS),
    2: _Named("variant"),
    4: _Named("chip_config_name"),
    5: _Named("chips_per_host_bounds", _BOUNDS),
    6: _Named("host_bounds", _BOUNDS),
}
_TARGET: Final = {
    3: _Named("replica_count"),
    4: _Named("reserved_hbm_usage_bytes"),
    6: _Named("tpu_topology_args", _TPU),
}
_FACTS: Final = {19: _Named("optimized_hlo_instruction_count"), 20: _Named("module_name")}
_TRUTH: Final = {0: "false", 1: "true"}
_DEVICES: Final = {1: _Named("replica_count"), 2: _Named("computation_count")}
_EXECUTION: Final = {
    6: _Named("num_replicas"),
    7: _Named("device_assignment", _DEVICES),
    9: _Named("num_partitions"),
    11: _Named("use_spmd_partitioning", names=_TRUTH),
    24: _Named("use_shardy_partitioner", names=_TRUTH),
}
_BUCKETS: Final = {1: _Named("non_loop_buckets", {}), 2: _Named("loop_buckets", {})}
_TRANSFERS: Final = {
    1: _Named("host_dma_sizes", _BUCKETS),
    2: _Named("host_transfer_sizes", _BUCKETS),
    3: _Named("host_execution_transfer_sizes", _BUCKETS),
}
_THUNK_INFO: Final = {1: _Named("profile_annotation"), 3: _Named("thunk_id")}
_THUNKS: Final = {1: _Named("thunk_metadata", {1: _Named("thunk_info", _THUNK_INFO), 2: _Named("thunk_kind")})}
_CONFIG: Final = {
    4: _Named("replica_count"),
    5: _Named("num_partitions"),
    7: _Named("use_spmd_partitioning", names=_TRUTH),
    34: _Named("use_shardy_partitioner", names=_TRUTH),
}
_TOPOLOGY: Final = {2: _Named("platform_name"), 3: _Named("platform_version")}
_MACHINE: Final = {5: _Named("cpu_topology", {1: _Named("triple"), 2: _Named("cpu"), 3: _Named("features")})}
_SPECIFIC: Final = 9
"""The field of a topology that holds the one of its platform, as `Any`: 1 its type, 2 its bytes."""

_FILES: Final[tuple[tuple[str, PastedKind, Mapping[int, _Named]], ...]] = (
    ("topology.pb", "target", _TOPOLOGY),
    ("compile_options.pb", "compile-options", {}),
    ("target_arguments.pb", "target", _TARGET),
    ("basic_compiler_metadata.pb", "program-facts", _FACTS),
    ("execution_options.pb", "program-facts", _EXECUTION),
    ("transfer_stats.pb", "transfer-stats", _TRANSFERS),
    ("thunk_metadata.pb", "thunk-names", _THUNKS),
    ("hlo_module_config.pb", "compile-options", _CONFIG),
    ("tpu_comp_env.pb", "compile-options", {}),
)
"""How the names of such files end, what they are, and their fields; the flags of a compilation are read from bytes."""


def is_message_name(name: str) -> bool:
    """Whether a file is one of these, by its name.

    >>> is_message_name("dump/module_0001.jit_f/topology.pb"), is_message_name("topology.txt")
    (True, False)
    """
    return name.endswith(tuple(ending for ending, _, _ in _FILES))


def message_text(data: bytes, name: str) -> PastedText | None:
    """The message in a file with the name of one, as the text that XLA writes; None for other names and other bytes.

    >>> message_text(bytes.fromhex("98012aa201056a69745f66"), "m.basic_compiler_metadata.pb").text
    'optimized_hlo_instruction_count: 42\\nmodule_name: "jit_f"\\n'
    """
    if not is_message_name(name):
        return None
    kind, fields = next((kind, fields) for ending, kind, fields in _FILES if name.endswith(ending))
    try:
        message = read_fields(data)
        text = "".join(_lines(message, fields))
        if fields is _TOPOLOGY:
            text += _specific(message)
    except WireError:
        return None
    return PastedText(kind, name, text, data=data if kind == "compile-options" else b"")


def topology_text(type_url: str, value: bytes) -> str:
    """The topology of a platform as text, from the `Any` in a description of PJRT; empty for one that is not known.

    >>> topology_text("type.googleapis.com/xla.CpuTopologyProto", bytes.fromhex("2a050a03783836"))
    'cpu_topology {\\ntriple: "x86"\\n}\\n'
    """
    try:
        message = read_fields(value)
        if "Tpu" in type_url:
            return "".join(_lines(message, {1: _Named("tpu_topology_args", _TPU)}))
        return "".join(_lines(message, _MACHINE)) if "Cpu" in type_url else ""
    except WireError:
        return ""


def _specific(message: list[Field]) -> str:
    for number, value in message:
        if number == _SPECIFIC and isinstance(value, bytes):
            inner = dict(read_fields(value))
            url, content = inner.get(1, b""), inner.get(2, b"")
            if isinstance(url, bytes) and isinstance(content, bytes):
                return topology_text(url.decode("utf-8", "replace"), content)
    return ""


def _lines(message: list[Field], fields: Mapping[int, _Named]) -> Iterator[str]:
    """The fields with a name, each on a line; messages in braces."""
    for number, value in message:
        field = fields.get(number)
        if field is None:
            continue
        if isinstance(value, int):
            yield f"{field.name}: {field.names.get(value, value) if field.names else value}\n"
        elif field.fields is not None:
            yield f"{field.name} {{\n"
            yield from _lines(read_fields(value), field.fields)
            yield "}\n"
        else:
            words = value.decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield f'{field.name}: "{words}"\n'
