"""Regular expressions that are compiled when they are first used.

Most match rare texts: a command on a clean dump needs half of the expressions in its modules, and compiling the others
took as long as reading the dump. Those that every text needs are compiled by `re.compile`. A lazy one has the methods
of a pattern; `re.compile` and `==` do not take it for one.

>>> digits = lazy_regex("[0-9]+")
>>> digits.fullmatch("12")[0], digits.sub("#", "a1"), digits.pattern
('12', 'a#', '[0-9]+')
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as lazy_regex

    __all__ = ["lazy_regex"]
else:

    class lazy_regex:
        """A regular expression with the arguments of `re.compile` and the interface of its result."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._given = text, flags

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # copy and pickle ask before there is any state
                raise AttributeError(name)
            value = getattr(self._compiled or self._compile(), name)
            setattr(self, name, value)  # repeated accesses find the attribute directly
            return value

        _compiled: re.Pattern[str] | None = None

        def _compile(self) -> re.Pattern[str]:
            self._compiled = re.compile(*self._given)
            return self._compiled
