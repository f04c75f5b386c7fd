"""The decorator `dataclass` of the standard library, as it is wanted here: quick to run when a module is imported.

A command imports a hundred values. For a frozen one the standard library compiles six functions, each out of a text of
its own, and for all of them that took longer than to read a dump and to answer. Here one is compiled, `__init__`; the
others are made of what is there. `fields`, `replace`, `match`, `copy` and `pickle` know what comes of it. There is no
`order`, `unsafe_hash`, `kw_only` for a whole class and `InitVar`; a class derives from one that is as frozen as itself,
and was made by this decorator.

>>> @dataclass(frozen=True, slots=True)
... class Point:
...     x: int
...     y: int = 0
>>> Point(3), Point(3) == Point(3, 0), len({Point(3), Point(3, 0)})
(Point(x=3, y=0), True, 1)
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from typing import Any

    Fields = tuple[dataclasses.Field[Any], ...]
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True):
        """The class with the methods that its fields ask for; those that it has itself are kept."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, eq=eq, repr=repr)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # the standard library would look for the signature, in the text of `__init__`
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
        methods = _methods(made, frozen=frozen, slots=slots, eq=eq, repr=repr)
        for name, method in methods.items():
            # a class that says when it is equal, and not how it is hashed, has None for that
            if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
                setattr(made, name, method)
        return made


def _methods(made: type, *, frozen: bool, slots: bool, eq: bool, repr: bool) -> dict[str, object]:
    """The methods of a class by name, as the standard library would add them."""
    fields: Fields = dataclasses.fields(made)
    methods: dict[str, object] = {"__init__": _init(made, fields, frozen=frozen, slots=slots)}
    if repr:
        methods["__repr__"] = _repr
    if eq:
        values = _values([field.name for field in fields if field.compare])
        methods |= {"__eq__": _equality(values), "__hash__": _hash(values) if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    return methods


def _init(made: type, fields: Fields, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """`__init__`, compiled: taking arguments by position and by name in any other way would make every value slow."""
    names: dict[str, Any] = {"__set_attribute": object.__setattr__, "__MADE": _Made()}
    by_place = [_parameter(field, names) for field in fields if field.init and not field.kw_only]
    by_name = [_parameter(field, names) for field in fields if field.init and field.kw_only]
    body = []
    for field in fields:
        name, value = field.name, field.name if field.init else f"__default_{field.name}"
        if field.default_factory is not dataclasses.MISSING:
            names[f"__new_{name}"] = field.default_factory
            value = f"__new_{name}() if {name} is __MADE else {name}" if field.init else f"__new_{name}()"
        elif not field.init:
            if field.default is dataclasses.MISSING:
                continue
            names[value] = field.default
        if frozen and slots:  # a slot is quicker set by its own descriptor
            names[f"__set_{name}"] = getattr(made, name).__set__
            body.append(f" __set_{name}(self, {value})")
        else:
            body.append(f" __set_attribute(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n" + ("\n".join(body) or " pass"), names)
    init: Callable[..., None] = names["__init__"]
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    init.__module__, init.__qualname__ = made.__module__, f"{made.__qualname__}.__init__"
    return init


def _parameter(field: dataclasses.Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=__MADE"
    if field.default is dataclasses.MISSING:
        return field.name
    names[f"__default_{field.name}"] = field.default
    return f"{field.name}=__default_{field.name}"


class _Made:
    """The default of a field for which a value is made each time."""

    def __repr__(self) -> str:
        return "<factory>"


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """What reads the values of some fields: a tuple, however many they are."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda value: ()
    get = attrgetter(*names)
    return lambda value: (get(value),)


def _equality(values: Callable[[object], tuple[object, ...]]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[object], tuple[object, ...]]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


@recursive_repr()
def _repr(self: Any) -> str:
    said = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(said)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    """What is pickled: slots that refuse to be set cannot be filled as others are."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
