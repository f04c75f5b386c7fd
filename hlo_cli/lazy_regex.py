"""Regular expressions that are compiled when they are first used.

Most match rare texts: a command on a clean dump needs half of the expressions in its modules, and compiling the
others took as long as reading the dump. Those that every text needs are compiled by `re.compile`.

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
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            value = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, value)  # repeated accesses find the attribute directly
            return value
