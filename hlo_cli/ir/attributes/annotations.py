"""Annotations of instructions by XLA or a frontend: backend configurations, frontend attributes, statistics.

Mirrors `BackendConfigWrapper` of xla/hlo/ir/backend_config.h, and `FrontendAttributes` and `StatisticsViz` of
xla/xla_data.proto.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.strings import dictionary_or_quoted
from hlo_cli.lazy_regex import lazy_regex

Json = bool | int | float | str | tuple["Json", ...] | Mapping[str, "Json"] | None
"""A JSON value, with tuples for arrays and immutable mappings for objects."""


_KEY = lazy_regex(r'"(?:[^"\\]|\\.)*+\\?+(?:"|\Z)|(?P<key>\b[A-Za-z_]\w*+)(?=\s*+:)', re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class BackendConfig:
    """The configuration of an instruction by a backend, in most backends as JSON.

    Equality ignores the order of keys: TPU compilers sort them in the text of a dump, not in its proto.

    >>> BackendConfig('{"a":1,"b":2}') == BackendConfig('{"b":2,"a":1}')
    True
    >>> config = BackendConfig('{"n":["3"]}')
    >>> str(config), config.json["n"], str(BackendConfig("raw"))
    ('{"n":["3"]}', ('3',), '"raw"')
    """

    text: str

    def __str__(self) -> str:
        return dictionary_or_quoted(self.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BackendConfig):
            return NotImplemented
        return self.text == other.text or _sorted_json(self.text) == _sorted_json(other.text)

    def __hash__(self) -> int:
        return hash(_sorted_json(self.text))

    @property
    def json(self) -> Json:
        """The parsed text, immutable; None if it is not JSON, with or without quotes around keys."""
        return _read_json(self.text)

    def get(self, *path: str) -> Json:
        """The value at a path of keys; None if there is none.

        >>> BackendConfig('{"a":{"b":1}}').get("a", "b")
        1
        """
        found = self.json
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class FrontendAttributes:
    """Texts by name, which XLA passes on for frontends.

    >>> attributes = FrontendAttributes((("a", "1"), ("b", "{x=2}")))
    >>> str(attributes), attributes.get("a")
    ('{a="1",b={x=2}}', '1')
    """

    entries: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "{" + ",".join(f"{name}={dictionary_or_quoted(text)}" for name, text in sorted(self.entries)) + "}"

    def get(self, name: str) -> str | None:
        """The text of this name, or None."""
        return dict(self.entries).get(name)


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number measured by a tool."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}"


@dataclass(frozen=True, slots=True)
class StatisticsViz:
    """Numbers measured by tools, and which of them is shown.

    >>> str(StatisticsViz(1, (Statistic("a", 33), Statistic("b", 0.5))))
    '{visualizing_index=1,a=33,b=0.5}'
    """

    stat_index_to_visualize: int
    statistics: tuple[Statistic, ...]

    def __str__(self) -> str:
        return "{" + ",".join((f"visualizing_index={self.stat_index_to_visualize}", *map(str, self.statistics))) + "}"


@lru_cache(maxsize=1 << 16)
def _read_json(text: str) -> Json:
    from json import loads

    try:
        return _frozen(loads(text))
    except (ValueError, RecursionError):
        pass
    try:  # handwritten keys often lack quotes, which protobuf accepts too
        return _frozen(loads(_KEY.sub(_quoted, text)))
    except (ValueError, RecursionError):
        return None


def _quoted(found: re.Match[str]) -> str:
    return f'"{found["key"]}"' if found["key"] else found[0]


@lru_cache(maxsize=1 << 16)
def _sorted_json(text: str) -> str:
    """The same JSON with sorted keys; other text unchanged."""
    from json import dumps, loads

    try:
        return dumps(loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _frozen(value: object) -> Json:
    match value:
        case dict():
            return MappingProxyType({str(key): _frozen(inner) for key, inner in value.items()})
        case list():
            return tuple([_frozen(inner) for inner in value])
        case bool() | int() | float() | str():
            return value
    return None
