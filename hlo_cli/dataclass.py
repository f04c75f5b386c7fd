"""A replacement of the standard library's decorator `dataclass`: faster at import, and its values print briefly.

A command imports a hundred dataclasses. For a frozen one, the standard library compiles six functions, each from its
own text; for all of them, that took longer than reading a dump and answering. Here `__init__` alone is compiled, when
the first value is made; the others are closures. `fields`, `replace`, `match`, `copy`, and `pickle` support the result.
There is no `order`, `unsafe_hash`, `InitVar`, or `kw_only` for a whole class; a base class is as frozen as its
subclass, and made by this decorator too.

Results of analyses hold hundreds of thousands of values. Their `repr` has at most `MAX_REPR` characters, so that a
Python prompt, a debugger, or a failing test can show any of them: `brief` counts what does not fit.

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
from types import MappingProxyType, MethodType

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import dataclass as dataclass
    from typing import Any, cast

    Fields = tuple[dataclasses.Field[Any], ...]
else:

    def cast(_, value):
        """The value: `typing` is not imported for it."""
        return value

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True):
        """The class with the methods generated from its fields; methods that it defines are kept."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, eq=eq, repr=repr)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # the standard library would look for the signature, in the text of `__init__`
        made = _made(cls, slots=slots)
        methods = _methods(made, frozen=frozen, slots=slots, eq=eq, repr=repr)
        for name, method in methods.items():
            # a class that defines `__eq__` but not `__hash__` has None for the latter
            if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
                setattr(made, name, method)
        return made


_PARAMETERS: dict[bool, object] = {}
"""What the standard library notes of a class with slots, and of one without: that it has none of its methods."""
_SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")
_PLAIN_FIELD: Any = dataclasses._FIELD  # type: ignore[attr-defined]  # its kind of a field, without which it is none


def _made(cls: type, *, slots: bool) -> type:
    """The class with its fields, as the standard library makes it; plain ones take a third of the time here."""
    own = vars(cls)
    annotations = own.get("__annotations__", {})
    defaults = {name: getattr(cls, name, dataclasses.MISSING) for name in annotations}
    # Newer versions of Python keep annotations elsewhere, unless they are texts.
    is_plain = cls.__bases__ == (object,) and type(cls) is type and "__annotations__" in own and "__slots__" not in own
    if (
        slots not in _PARAMETERS
        or not is_plain
        or any(not isinstance(each, str) or any(word in each for word in _SPECIAL) for each in annotations.values())
        or any(type(each).__hash__ is None for each in defaults.values())
    ):
        made: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
        _PARAMETERS[slots] = made.__dataclass_params__
        return cast(type, made)
    fields: dict[str, Any] = {}
    for name, default in defaults.items():
        field: Any = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        field.name, field.type, field._field_type = name, annotations[name], _PLAIN_FIELD
        field.kw_only = field.kw_only is True
        fields[name] = field
    plain: Any = cls
    if slots:
        kept = {name: value for name, value in own.items() if name not in (*fields, "__dict__", "__weakref__")}
        plain = type(cls.__name__, cls.__bases__, {**kept, "__slots__": tuple(fields)})
        plain.__qualname__ = cls.__qualname__
    else:
        for name, default in defaults.items():
            if not isinstance(default, dataclasses.Field):
                continue
            if default.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
    plain.__dataclass_fields__, plain.__dataclass_params__ = fields, _PARAMETERS[slots]
    if "__match_args__" not in own:
        by_place = tuple(field.name for field in fields.values() if field.init and not field.kw_only)
        setattr(plain, "__match_args__", by_place)  # noqa: B010 - checkers of types do not let it be assigned
    return cast(type, plain)


def _methods(made: type, *, frozen: bool, slots: bool, eq: bool, repr: bool) -> dict[str, object]:
    """The methods of a class by name, as the standard library would add them."""
    fields: Fields = dataclasses.fields(made)
    methods: dict[str, object] = {"__init__": _Init(made, fields, frozen, slots)}
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


class _Init:
    """`__init__` until the first value is made: half of the classes that a command imports never have one."""

    def __init__(self, made: type, fields: Fields, frozen: bool, slots: bool) -> None:
        self._of = made, fields, frozen, slots

    def __get__(self, value: object, owner: type | None = None) -> Callable[..., None]:
        """The compiled method, which takes the place of this one."""
        made, fields, frozen, slots = self._of
        init = _init(made, fields, frozen=frozen, slots=slots)
        setattr(made, "__init__", init)  # noqa: B010 - a class has another one for checkers of types
        return init if value is None else MethodType(init, value)


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


def _repr(self: object) -> str:
    return brief(self)


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


# --- the text of a value, however large ---


MAX_REPR = 200
"""Characters of a `repr`: two or three lines of a terminal, which the eye takes in at once."""
_LONGEST_NAME = 80
"""Characters of a name in a `repr`; names of fusions, which list what was fused, have up to 60."""
_LEAST_ROOM = 24
"""Characters that each field gets of what is left, at least: a name of usual length."""
_MUCH_ROOM = 80
"""Characters for which the first of many items is shown in part, as an example; in less, only their number is."""
_BRACKETS: dict[type, tuple[str, str]] = {
    tuple: ("(", ")"),
    list: ("[", "]"),
    set: ("{", "}"),
    dict: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    MappingProxyType: ("mappingproxy({", "})"),
}


def brief(value: Any, room: int = MAX_REPR) -> str:
    """The `repr` of a value in at most `room` characters: long texts are cut, and what does not fit is counted.

    It takes no longer for a large value than for a small one.

    >>> brief((1, "two", {"three": 3.0})), brief(range(7)), brief(tuple(range(1000)), 30)
    ("(1, 'two', {'three': 3.0})", 'range(0, 7)', '(0, 1, 2, 3, 4, … 1,000 items)')
    >>> brief("a rather long text", 12), brief((), 7), brief(len)
    ("'a rathe…xt'", '()', '<function len>')
    """
    whole = _whole(value, room)
    if whole is not None:
        return whole
    if room < _LEAST_ROOM // 2:  # too little to tell anything, and a value that contains itself ends here
        return "…"[: max(room, 0)]
    if isinstance(value, str | bytes):
        # The end is from the whole text, as names differ at their ends.
        return _cut(repr(value[:room])[:-1] + repr(value[-room:])[-room:], room)
    if (brackets := _BRACKETS.get(type(value))) is not None:
        opening, closing = brackets
        return listing(opening, closing, _parts_of(value), len(value), room)
    if _has_fields(value):
        return _with_some_fields(value, room)
    return _cut(_text_of(value), room)


def brief_name(name: str) -> str:
    """A name in a `repr`, whose middle is left out if it is very long."""
    return _cut(name, _LONGEST_NAME)


def brief_count(number: int, nouns: str) -> str:
    """A number and a noun, which is given in the plural, in a `repr`.

    >>> brief_count(1, "steps"), brief_count(26465, "steps")
    ('1 step', '26,465 steps')
    """
    return f"{number:,} {nouns.removesuffix('s') if number == 1 else nouns}"


def text_in_brackets(value: object, name: str = "", text: str | None = None) -> str:
    """A `repr` for values that print as text, such as shapes: the type, the name, and the text in brackets.

    >>> from hlo_cli import parse_shape
    >>> parse_shape("f32[8,128]{1,0}")
    <ArrayShape f32[8,128]{1,0}>
    """
    front = " ".join(filter(None, (type(value).__name__, name)))
    return f"<{front} {_cut(str(value) if text is None else text, MAX_REPR - len(front) - 3)}>"


def listing(opening: str, closing: str, items: Iterable[tuple[str, object]], count: int, room: int = MAX_REPR) -> str:
    """Items between brackets, as many as fit, and their number if others follow; each has a text in front of it.

    >>> listing("Sizes(", ")", [("a=", 1), ("b=", 22)], 2), listing("(", ")", [("", 11), ("", 22)], 2, 12)
    ('Sizes(a=1, b=22)', '(… 2 items)')
    """
    rest = f"… {brief_count(count, 'items')}"
    shown: list[str] = []
    left = room - len(opening) - len(closing)
    for number, (front, item) in enumerate(items, 1):
        reserved = 0 if number == count else len(rest) + 2
        text = _whole(item, left - reserved - len(front))
        if text is None and number == 1 and left - reserved > _MUCH_ROOM:
            text = brief(item, left - reserved - len(front))
        if text is None:
            return _cut(opening + ", ".join([*shown, rest]) + closing, room)
        shown.append(front + text)
        left -= len(front) + len(text) + 2
    return opening + ", ".join(shown) + closing


def _whole(value: Any, room: int) -> str | None:
    """The `repr` of a value if it fits; not much more than that is looked at."""
    if room <= 0 or (isinstance(value, str | bytes) and len(value) > room):
        return None
    if (brackets := _BRACKETS.get(type(value))) is not None:
        if not value:
            text = repr(value)
        elif (items := _all_of(_parts_of(value), room - len(brackets[0]) - len(brackets[1]))) is None:
            return None
        else:
            text = brackets[0] + items + ("," if type(value) is tuple and len(value) == 1 else "") + brackets[1]
    elif _has_fields(value):
        name = type(value).__qualname__
        fields = _all_of(_fields_of(value), room - len(name) - 2)
        if fields is None:
            return None
        text = f"{name}({fields})"
    else:
        text = _text_of(value)
    return text if len(text) <= room else None


def _all_of(parts: Iterable[tuple[str, object]], room: int) -> str | None:
    """Parts with what is in front of each, separated by commas, if they fit."""
    shown: list[str] = []
    for front, part in parts:
        text = _whole(part, room - len(front))
        if text is None:
            return None
        shown.append(front + text)
        room -= len(front) + len(text) + 2
    return ", ".join(shown)


def _parts_of(value: Any) -> Iterable[tuple[str, object]]:
    """The items of a container; in front of the values of a dict are their keys."""
    if isinstance(value, dict | MappingProxyType):
        return ((f"{brief(key)}: ", inner) for key, inner in value.items())
    return (("", item) for item in value)


def _fields_of(value: Any) -> Iterable[tuple[str, object]]:
    return ((f"{field.name}=", getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr)


def _has_fields(value: object) -> bool:
    """Whether its `repr` is that of this module."""
    own: object = type(value).__repr__
    return own is _repr


def _with_some_fields(value: Any, room: int) -> str:
    """The fields in their order, each with a share of the room; … stands for those that do not fit."""
    shown: list[str] = []
    left = room - len(type(value).__qualname__) - len("(, …)")
    for name, inner in _fields_of(value):
        if inner is None or inner is False or (type(inner) in (str, tuple) and not inner):
            continue  # says nothing about the value, and the room is scarce
        text = name + brief(inner, min(max(_LEAST_ROOM, left // 2), left - len(name)))
        if len(text) > left or text == name:
            shown.append("…")
            break
        shown.append(text)
        left -= len(text) + 2
    return _cut(f"{type(value).__qualname__}({', '.join(shown)})", room)


def _text_of(value: Any) -> str:
    """The `repr` of a value that is neither a container nor one of ours; of an array its type and sizes."""
    if hasattr(value, "dtype") and hasattr(value, "shape") and getattr(value, "size", 0) > _LEAST_ROOM:
        return f"<{type(value).__name__} {value.dtype}{list(value.shape)}>"
    if callable(value) and type(value).__module__ in ("builtins", "functools") and not isinstance(value, type):
        return f"<function {getattr(value, '__qualname__', type(value).__qualname__)}>"
    return repr(value)


def _cut(text: str, room: int) -> str:
    """A text of at most `room` characters; its middle is left out, as names differ at their ends."""
    if len(text) <= room:
        return text
    if room <= 0:
        return ""
    end = (room - 1) // 3
    return text[: room - 1 - end] + "…" + text[len(text) - end :]
