"""Lists of the largest allocations in out-of-memory messages of TPU compilers and of buffer assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import OomAllocation
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.compiler_files.byte_texts import BYTES, byte_number
from hlo_cli.syntax.compiler_files.names import NUMBER, Places, Shapes
from hlo_cli.syntax.out_of_memory.labels import custom_kernel, label_parts, purpose_of, shape_end
from hlo_cli.syntax.out_of_memory.squeezed import Squeezed, one_line
from hlo_cli.syntax.out_of_memory.tables import Details

_LIST = re.compile(r"Largestprogramallocationsin\w{1,12}?:|Peakbuffers:")
_LISTED = re.compile(
    rf"(?:Buffer{NUMBER}:|{NUMBER}\\?\.)?Size:{BYTES}(?=Operator:|Shape:|Unpaddedsize:|XLA[Ll]abel:|EntryParameterSubshape:|Tag:)"
)
_TOKEN = re.compile(
    r"(?P<end>={8,})|(?P<number>Buffer[0-9]{1,6}+:|[0-9]{1,6}+\\?\.)(?=Size:|XLA[Ll]abel:|Operator:|Shape:|\Z)"
    r"|(?P<key>Size|Operator|Shape|Unpaddedsize|Extramemoryduetopadding|XLA[Ll]abel|Allocationtype"
    r"|EntryParameterSubshape|Tag):"
)
_TYPES: Final = (
    "HLOtemp",
    "Arguments",
    "arguments",
    "Output",
    "scoped",
    "global",
    "overlays",
    "reserved",
    "stack",
    "heap",
)
_TYPE = re.compile(rf"{'|'.join(_TYPES)}|[A-Za-z_]{{4,24}}")
_BYTE: Final = 8
_ROUNDED: Final = 1.02
_SIZE = re.compile(BYTES)
_ASSIGNED = re.compile(r"\w{1,30}=")
_EXPANSION = re.compile(r"\([0-9.]{1,20}xexpansion\)")
_BLANK_LINE = re.compile(r"\n[ \t]*\n|={8,}")
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]++|\\.)*+)')
_SOURCE_FILE = re.compile(r'\bsource_file="((?:[^"\\]++|\\.)*+)')
_SOURCE_LINE = re.compile(rf"\bsource_line=({NUMBER})")
_OPEN, _CLOSED = re.compile(r"[\[({]"), re.compile(r"[\])}]")


@dataclass(frozen=True, slots=True)
class _Field:
    """A value of an entry: its place in the text without whitespace, and itself on one line."""

    start: int
    end: int
    text: str


def allocations_of(details: Details, places: Places, shapes: Shapes) -> Iterator[OomAllocation]:
    """The allocations that a message lists, in its order, the largest first.

    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> text = "Peak buffers:\\n\\tBuffer 1:\\n\\t\\tSize: 6.00MiB\\n\\t\\tXLA Label: fusion\\n"
    >>> text += "\\t\\tShape: f32[4096,384]\\n"
    >>> [allocation] = allocations_of(details_of(text), Places(None), Shapes())
    >>> allocation.size_bytes, allocation.opcode, str(allocation.shape)
    (6291456, 'fusion', 'f32[4096,384]{1,0}')
    """
    begin = details.search(_LIST)
    start = begin.end() if begin is not None else None
    if start is None and (found := details.search(_LISTED)):
        start = found.start()
    if start is not None:
        for entry in _entries(details.squeezed, start, details.end):
            allocation = _listed(details.squeezed, entry, places, shapes)
            if allocation.size_bytes is not None or allocation.shape is not None or allocation.label:
                yield allocation


def _entries(squeezed: Squeezed, start: int, end: int) -> Iterator[dict[str, _Field]]:
    """The entries of a list as keys and values, up to the first text that is not an entry."""
    entry: dict[str, _Field] = {}
    at = start
    numbered, is_numbered = -1, False
    for token in _TOKEN.finditer(squeezed.text, start, end):
        first = _number_start(squeezed, token)
        if first < at:
            continue
        if not _is_key(squeezed, token, end):
            continue
        if squeezed.text[at:first].strip("-•"):
            break
        key = (token["key"] or "").lower()
        if entry and (not key or key in entry or key == "size"):
            yield entry
            entry = {}
        if token["number"]:
            numbered, is_numbered = token.end(), True
        elif key == "size" and is_numbered and token.start() != numbered and not _has_more(squeezed, token.end(), end):
            return
        at = token.end()
        if key:
            value = _value(squeezed, key, token.end(), end)
            entry[key] = value
            at = value.end
    if entry:
        yield entry


def _number_start(squeezed: Squeezed, token: re.Match[str]) -> int:
    """The start of an entry's number, without digits of the value before it."""
    if not token["number"]:
        return token.start()
    start = token.start()
    source, origin = squeezed.source, squeezed.origin(token.end("number") - 1)
    digits = (
        len(source[:origin].rstrip("\\"))
        if origin < 64
        else len(source[origin - 64 : origin].rstrip("\\")) + origin - 64
    )
    first = digits
    while first > 0 and source[first - 1].isdigit():
        first -= 1
    return max(start, token.end("number") - 1 - (origin - first)) if token["number"][0] != "B" else start


def _has_more(squeezed: Squeezed, start: int, end: int) -> bool:
    """Whether another key comes right after a size; a size alone may belong to other text."""
    size = _SIZE.match(squeezed.text, start, end)
    token = _TOKEN.match(squeezed.text, size.end(), end) if size else None
    return token is not None and bool(token["key"])


def _is_key(squeezed: Squeezed, token: re.Match[str], end: int) -> bool:
    """Whether a key has a value of its kind after it."""
    text, at = squeezed.text, token.end()
    match token["key"]:
        case "Size" | "Unpaddedsize" | "Extramemoryduetopadding":
            return text[at : at + 1].isdigit() or at >= end
        case "Shape" | "EntryParameterSubshape":
            return shape_end(text, at, end) > at or at >= end
        case "Operator":
            return _ASSIGNED.match(text, at) is not None or at >= end
        case _:
            return True


def _value(squeezed: Squeezed, key: str, start: int, end: int) -> _Field:
    """The value of a key, from the text after it."""
    text = squeezed.text
    if key in ("size", "unpaddedsize", "extramemoryduetopadding"):
        found = _SIZE.match(text, start, end)
        stop = found.end() if found else start
        note = _EXPANSION.match(text, stop, end)
        return _Field(start, note.end() if note else stop, text[start:stop])
    if key in ("shape", "entryparametersubshape"):
        stop = shape_end(text, start, end)
        return _Field(start, stop, text[start:stop])
    if key == "allocationtype":
        found = _TYPE.match(text, start, end)
        stop = found.end() if found else start
        words = squeezed.words(start, stop) if text[start:stop] in _TYPES else squeezed.first_word(start, stop)
        return _Field(start, start + len(words.replace(" ", "")), words)
    return _free_text(squeezed, start, end)


def _free_text(squeezed: Squeezed, start: int, end: int) -> _Field:
    """A label, operator, or tag: to the next key, blank line, or line that does not continue it."""
    stop = end
    for token in _TOKEN.finditer(squeezed.text, start, end):
        first = _number_start(squeezed, token)
        if _is_key(squeezed, token, end) and _begins_line(squeezed, first):
            stop = first
            break
    if stop <= start:
        return _Field(start, start, "")
    origin, source_end = squeezed.origin(start), squeezed.end_origin(stop)
    size = _length(squeezed.source, origin, source_end)
    after = max(start, min(stop, squeezed.index_of(origin + size)))
    return _Field(start, after, one_line(squeezed.source[origin : origin + size]))


def _begins_line(squeezed: Squeezed, offset: int) -> bool:
    """Whether there is whitespace before a token in the source, or nothing that could be a word it belongs to."""
    origin = squeezed.origin(offset)
    return origin == 0 or not (squeezed.source[origin - 1].isalnum() or squeezed.source[origin - 1] in "_\"'=(/.")


def _length(source: str, start: int, end: int) -> int:
    """The length of a value: it goes on after a line break only while brackets or quotes are open."""
    blank = _BLANK_LINE.search(source, start, end)
    end = blank.start() if blank else end
    depth, quotes, at = 0, 0, start
    while at < end:
        stop = source.find("\n", at, end)
        stop = end if stop < 0 else stop
        line = source[at:stop]
        depth += len(_OPEN.findall(line)) - len(_CLOSED.findall(line))
        quotes += line.count('"') - line.count('\\"')
        at = stop + 1
        if line.rstrip().endswith("...") or (depth <= 0 and quotes % 2 == 0):
            return stop - start
    return end - start


def _listed(squeezed: Squeezed, entry: dict[str, _Field], places: Places, shapes: Shapes) -> OomAllocation:
    entry = _consistent(entry, shapes)
    label, operator = entry.get("xlalabel"), entry["operator"].text if "operator" in entry else ""
    place, opcode, label_shape, target = None, "", "", ""
    if label is not None:
        name, opcode, label_shape, target = label_parts(squeezed.text[label.start : label.end])
        place = places.of(name) if name else None
        opcode = opcode if name or " " not in label.text else ""
    parameter = entry.get("entryparametersubshape")
    shape = entry.get("shape", parameter)
    shape_text = shape.text if shape is not None and shape.text else label_shape
    label_text = label.text if label is not None else ""
    op_name = _quoted(_OP_NAME, operator) or _quoted(_OP_NAME, label_text)
    line = _SOURCE_LINE.search(operator) or _SOURCE_LINE.search(label_text)
    tag_text = entry["tag"].text if "tag" in entry else ""
    tag, operand = purpose_of(tag_text)
    return OomAllocation(
        _size(entry.get("size")),
        shapes.of(shape_text) if shape_text else None,
        _size(entry.get("unpaddedsize")),
        _size(entry.get("extramemoryduetopadding")),
        label_text,
        place,
        "parameter" if parameter else opcode,
        op_name,
        _quoted(_SOURCE_FILE, operator) or _quoted(_SOURCE_FILE, label_text),
        int(line[1]) if line else None,
        entry["allocationtype"].text if "allocationtype" in entry else "",
        tag,
        parameter is not None,
        tag_text,
        operand,
        custom_kernel(place.name if place is not None else "", target, op_name),
        target,
    )


def _consistent(entry: dict[str, _Field], shapes: Shapes) -> dict[str, _Field]:
    """An entry without the facts of another one, of which text is missing: no value is larger than its allocation."""
    size, unpadded = _size(entry.get("size")), _size(entry.get("unpaddedsize"))
    if size is None:
        return entry
    shape = shapes.of(entry["shape"].text) if "shape" in entry and entry["shape"].text else None
    if isinstance(shape, ArrayShape) and shape.element_type.bits >= _BYTE and shape.logical_bytes > _ROUNDED * size:
        return {key: field for key, field in entry.items() if key in ("size", "operator")}
    if unpadded is not None and unpadded > _ROUNDED * size:
        return {key: field for key, field in entry.items() if key in ("size", "operator", "shape")}
    return entry


def _quoted(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _size(field: _Field | None) -> int | None:
    return byte_number(field.text) if field is not None and field.text else None
