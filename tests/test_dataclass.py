"""Holds the quick decorator against the standard one: what it makes says, compares and refuses the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any

import pytest

from hlo_cli.dataclass import MAX_REPR, dataclass
from parsed import files, text_of

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclass, dataclasses.dataclass], ids=["ours", "standard"])
KINDS = pytest.mark.parametrize(
    "options",
    [
        {"frozen": True, "slots": True},
        {"frozen": True},
        {"slots": True},
        {"slots": True, "eq": False},
        {"eq": False, "repr": False},
        {"frozen": True, "slots": True, "eq": False},
        {},
    ],
    ids=repr,
)


def made(decorator: Decorator, options: dict[str, bool]) -> Any:
    """One class, with a field of each kind."""

    @decorator(**options)
    class Made:
        """A class with a field of each kind."""

        first: int
        second: str = "two"
        _: KW_ONLY
        third: list[int] = field(default_factory=list)
        unseen: int = field(default=4, repr=False)
        uncompared: int = field(default=5, compare=False)
        later: int = field(init=False, default=6)
        own: dict[str, int] = field(init=False, default_factory=dict)

    return Made


def said(work: Callable[[], object]) -> object:
    """What comes back, or the error."""
    try:
        return work()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def answers(cls: Any) -> list[object]:
    """What a class and its values answer to everything that values are asked."""
    value, other = cls(1, third=[7]), cls(1, "two", third=[7], uncompared=0)

    def assign() -> None:
        other.first = 3

    return [
        str(inspect.signature(cls)),
        cls.__match_args__,
        [each.name for each in dataclasses.fields(cls)],
        repr(value) if cls.__repr__ is not object.__repr__ else "",
        value == other,
        value == cls(2, third=[7]),
        value == 1,
        said(lambda: hash(cls(1, third=())) == hash(cls(1, third=()))),
        said(lambda: cls()),
        said(lambda: cls(1, "two", [7])),
        said(lambda: cls(1, later=2)),
        value.own is not other.own,
        vars(type(value)).get("__slots__"),
        dataclasses.asdict(dataclasses.replace(value, second="three")),
        dataclasses.asdict(copy.copy(value)),
        said(assign),
        other.first,
        said(lambda: delattr(other, "second")),
        said(lambda: setattr(other, "unknown", 1)) if "__slots__" not in vars(cls) else None,
    ]


@KINDS
def test_what_is_made_answers_as_what_the_standard_library_makes(options: dict[str, bool]) -> None:
    assert answers(made(dataclass, options)) == answers(made(dataclasses.dataclass, options))


@BOTH
def test_methods_of_the_class_itself_are_kept(decorator: Decorator) -> None:
    class Whole:
        """A class that says all of it itself."""

        text: str

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "text", text.upper())

        def __repr__(self) -> str:
            return self.text

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    Said: Any = decorator(frozen=True, slots=True)(Whole)
    assert repr(Said("a")) == "A"
    assert Said("a") == Said("b") == 5
    assert hash(Said("a")) == 3


@BOTH
def test_who_says_only_when_it_is_equal_is_hashed_by_its_fields(decorator: Decorator) -> None:
    class Whole:
        """A class with an equality alone."""

        number: int

        def __eq__(self, other: object) -> bool:
            return True

    Said: Any = decorator(frozen=True, slots=True)(Whole)
    assert hash(Said(1)) == hash((1,))


@BOTH
def test_fields_are_inherited(decorator: Decorator) -> None:
    class Two:
        """Two fields."""

        first: int
        second: int = 2

    Base: Any = decorator(frozen=True, slots=True)(Two)

    class Three(Base):  # type: ignore[misc]
        """One more."""

        third: int = 3

        def __post_init__(self) -> None:
            object.__setattr__(self, "second", self.second + self.third)

    Derived: Any = decorator(frozen=True, slots=True)(Three)
    assert Derived(1, third=4) == Derived(1, 2, 4)
    assert repr(Derived(1)).endswith("Three(first=1, second=5, third=3)")
    assert Derived(1) != Base(1, 5)


@dataclass(frozen=True, slots=True)
class Sent:
    """A value that goes to another process."""

    number: int
    words: tuple[str, ...] = ()


def test_values_go_to_other_processes() -> None:
    sent = Sent(3, ("a",))
    assert pickle.loads(pickle.dumps(sent)) == sent == copy.deepcopy(sent)


def test_what_holds_itself_can_be_shown() -> None:
    @dataclass(slots=True)
    class Ring:
        """A value that holds itself."""

        next: object = None

    ring = Ring()
    ring.next = ring
    assert "Ring(next=" in repr(ring)
    assert len(repr(ring)) <= MAX_REPR


def test_the_package_makes_its_values_with_it() -> None:
    others = [
        str(path)
        for path in files()
        if path.name != "dataclass.py" and re.search(r"from dataclasses import .*\bdataclass\b", text_of(path))
    ]
    assert not others, "from hlo_cli.dataclass import dataclass, which loads faster"


def plain() -> type:
    """A class without a base class, anew each time."""

    class Plain:
        """A text."""

        first: int
        second: str = "b"
        third: list[int] = field(default_factory=list)
        fourth: int = field(default=4, compare=False, kw_only=True, metadata={"key": 1})
        fifth: int = field(init=False, repr=False, default=5)
        SIZE = 3

        def method(self) -> int:
            """Three."""
            return self.SIZE

    return Plain


@pytest.mark.parametrize("slots", [False, True])
def test_a_plain_class_is_what_the_standard_library_makes(slots: bool) -> None:
    """Fields, defaults, patterns, slots, and what other tools look at."""
    ours: Any = dataclass(frozen=True, slots=slots)(plain())
    theirs: Any = dataclasses.dataclass(frozen=True, slots=slots)(plain())
    assert [repr(each) for each in dataclasses.fields(ours)] == [repr(each) for each in dataclasses.fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__ == ("first", "second", "third")
    for name in ("__qualname__", "__module__", "__doc__", "__slots__", "second", "fourth", "SIZE"):
        found, expected = (getattr(each, name, None) for each in (ours, theirs))
        assert slots or found == expected, name
        assert type(found) is type(expected), name
    assert set(vars(theirs)) - set(vars(ours)) <= {"__replace__"}
    assert dataclasses.replace(ours(1), fourth=7).method() == 3
    assert hasattr(ours(1), "__dict__") == hasattr(theirs(1), "__dict__") == (not slots)
    with pytest.raises(ValueError, match="mutable default"):
        dataclass(slots=slots)(type("Mutable", (), {"__annotations__": {"first": "list"}, "first": []}))
