"""Which flags XLA and libtpu have, with their defaults; and which of them a compilation had, from text or bytes.

`flags.csv` lists the fields and flags of XLA's xla.proto and debug_options_flags.cc and the flags of libtpu 0.0.52,
with what two releases of jaxlib say to each; `tests/make_flag_table.py` writes it. `tpu_environment.csv` has the fields
of `TpuCompilationEnvironment`, which are not public; `tests/make_environment_table.py` writes it.
"""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.compiler_files.text_format import TextMessage, read_text_message
from hlo_cli.wire import (
    FIXED32,
    FIXED64,
    VARINT,
    all_bytes,
    bytes_in,
    field_spans,
    read_fields,
    signed,
)


@dataclass(frozen=True, slots=True)
class CompilerFlag:
    """A row of the table. `field` is its number in `DebugOptions` of xla.proto, 0 if it has none.

    `status` is `flag`, `deprecated`, `no-effect`, `field` (no flag sets it), `removed`, `alias:NAME`, or, for libtpu,
    `tpu` and `tpu-option`. `known` has a `y` or `n` for each of the two releases of jaxlib, `defaults` their defaults,
    which are empty where the flag has none or it is not known.
    """

    name: str
    status: str
    known: str
    type: str
    field: int = 0
    defaults: tuple[str, str] = ("", "")

    @property
    def replaced_by(self) -> str:
        """What to use instead of a removed flag, as a sentence; empty if that is not known."""
        is_async = self.status == "removed" and self.name.startswith("xla_gpu_enable_async")
        return _ASYNC if is_async else ""


_ASYNC: Final = (
    "Asynchronous collectives are on by default; --xla_gpu_disable_async_collectives switches them off by kind."
)


@cache
def compiler_flags() -> Mapping[str, CompilerFlag]:
    """The table of flags by name; one of XLA comes before one of libtpu.

    >>> flag = compiler_flags()["xla_gpu_autotune_level"]
    >>> flag.type, flag.field, flag.defaults
    ('int32', 123, ('4', '4'))
    """
    data = get_data("hlo_cli.syntax.compiler_files", "flags.csv") or b""
    flags: dict[str, CompilerFlag] = {}
    for row in csv.reader(data.decode("utf-8").splitlines()[_HEAD:]):
        name, status, known, kind, number, old, new = row
        flags.setdefault(name, CompilerFlag(name, status, known, kind, int(number or 0), (old, new)))
    return flags


_HEAD: Final = 2  # a comment, and the names of the columns


@cache
def _by_field() -> Mapping[int, CompilerFlag]:
    return {flag.field: flag for flag in compiler_flags().values() if flag.field}


# --- the flags of a compilation ---

Settings = Mapping[str, str]
"""The value of each flag, written as in protobuf's text format; several values of one flag with commas."""


def settings_in_text(message: TextMessage) -> Settings:
    """The flags in a `DebugOptions` as text.

    >>> from hlo_cli.syntax.compiler_files.text_format import read_text_message
    >>> settings_in_text(read_text_message('xla_dump_to: "d"  xla_gpu_autotune_level: 0'))
    {'xla_dump_to': 'd', 'xla_gpu_autotune_level': '0'}
    """
    values: dict[str, str] = {}
    for field, value in message.values():
        # libtpu prints a field that its own `DebugOptions` has no more by number
        known = _by_field().get(int(field)) if field.isdecimal() and len(field) <= _LONGEST_FIELD else None
        name = known.name if known is not None else f"field {field}" if field.isdecimal() else field
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


_LONGEST_FIELD: Final = 9
"""The most digits of a field number, which is below 2^29."""


def settings_of(text: str) -> Settings:
    """The flags of a list of `--name=value`, of a `DebugOptions`, or of the `CompileOptionsProto` around one.

    >>> settings_of("--xla_dump_to=d --xla_gpu_autotune_level=0")
    {'xla_dump_to': 'd', 'xla_gpu_autotune_level': '0'}
    """
    found = _FLAG_LINE.findall(text)
    if found and not any(" --" in value for _, value in found):  # one flag a line
        return {name: value or "true" for name, value in found}
    lines = [text] if text.startswith("--") else [line[0] for line in FLAG_VARIABLE.finditer(text)]
    if found := [flag for line in lines for flag in FLAG_IN_LINE.findall(line)]:
        return {name: value or "true" for name, value in found}
    message = read_text_message(text)
    inner = message.message("executable_build_options").message("debug_options")
    return settings_in_text(inner) or settings_in_text(message.message("debug_options")) or settings_in_text(message)


_FLAG_LINE: Final = lazy_regex(r"^--(\w+)(?:=(.*))?$", re.MULTILINE)
FLAG_VARIABLE: Final = lazy_regex(
    r"\b(?:XLA_FLAGS|LIBTPU_INIT_ARGS)\b(?:['\"]?[ \t]*\n[ \t]*value:)?[^\n]*?(?:(?:\\\n[^\n]*)+|(?=['\"], "
    r"?['\"]\w+['\"]:)|(?=\n)|\Z)"
)
"""A line of a shell, a Dockerfile, a manifest, or a program that sets flags, with the lines that continue it; of a
dictionary up to its next key."""
FLAG_IN_LINE: Final = lazy_regex(r"--(xla_\w+|libtpu_\w+|megascale_\w+)(?:=([^\s'\"\\]*))?")
"""A flag on such a line, with its value."""


def settings_in_bytes(options: bytes) -> Settings:
    """The flags in the bytes of a `DebugOptions`; those whose number is not in the table are named by it.

    >>> settings_in_bytes(bytes.fromhex("d80700ea060164"))
    {'xla_gpu_autotune_level': '0', 'xla_dump_to': 'd'}
    """
    values: dict[str, str] = {}
    for tag, value, end in field_spans(options, 0, len(options)):
        flag = _by_field().get(tag >> 3)
        name = flag.name if flag is not None else f"field {tag >> 3}"
        shown = _shown(flag.type if flag is not None else "", tag & 7, value, options[value:end])
        values[name] = f"{values[name]},{shown}" if name in values else shown
    return values


def settings_in_config(config: bytes) -> Settings:
    """The flags in the bytes of a `HloModuleConfigProto` (xla.proto).

    >>> settings_in_config(bytes.fromhex("7203d80700"))
    {'xla_gpu_autotune_level': '0'}
    """
    values: dict[str, str] = {}
    for debug_options in all_bytes(read_fields(config), _CONFIG_OPTIONS):
        values |= settings_in_bytes(debug_options)
    return values


def layout_in_config(config: bytes) -> bytes:
    """The bytes of the `ProgramShapeProto` of a `HloModuleConfigProto`; empty without one."""
    return bytes_in(dict(read_fields(config)), _CONFIG_LAYOUT)


_CONFIG_LAYOUT, _CONFIG_OPTIONS = 1, 14


def settings_in_options(options: bytes) -> Settings:
    """The flags in the bytes of a `CompileOptionsProto`: those of the process, and `compiler_options` of `.compile()`.

    Mirrors xla/pjrt/proto/compile_options.proto.
    """
    return {**flags_in_options(options), **overrides_in_options(options)}


def flags_in_options(options: bytes) -> Settings:
    """The flags of the process in the bytes of a `CompileOptionsProto`.

    >>> flags_in_options(bytes.fromhex("1a051a03d80700"))
    {'xla_gpu_autotune_level': '0'}
    """
    values: dict[str, str] = {}
    for build in all_bytes(read_fields(options), _BUILD_OPTIONS):
        for debug_options in all_bytes(read_fields(build), _DEBUG_OPTIONS):
            values |= settings_in_bytes(debug_options)
    return values


def overrides_in_options(options: bytes) -> Settings:
    """The `compiler_options` of `.compile()` in the bytes of a `CompileOptionsProto`.

    >>> overrides_in_options(bytes.fromhex("3a0a0a04666c616712021001"))
    {'flag': 'true'}
    """
    entries = (dict(read_fields(entry)) for entry in all_bytes(read_fields(options), _OVERRIDES))
    return {bytes_in(entry, 1).decode("utf-8", "replace"): _override(bytes_in(entry, 2)) for entry in entries}


_BUILD_OPTIONS, _DEBUG_OPTIONS, _OVERRIDES = 3, 3, 7
_BUILD_NAMES: Final = {
    4: "num_replicas",
    5: "num_partitions",
    6: "use_spmd_partitioning",
    9: "device_assignment",
    12: "allow_spmd_sharding_propagation_to_output",
    13: "comp_envs",
    18: "allow_spmd_sharding_propagation_to_parameters",
    19: "use_shardy_partitioner",
    22: "process_index",
    23: "process_count",
}
"""Fields of `ExecutableBuildOptionsProto` that are no flags, nor the layout of the result, which the program has."""


def build_settings(options: bytes) -> Settings:
    """What a `CompileOptionsProto` says besides flags: whole numbers, and the bytes of messages in hexadecimal.

    >>> build_settings(bytes.fromhex("1a0420022802"))
    {'num_replicas': '2', 'num_partitions': '2'}
    """
    return {
        _BUILD_NAMES[number]: str(value) if isinstance(value, int) else value.hex()
        for build in all_bytes(read_fields(options), _BUILD_OPTIONS)
        for number, value in read_fields(build)
        if number in _BUILD_NAMES
    }


def _override(encoded: bytes) -> str:
    """The value of one option: a text, a truth value, a whole number, or a float, each with its own field."""
    kinds = {1: "string", 2: "bool"}
    for tag, value, end in field_spans(encoded, 0, len(encoded)):
        return _shown(kinds.get(tag >> 3, ""), tag & 7, value, encoded[value:end])
    return ""


_FLOATS: Final = {FIXED32: "<f", FIXED64: "<d"}


def _shown(kind: str, wire: int, number: int, data: bytes) -> str:
    """A value as protobuf's text format writes it, as far as the table knows its type."""
    if wire == VARINT:
        return ("false", "true")[number & 1] if kind == "bool" else str(signed(number))
    if wire in _FLOATS:
        return f"{struct.unpack(_FLOATS[wire], data)[0]:.7g}"
    return data.decode("utf-8", "replace")


# --- the settings of libtpu's compiler ---


@dataclass(frozen=True, slots=True)
class _Setting:
    """A field of `TpuCompilationEnvironment`: its value without flags, and the words of its numbers that are known."""

    name: str
    default: str
    words: Mapping[str, str]


@cache
def _environment() -> Mapping[int, _Setting]:
    data = get_data("hlo_cli.syntax.compiler_files", "tpu_environment.csv") or b""
    settings: dict[int, _Setting] = {}
    for number, name, default, words in csv.reader(data.decode("utf-8").splitlines()[_HEAD:]):
        named = dict(word.split("=") for word in words.split("|") if word)
        if set(named.values()) & set(_THREE_STATES.values()):
            named = _THREE_STATES
        settings[int(number)] = _Setting(name, default, named)
    return settings


_THREE_STATES: Final = {"0": "AUTO", "1": "DISABLED", "2": "ENABLED"}
"""The enum of most settings that are on, off, or chosen by the compiler (read from both forms of one compilation)."""


def settings_in_environment(environment: bytes) -> Settings:
    """The settings in the bytes of libtpu's `TpuCompilationEnvironment`, less those of several types.

    >>> settings_in_environment(bytes.fromhex("0802100120"))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    WireError: ...
    >>> settings_in_environment(bytes.fromhex("08021001"))
    {'xla_enable_async_collective_permute': 'ENABLED', 'xla_tpu_sdc_checker_instrument_megacore_fusion': 'true'}
    """
    values: dict[str, str] = {}
    for tag, value, end in field_spans(environment, 0, len(environment)):
        setting = _environment().get(tag >> 3) or _Setting(f"field {tag >> 3}", "", {})
        is_bool = setting.default in ("true", "false")
        shown = _shown("bool" if is_bool else "", tag & 7, value, environment[value:end])
        shown = setting.words.get(shown, shown)
        if setting.default != _MESSAGE:
            values[setting.name] = f"{values[setting.name]},{shown}" if setting.name in values else shown
    return values


_MESSAGE: Final = "{}"
"""What the table has for a setting of several types, which text has in braces: it is none of these by default."""


@cache
def _usual_settings() -> Mapping[str, str]:
    """The value of each setting of libtpu's compiler that no flag was given for."""
    return {setting.name: setting.default for setting in _environment().values()}


# --- which differ ---


def changed_settings(settings: Settings) -> Mapping[str, tuple[str, str]]:
    """The flags that differ from their defaults: the default and the value; those without a known default are left out.

    Defaults differ between releases; those of the release that explains the most are taken.

    >>> changed_settings({"xla_gpu_autotune_level": "0", "xla_cpu_enable_fast_min_max": "false"})
    {'xla_gpu_autotune_level': ('4', '0')}
    """
    return min((_changed(settings, release) for release in range(2)), key=len)


def _changed(settings: Settings, release: int) -> dict[str, tuple[str, str]]:
    values: dict[str, tuple[str, str]] = {}
    for name, value in settings.items():
        flag = compiler_flags().get(name)
        default = (flag.defaults[release] or flag.defaults[1 - release]) if flag is not None else ""
        is_text = flag is not None and flag.type == "string"
        is_known = (
            flag is None or flag.type in _SCALARS or (_is_name(value) == _is_name(default) and value.isprintable())
        )
        if (default or is_text) and is_known and not _is_same(value, default):
            if flag is not None and flag.status.startswith("tpu") and value == _usual_settings().get(name):
                continue  # the compiler resolves a flag: `auto` to AUTO, false to DISABLED
            values[name] = (default, value)
    return values


_SCALARS: Final = frozenset(("bool", "int32", "int64", "uint32", "uint64", "float", "double", "string"))
"""Types whose values are equal in both forms: enums are numbers in bytes, and names in text and in the table."""


def _is_name(value: str) -> bool:
    """Whether a value is a name, not a number nor the bytes of a message."""
    return value[:1].isalpha()


def _is_same(value: str, default: str) -> bool:
    """Whether two values are the same; a float has been printed with fewer digits in one of them."""
    if value == default:
        return True
    try:
        return abs(float(value) - float(default)) <= 1e-6 * abs(float(default))  # a float of 32 bits has seven digits
    except ValueError:
        return False
