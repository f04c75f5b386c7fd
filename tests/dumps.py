"""The dumps in fixtures/, for tests that hold for each of them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures"


@dataclass(frozen=True)
class Dump:
    """One module after optimization, and the files that the compiler wrote about it."""

    path: Path

    @property
    def platform(self) -> str:
        """What it was compiled for: tpu, gpu or cpu."""
        return self.path.parent.parent.name

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.parent.name

    @cached_property
    def text(self) -> str:
        """The module's text."""
        return _text(self.path)

    def sibling(self, kind: str) -> str:
        """The text of a file beside the dump, such as `buffer-assignment`."""
        stem = self.path.name.removesuffix(".gz").removesuffix(".txt")
        return _text(next(self.path.parent.glob(f"{stem}-{kind}.txt*")))

    def __str__(self) -> str:
        return f"{self.platform}/{self.name}"


def compiled_dumps() -> list[Dump]:
    """Every module after optimization, one folder after the other."""
    found = [*FIXTURES.glob("*/*/*after_optimizations.txt"), *FIXTURES.glob("*/*/*after_optimizations.txt.gz")]
    return [Dump(path) for path in sorted(found)]


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
