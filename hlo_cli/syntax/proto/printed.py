"""The text of a module that was read from a proto, printed when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable

from hlo_cli.source import Source


class PrintedSource(Source):
    """A source whose text is made on first use; nothing in the module has a place in it.

    >>> source = PrintedSource("m.hlo.pb", lambda: "HloModule m")
    >>> source.text
    'HloModule m'
    """

    __slots__ = ("_print", "_printed")

    def __init__(self, name: str, print_: Callable[[], str]) -> None:
        self._print = print_
        self._printed: str | None = None
        super().__init__(name, "")

    @property
    def text(self) -> str:
        """The text of the module as XLA prints it."""
        if self._printed is None:
            self._printed = self._print()
        return self._printed

    @text.setter
    def text(self, _: str) -> None:
        """There is no other text than that of the module."""
