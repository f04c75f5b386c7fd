"""The one allocation that a message names: in brackets after it, or on the stack of an instruction."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import OomAllocation
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.type_names import xla_type
from hlo_cli.syntax.compiler_files.byte_texts import byte_number
from hlo_cli.syntax.compiler_files.names import Places, Shapes
from hlo_cli.syntax.out_of_memory.labels import (
    custom_kernel,
    label_parts,
    purpose_of,
    shape_end,
    spaced_tag,
    tagged_place,
    window_of,
)
from hlo_cli.syntax.out_of_memory.messages import FoundHead
from hlo_cli.syntax.out_of_memory.squeezed import Squeezed, one_line
from hlo_cli.syntax.out_of_memory.tables import Details

_SHAPE = re.compile(r"shape[=:]'?(\([^']{1,20000}?\)(?=')|[a-z][a-z0-9]{0,20}+\[[^\]\[]{0,400}\](?:\{[^{}]{0,200}\})?)")
_SPACE = re.compile(r"[,'\s]space=([a-z_]{1,24})(?=[^a-z_]|\Z)")
_TAG = re.compile(r"tag=['\"]([^'\"]{0,4000})")
_HOST = re.compile(r"::(%?[\w.\-]{1,60})=(\w[\w.]{0,60})\[")
_KIND = re.compile(r"\bkind:(\w{1,30})")
_OPERAND = re.compile(r"/\*?operand([0-9]{1,6})\*?/")
_LABEL_END = re.compile(r"\s::\s+([\w.\-<>$/]{1,400})")
_END_OF_STRING = re.compile(r"""\\*["'][}\])\\"']{0,20}\s*\Z""")
_LONGEST: Final = 6000
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_ALLOCATION = re.compile(r"#allocation[0-9]{1,9}")
_ALLOCA = re.compile(r"(?:Hlo-Op:|pipeline\.)([\w.\-]{1,200}?)((?::[0-9]{1,9}){1,2}):error")
_WORDS = re.compile(r"memref<((?:[0-9]{1,12}x){1,8})([a-z]{1,4}[0-9]{1,3})")
_SHAPE_RETOLD = re.compile(r'op_name="([^"]{1,2000})"(?:source_file="[^"]{0,500}")?(?:source_line=[0-9]{1,9})?Shape:')
_LARGEST = re.compile(
    r"[Ll]argest (?:\w{1,20} )?(?:allocations?|temporar(?:y|ies)|buffers?)\b"
    r"(?P<text>[^\n]{0,300}(?:\n(?![ \t]*\n)[^\n]{0,300}){0,4})"
)
_REQUESTS = re.compile(r"(?<![\w.])([A-Za-z]\w{0,200}_\w{1,200})`? (?:requested|requests|requires|needs) ")
_RETOLD_SIZE = re.compile(r"(?<![\w.])([0-9]{1,6}(?:\.[0-9]{1,6})?) ?([KMGT])i?B?\b")
_RETOLD_NAME = re.compile(r"label(?:l?ed)? [`'\"]?%?([a-zA-Z][\w.\-]{0,200})")
_RETOLD_OP_NAME = re.compile(r"\b((?:jit|pjit|pmap)\([\w\-<>.]{0,100}\)/[\w()/.\-\[\]=,]{1,600})")
_ANY_SHAPE = re.compile(r"\b[a-z][a-z0-9]{1,20}\[[0-9]{1,12}(?:, ?[0-9]{1,12}){0,12}\](?:\{[^{}\n]{0,200}\})?")
_RETOLD_WITHIN: Final = 1500
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]++|\\.)*+)')
_SOURCE_FILE = re.compile(r'\bsource_file="((?:[^"\\]++|\\.)*+)')
_SOURCE_LINE = re.compile(r"\bsource_line=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Record:
    """An allocation, and the memory space that the record names."""

    allocation: OomAllocation
    space: str = ""


def record_after(details: Details, size_bytes: int | None, places: Places, shapes: Shapes) -> Record | None:
    """The failed allocation of a message, from the brackets after it.

    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> text = " :: #allocation7 [shape = 'f32[8]{0}', space=hbm, size = 0x20, tag = 'output of add.3@{1}'] :: <none>"
    >>> record = record_after(details_of(text), 32, Places(None), Shapes())
    >>> record.space, str(record.allocation.place), record.allocation.tag
    ('hbm', 'add.3{1}', 'output of add.3{1}')
    """
    squeezed = details.squeezed
    end = _paragraph_end(details)
    text = squeezed.text
    shape = _SHAPE.search(text, details.start, end)
    tag_found = _TAG.search(text, details.start, end)
    if shape is None and tag_found is None:
        return None
    space = _SPACE.search(text, details.start, end)
    tag_text = spaced_tag(squeezed.words(*tag_found.span(1))) if tag_found else ""
    tag, operand = purpose_of(tag_text)
    space_name = space[1] if space else ""
    if (host := _HOST.search(text, details.start, end)) and host[2].endswith(".host"):
        space_name = "host"
        kind = _KIND.search(text, host.end(), end)
        number = _OPERAND.search(text, host.end(), end)
        tag, operand = (kind[1] if kind else ""), (int(number[1]) if number else None)
    label = _label(squeezed, details.start, end)
    if (not label or label.startswith("<")) and (number := _ALLOCATION.search(text, details.start, end)):
        label = number[0]
    named = tagged_place(tag_text)
    place = places.of(*named) if named else (places.of(label) if label and label[0] not in "<#" else None)
    window, buffering = window_of(tag_text)
    is_scoped = ",scoped" in text[details.start : end]
    allocation = OomAllocation(
        size_bytes,
        shapes.of(shape[1]) if shape else None,
        label=label,
        place=place,
        kind="scoped" if is_scoped else "",
        tag=tag,
        tag_text=tag_text,
        operand_number=operand,
        kernel=custom_kernel(place.name, "tpu_custom_call", "") if place is not None and is_scoped else "",
        window=shapes.of(window) if window else None,
        buffering=buffering,
    )
    return Record(allocation, space_name)


def stack_allocation(label: str, size_bytes: int | None, places: Places, shapes: Shapes) -> OomAllocation:
    """The allocation on the stack of an instruction, whose text is the label.

    >>> label = '%k.1 = f32[8]{0} custom-call(%p), custom_call_target="tpu_custom_call", metadata={op_name="f/k"}'
    >>> allocation = stack_allocation(label, 64, Places(None), Shapes())
    >>> str(allocation.place), str(allocation.shape), allocation.opcode, allocation.kernel
    ('k.1', 'f32[8]{0}', 'custom-call', 'k')
    """
    if label.count('"') % 2 or sum(map(label.count, "([{")) != sum(map(label.count, ")]}")):
        label = _END_OF_STRING.sub("", label)
    name, opcode, shape, target = label_parts("".join(label.split()))
    op_name = found[1] if (found := _OP_NAME.search(label)) else ""
    file = _SOURCE_FILE.search(label)
    line = _SOURCE_LINE.search(label)
    return OomAllocation(
        size_bytes,
        shapes.of(shape) if shape else None,
        label=one_line(label),
        place=places.of(name) if name else None,
        opcode=opcode,
        op_name=op_name,
        source_file=file[1] if file else "",
        source_line=int(line[1]) if line else None,
        kind="scoped",
        kernel=custom_kernel(name, target, op_name),
        target=target,
    )


def _label(squeezed: Squeezed, start: int, end: int) -> str:
    """The name after the last `::` of a record."""
    source = squeezed.source[squeezed.origin(start) : squeezed.end_origin(end)]
    bracket = source.rfind("]")
    if bracket < 0:
        return ""
    found = _LABEL_END.search(source, bracket)
    return found[1] if found else ""


def _paragraph_end(details: Details) -> int:
    """The end of the text that can belong to a record: at a blank line, at most some thousand characters."""
    end = min(details.end, details.start + _LONGEST)
    source = details.squeezed.source
    origin, last = details.squeezed.origin(details.start), details.squeezed.end_origin(end)
    blank = _PARAGRAPH.search(source, origin, last)
    return end if blank is None else max(details.start, min(end, details.squeezed.index_of(blank.start())))


def tensor_allocation(dimensions: str, type_name: str, shapes: Shapes) -> OomAllocation:
    """The tensor that TensorFlow could not allocate.

    >>> tensor_allocation("4,8", "float", Shapes()).size_bytes
    128
    """
    element = xla_type(type_name) or type_name
    sizes = [int(size) for size in dimensions.split(",") if size.strip()]
    if not element:
        return OomAllocation(label=f"[{','.join(map(str, sizes))}]")
    shape = shapes.of(f"{element}[{','.join(map(str, sizes))}]")
    return OomAllocation(shape.logical_bytes if isinstance(shape, ArrayShape) else None, shape)


def sparse_core_allocation(found: FoundHead, details: Details, places: Places, shapes: Shapes) -> OomAllocation | None:
    """The allocation on a SparseCore that did not fit: its size in words and its type in the compiler's dialect."""
    text, end = details.squeezed.text, min(details.end, details.start + _LONGEST)
    size = found.size("request")
    if size is None and "memref.alloca" not in text[max(0, found.start - _RETOLD_WITHIN) : found.start]:
        return None
    kind = _WORDS.search(text, details.start, end)
    where = _ALLOCA.search(text, max(0, found.start - _RETOLD_WITHIN), found.start)
    shape = f"{_mlir_type(kind[2])}[{kind[1].rstrip('x').replace('x', ',')}]" if kind else ""
    label = f"memref.alloca ({where[1]}{where[2]})" if where else "memref.alloca"
    place = places.of(where[1]) if where else None
    return OomAllocation(size, shapes.of(shape) if shape else None, label=label, place=place)


def retold_kernel(details: Details, size_bytes: int | None, places: Places) -> OomAllocation | None:
    """The kernel that a person names as the one that requests too much.

    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> retold_kernel(details_of("CompileTimeScopedVmemOom; `my_kernel` requested 17M"), None, Places(None)).label
    'my_kernel'
    """
    source = details.squeezed.source
    begin = details.squeezed.origin(details.start)
    found = _REQUESTS.search(source, begin, min(begin + _RETOLD_WITHIN, details.squeezed.end_origin(details.end)))
    if found is None:
        return None
    return OomAllocation(size_bytes, label=found[1], place=places.of(found[1]), kind="scoped", kernel=found[1])


def retold_allocation(details: Details, places: Places, shapes: Shapes) -> OomAllocation | None:
    """The largest allocation as a person wrote it down; None if a shape is not given.

    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> text = "The largest allocation is the temp `bf16[5,8]`, **1.00 GiB**, labeled `fusion.4`."
    >>> str(retold_allocation(details_of(text), Places(None), Shapes()).shape)
    'bf16[5,8]{1,0}'
    """
    text, end = details.squeezed.text, min(details.end, details.start + _RETOLD_WITHIN)
    if named := _SHAPE_RETOLD.search(text, details.start, end):
        stop = shape_end(text, named.end(), end)
        op_name = details.squeezed.words(*named.span(1))
        if stop > named.end():
            kernel = custom_kernel("", "", op_name)
            return OomAllocation(shape=shapes.of(text[named.end() : stop]), op_name=op_name, kernel=kernel)
    source = details.squeezed.source
    largest = _LARGEST.search(source, details.squeezed.origin(details.start), details.squeezed.end_origin(end))
    shape = _ANY_SHAPE.search(largest["text"]) if largest else None
    if largest is None or shape is None:
        return None
    size, name = _RETOLD_SIZE.search(largest["text"]), _RETOLD_NAME.search(largest["text"])
    path = _RETOLD_OP_NAME.search(largest["text"])
    return OomAllocation(
        byte_number(f"{size[1]}{size[2]}") if size else None,
        shapes.of(shape[0].replace(" ", "")),
        label=name[1].rstrip(".") if name else "",
        place=places.of(name[1].rstrip(".")) if name else None,
        op_name=path[1].rstrip(".") if path else "",
    )


def _mlir_type(name: str) -> str:
    return f"s{name[1:]}" if name[0] == "i" else name
