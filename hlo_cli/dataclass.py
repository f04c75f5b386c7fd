"""A replacement of the standard library's decorator `dataclass` that runs faster at import.

A command imports a hundred dataclasses. For a frozen one, the standard library compiles six functions, each from its
own text; for all of them, that took longer than reading a dump and answering. Here only `__init__` is compiled; the
others are closures. `fields`, `replace`, `match`, `copy`, and `pickle` support the result. There is no `order`,
`unsafe_hash`, `InitVar`, or `kw_only` for a whole class; a base class is as frozen as its subclass, and made by this
decorator too.

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
        """The class with the methods generated from its fields; methods that it defines are kept."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, eq=eq, repr=repr)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # the standard library would look for the signature, in the text of `__init__`
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
        methods = _methods(made, frozen=frozen, slots=slots, eq=eq, repr=repr)
        for name, method in methods.items():
            # a class that defines `__eq__` but not `__hash__` has None for the latter
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
    """The compiled `__init__`: handling arguments without compilation would slow down every value."""
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
    """The default of a field with a default factory."""

    def __repr__(self) -> str:
        return "<factory>"


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """A getter for the values of some fields, always as a tuple."""
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
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    """The state to pickle: slots of frozen classes cannot be restored by assignment."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
