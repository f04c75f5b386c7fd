"""Regular expressions that are compiled when they are first used.

Most are for what few texts hold: a command on a clean dump needs half of those that its modules name, and compiling the
others took as long as reading the dump. What every text needs is compiled by `re.compile` as ever. It is a pattern to
whoever calls its methods, not to `re.compile` or `==`.

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
        """A regular expression, given as to `re.compile`, that answers as what that makes of it."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._given = text, flags

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # copies and pickles are asked for such before they hold anything
                raise AttributeError(name)
            value = getattr(self._compiled or self._compile(), name)
            setattr(self, name, value)  # what is asked again is found at once
            return value

        _compiled: re.Pattern[str] | None = None

        def _compile(self) -> re.Pattern[str]:
            self._compiled = re.compile(*self._given)
            return self._compiled
