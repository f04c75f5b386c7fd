"""The first sentences of XLA's out-of-memory messages, one pattern each, and the meaning of their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_files.out_of_memory import OomStage
from hlo_cli.syntax.compiler_files.byte_texts import BYTES
from hlo_cli.syntax.compiler_files.names import NUMBER

WORD_BYTES: Final = 4
"""The bytes of a word, in which SparseCore counts its memory."""


@dataclass(frozen=True, slots=True)
class Head:
    """A pattern with groups `used`, `limit`, `over`, `space`, `device`, `module`, `label`, as far as they are known."""

    stage: OomStage
    target: Literal["tpu", "gpu", "cpu"] | None
    pattern: str
    space: str = ""
    unit: int = 1


_RAN_OUT: Final = r"Ran out of memory in memory space (?P<space>\w+)"
HEADS: Final = (
    Head(
        "compile",
        "tpu",
        rf"{_RAN_OUT} while allocating on stack for (?P<label>[^\n]*?)\.? +Scoped allocation with size "
        rf"(?P<used>{BYTES}) and limit (?P<limit>{BYTES}) exceeded scoped \w+ limit by (?P<over>{BYTES})",
    ),
    Head("compile", "tpu", rf"{_RAN_OUT} while allocating on stack for (?P<label>[^\n]*+)"),
    Head(
        "compile",
        "tpu",
        rf"{_RAN_OUT}\.(?: +Used (?P<used>{BYTES}) of (?P<limit>{BYTES}) \w+\.)?"
        rf"(?:\s+Exceeded \w+ capacity by (?P<over>{BYTES})\.)?",
    ),
    Head(
        "compile",
        "tpu",
        rf"Ran out of memory on (?P<space>\w+), the total memory required for HLO temporaries \((?P<used>{BYTES})\) "
        rf"exceeds available \w+ \((?P<limit>{BYTES})\)\.?(?: HLO module: (?P<module>[^\s]+?)\.?(?=\s))?",
    ),
    Head(
        "compile",
        "tpu",
        rf"Allocation \(size=(?P<used>{NUMBER})\) would exceed memory \(size=(?P<limit>{NUMBER})\)"
        rf"(?=(?: :: #[^\n]{{0,2000}}?space=(?P<space>\w+))?)",
    ),
    Head(
        "compile",
        "tpu",
        rf"(?:current )?allocation offset upper bound \((?P<used>{NUMBER}) words\) exceeds [^(\n]{{0,100}}"
        rf"\((?P<limit>{NUMBER}) words\)(?: in memory space (?P<space>\w+))?",
        "SparseCore",
        WORD_BYTES,
    ),
    Head(
        "run",
        "tpu",
        rf"Error allocating device buffer: Attempting to allocate (?P<used>{BYTES})\. That was not possible\. "
        rf"There are (?P<limit>{BYTES}) free\.(?:; \((?P<device>[^)\n]*+)\))?",
        "hbm",
    ),
    Head(
        "load",
        "tpu",
        rf"Error loading program(?: '[^'\n]*+')?: Attempting to reserve (?P<used>{BYTES}) at the (?:bottom|top) of "
        rf"memory\.(?: +That was not possible\.)?\s+There are {BYTES} free, {BYTES} reserved, and "
        rf"(?P<limit>{BYTES}) reservable\.(?:; \((?P<device>[^)\n]*+)\))?",
        "hbm",
    ),
    Head("run", None, rf"Out of memory while trying to allocate (?P<used>{BYTES})(?: bytes)?\b"),
    Head(
        "run",
        None,
        rf"Failed to allocate request for {BYTES} \((?P<used>{NUMBER})B\) on device ordinal (?P<device>{NUMBER})",
    ),
    Head(
        "run",
        "gpu",
        rf"Allocator \((?P<device>\w+)\) ran out of memory trying to allocate {BYTES} "
        rf"\(rounded to (?P<used>{NUMBER})\)",
    ),
    Head("run", "gpu", rf"Allocator \((?P<device>\w+)\) ran out of memory trying to allocate (?P<used>{BYTES})"),
    Head("run", "gpu", rf"failed to allocate {BYTES} \((?P<used>{NUMBER}) bytes\) from device"),
    Head("run", "cpu", rf"Out of memory allocating (?P<used>{NUMBER}) bytes"),
    Head(
        "compile",
        None,
        rf"Can't reduce memory use below {BYTES} \((?P<limit>{NUMBER}) bytes\) by rematerialization; "
        rf"only reduced to {BYTES} \((?P<used>{NUMBER}) bytes\)",
    ),
    Head(
        "compile",
        "gpu",
        rf"[Ss]hared memory size limit exceeded: requested (?P<used>{NUMBER}), available: (?P<limit>{NUMBER})",
        "shared memory",
    ),
)
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_ANY = re.compile("|".join("(" + _GROUP_NAME.sub("(?:", head.pattern) + ")" for head in HEADS))
_NO_FAILURE = re.compile(r"[^\n]{0,200}?The caller indicates that this is not a failure")


def heads(text: str) -> Iterator[tuple[Head, re.Match[str]]]:
    """The matches of the patterns in a text, without retries that are not failures.

    >>> [(head, match)] = heads("E: Out of memory allocating 64 bytes.")
    >>> head.target, match["used"]
    ('cpu', '64')
    """
    for found in _ANY.finditer(text):
        head = HEADS[(found.lastindex or 1) - 1]
        match = re.compile(head.pattern).match(text, found.start())
        if match is not None and not _NO_FAILURE.match(text, found.end()):
            yield head, match
