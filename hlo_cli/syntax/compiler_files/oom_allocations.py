"""Lists of the largest allocations in out-of-memory messages of TPU compilers and of buffer assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hlo_cli.ir.compiler_files.buffers import BufferPlace
from hlo_cli.ir.compiler_files.out_of_memory import OomAllocation
from hlo_cli.syntax.compiler_files.byte_texts import BYTES, byte_number
from hlo_cli.syntax.compiler_files.names import INDEX, NUMBER, Places, Shapes

_LIST = re.compile(r"Largest program allocations in \w+:|Peak buffers:")
_ENTRY_END = re.compile(r"^[ \t]*={8,}[ \t]*$|^[ \t]*$", re.MULTILINE)
_KEY = re.compile(
    r"^[ \t]*(?:[0-9]+\. )?(Size|Operator|Shape|Unpadded size|Extra memory due to padding|XLA [Ll]abel|Allocation type"
    r"|Entry Parameter Subshape|Tag): ([^\n]*)$",
    re.MULTILINE,
)
_NUMBER_LINE = re.compile(r"[ \t]*(?:Buffer [0-9]+:|[0-9]+\.)[ \t]*$", re.MULTILINE)
_BYTES = re.compile(BYTES)
_QUOTED = re.compile(r'\b(op_name|source_file)="((?:[^"\\]++|\\.)*+)"')
_SOURCE_LINE = re.compile(rf"\bsource_line=({NUMBER})")
_LABEL = re.compile(r"%?([\w.-]++) = (?:\(.{0,100000}?\) |[^\s(]++(?:\([^\s(]*+)* )?([a-z][a-z0-9-]*+)\(")
_OPCODE = re.compile(r"[a-z][a-z0-9-]*+")
_BRACKETED = re.compile(
    r"#allocation[0-9]++ \[shape = '([^'\n]*+)', space=\w+, size = \w+(?:, (?!tag)[^,\n\]]*+)*+"
    r"(?:, tag = '([^\n]*?)')?\](?: :: ([^\s]++))?"
)
_OUTPUT_OF = re.compile(rf"output of ([^\s@{{}}]++)@\{{({INDEX})\}}")
_SCOPED_FOR = re.compile(r"scoped memory for ([^\s'{}]++)")


def allocations_of(text: str, places: Places, shapes: Shapes) -> Iterator[OomAllocation]:
    """The allocations that a message lists, in its order, the largest first.

    >>> text = "Peak buffers:\\n\\tBuffer 1:\\n\\t\\tSize: 6.00MiB\\n\\t\\tXLA Label: fusion\\n"
    >>> text += "\\t\\tShape: f32[4096,384]\\n"
    >>> [allocation] = allocations_of(text, Places(None), Shapes())
    >>> allocation.size_bytes, allocation.opcode, str(allocation.shape)
    (6291456, 'fusion', 'f32[4096,384]{1,0}')
    """
    begin = _LIST.search(text)
    if begin is not None:
        yield from (_listed(entry, places, shapes) for entry in _entries(text[begin.end() :]))


def single_allocation(text: str, size_bytes: int | None, places: Places, shapes: Shapes) -> OomAllocation | None:
    """The failed allocation of a message, from the brackets after it.

    >>> text = " :: #allocation7 [shape = 'f32[8]{0}', space=hbm, size = 0x20, tag = 'output of add.3@{1}'] :: <none>"
    >>> allocation = single_allocation(text, 32, Places(None), Shapes())
    >>> str(allocation.place), allocation.tag
    ('add.3{1}', 'output of add.3@{1}')
    """
    found = _BRACKETED.search(text)
    if found is None:
        return None
    shape, tag, label = found[1], found[2] or "", found[3] or ""
    place = _tagged(tag, places) or (places.of(label) if label and not label.startswith("<") else None)
    kind = "scoped" if ", scoped" in found[0] else ""
    return OomAllocation(size_bytes, shapes.of(shape), label=label, place=place, kind=kind, tag=tag)


def place_in_label(label: str, places: Places) -> tuple[BufferPlace | None, str]:
    """The instruction in a label, and its opcode; labels of buffer assignments have only an opcode.

    >>> place, opcode = place_in_label("%copy.2 = f32[8]{0:T(256)} copy(f32[8]{0} %p), metadata={}", Places(None))
    >>> place.name, opcode, place_in_label("fusion", Places(None))
    ('copy.2', 'copy', (None, 'fusion'))
    """
    if found := _LABEL.match(label):
        return places.of(found[1]), found[2]
    return None, label if _OPCODE.fullmatch(label) else ""


def _entries(text: str) -> Iterator[Mapping[str, str]]:
    """The entries of a list as keys and values, up to the first text that is not an entry."""
    at = 0
    for end in (*(match.span() for match in _ENTRY_END.finditer(text)), (len(text), len(text))):
        block, at = text[at : end[0]].strip("\n"), end[1]
        if not block.strip():
            continue
        if not (_KEY.match(block) or _NUMBER_LINE.match(block)):
            return
        if found := {key.lower(): value.strip() for key, value in _KEY.findall(block)}:
            yield found


def _listed(entry: Mapping[str, str], places: Places, shapes: Shapes) -> OomAllocation:
    label, operator = entry.get("xla label", ""), entry.get("operator", "")
    place, opcode = place_in_label(label, places)
    parameter = entry.get("entry parameter subshape")
    shape = entry.get("shape", parameter)
    quoted = dict(_QUOTED.findall(operator))
    line = _SOURCE_LINE.search(operator)
    return OomAllocation(
        _size(entry.get("size")),
        shapes.of(shape) if shape else None,
        _size(entry.get("unpadded size")),
        _size(entry.get("extra memory due to padding")),
        label,
        place,
        "parameter" if parameter else opcode,
        quoted.get("op_name", ""),
        quoted.get("source_file", ""),
        int(line[1]) if line else None,
        entry.get("allocation type", ""),
        entry.get("tag", ""),
        parameter is not None,
    )


def _size(text: str | None) -> int | None:
    found = _BYTES.match(text) if text else None
    return byte_number(found[0]) if found else None


def _tagged(tag: str, places: Places) -> BufferPlace | None:
    if output := _OUTPUT_OF.search(tag):
        return places.of(output[1], output[2])
    scoped = _SCOPED_FOR.search(tag)
    return places.of(scoped[1]) if scoped else None
