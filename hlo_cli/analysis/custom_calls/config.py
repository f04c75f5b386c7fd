"""Configuration of a custom call, decoded if its format is known.

Mirrors how xla/service/gpu and xla/service/cpu read `backend_config`: as JSON of a compiler's own fields, as a
dictionary of MLIR attributes for typed calls, or as opaque bytes for the function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from hlo_cli.analysis.custom_calls.body import EmbeddedProgram, digest_of, embedded_program
from hlo_cli.analysis.custom_calls.mlir_text import (
    MlirArray,
    MlirAttribute,
    MlirDictionary,
    MlirScalar,
    MlirText,
    read_dictionary,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import BackendConfig, Json

ConfigKind = Literal["none", "JSON", "MLIR dictionary", "program", "text", "bytes"]

_CALL_CONFIG_KEY = "custom_call_backend_config"


@dataclass(frozen=True, slots=True)
class ConfigField:
    """Value of a configuration with its path, such as `custom_call_config.body`, and its embedded program, if any.

    `type` is the MLIR type, empty for JSON. A list of plain values is one value.
    """

    path: str
    value: bool | int | float | str | None
    type: str = ""
    program: EmbeddedProgram | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the value is an empty list, object, or text."""
        return self.value in ("", None)


@dataclass(frozen=True, slots=True)
class CustomCallConfig:
    """Configuration of a call: its kind, size in bytes, and values.

    `attributes` are those of a typed call; `opaque` is the text that other calls pass to their function.
    """

    kind: ConfigKind
    bytes: int = 0
    digest: str = ""
    fields: tuple[ConfigField, ...] = ()
    attributes: MlirDictionary | None = None
    opaque: str = ""

    @property
    def programs(self) -> tuple[ConfigField, ...]:
        """Values that are embedded programs."""
        return tuple(field for field in self.fields if field.program is not None)


def read_config(config: BackendConfig | None) -> CustomCallConfig:
    """Decodes a backend configuration.

    >>> read_config(BackendConfig("{uplo = 76 : ui8}")).fields
    (ConfigField(path='uplo', value=76, type='ui8', program=None),)
    >>> payload = read_config(BackendConfig('{"a":{"b":["1","2"]},"custom_call_backend_config":{"opaque":"x"}}'))
    >>> [(field.path, field.value) for field in payload.fields], payload.opaque
    ([('a.b', '1, 2'), ('custom_call_backend_config.opaque', 'x')], 'x')
    """
    return CustomCallConfig("none") if config is None or not config.text else _read(config.text)


@lru_cache(maxsize=4096)
def _read(text: str) -> CustomCallConfig:
    config = BackendConfig(text)
    data = text.encode("utf-8", "surrogateescape")
    size, digest = len(data), digest_of(data)
    if not config.json and text.strip() == "{}":
        return CustomCallConfig("none", size, digest, attributes=MlirDictionary(()))
    if isinstance(config.json, Mapping):
        fields = tuple(_json_fields(config.json))
        opaque, attributes = (config.get(_CALL_CONFIG_KEY, name) for name in ("opaque", "attributes"))
        dictionary = read_dictionary(attributes) if isinstance(attributes, str) else None
        return CustomCallConfig("JSON", size, digest, fields, dictionary, opaque if isinstance(opaque, str) else "")
    if (dictionary := read_dictionary(text)) is not None:
        return CustomCallConfig("MLIR dictionary", size, digest, tuple(_mlir_fields("", dictionary)), dictionary)
    if (body := embedded_program(text)) is not None:
        return CustomCallConfig("program", size, digest, (ConfigField("", text, program=body),), opaque=text)
    return CustomCallConfig("text" if text.isprintable() else "bytes", size, digest, opaque=text)


def _json_fields(config: Mapping[str, Json]) -> Iterator[ConfigField]:
    """Yields every value in the order of the text, at any depth."""
    pending: list[tuple[str, Json]] = [("", config)]
    while pending:
        path, value = pending.pop()
        match value:
            case Mapping() if value:
                inner = [(f"{path}.{key}" if path else key, each) for key, each in value.items()]
                pending.extend(reversed(inner))
            case tuple() if value and any(isinstance(each, tuple | Mapping) for each in value):
                pending.extend(reversed([(f"{path}[{n}]", each) for n, each in enumerate(value)]))
            case tuple():
                yield ConfigField(path, ", ".join(map(_plain, value)))
            case Mapping():
                yield ConfigField(path, "")
            case str():
                yield from _text_fields(path, value)
            case _:
                yield ConfigField(path, value)


def _text_fields(path: str, text: str) -> Iterable[ConfigField]:
    """Fields of a text: its entries if it is a dictionary of MLIR attributes, else the text."""
    if text.startswith("{") and (dictionary := read_dictionary(text)) is not None and dictionary.entries:
        return _mlir_fields(path, dictionary)
    return (ConfigField(path, text, program=embedded_program(text)),)


def _mlir_fields(path: str, dictionary: MlirDictionary) -> Iterator[ConfigField]:
    """Yields every attribute in the order of the text, at any depth."""
    pending: list[tuple[str, MlirAttribute]] = [(path, dictionary)]
    while pending:
        at, value = pending.pop()
        match value:
            case MlirDictionary(entries=entries):
                pending.extend((f"{at}.{name}" if at else name, each) for name, each in reversed(entries))
            case MlirScalar(value=number, type=type_name):
                yield ConfigField(at, number, type_name)
            case _:
                text = str(value)
                yield ConfigField(at, text, _type_name(value), embedded_program(text))


def _type_name(attribute: MlirAttribute) -> str:
    """Type of an attribute, such as `array of i64` or `string`; empty if FFI does not accept it."""
    match attribute:
        case MlirScalar(type=type_name):
            return type_name
        case MlirArray(type=type_name):
            return f"array of {type_name}"
        case MlirText():
            return "string"
        case MlirDictionary():
            return "dictionary"
    return ""


def _plain(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
