"""Which module is in a message as text: `.pbtxt` files, `print(proto)`, `MessageToJson`, whole or in part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Findings, Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.proto.messages import INSTRUCTION_FIELDS, KIND, Message, MessageBuilder, fields_of, scan_instruction
from hlo_cli.syntax.proto.read_module import read_proto
from hlo_cli.syntax.proto.text_encoder import BLANK, START, Encoded, encode_text
from hlo_cli.wire import Field, all_bytes, field, packed_field, read_fields, read_numbers

# --- where a message begins ---
# Where a message with HLO in it begins in a text: alone, or after an error, a prompt, or the mark of a code block.


_LOOKED_AT: Final = 1 << 16
"""The most characters from which a text is recognized."""
_SHORTEST_FULL_LINE: Final = 60
"""The fewest characters after which terminals and logs break a line."""

_FIELD: Final = r"\"?[A-Za-z0-9_]++\"?\s*+"  # quotes around names are JSON
_HEAD: Final = lazy_regex(
    rf"{START}(?:\{{{BLANK})?+"
    rf"(?:{_FIELD}(?::|[{{<]{BLANK}(?:{_FIELD}[:{{<\[]|[}}>]))|[}}>]{BLANK}(?:{_FIELD}[:{{<]|\}}|>\s))"
)
_EVIDENCE: Final = lazy_regex(  # fields that only messages of XLA have; `name:` alone may be any YAML
    r"\b(?:(?:computations|instructions|hlo_?[mM]odule)\"?\s*+:?\s*+(?:\[\s*+)?+[{<]|opcode\"?\s*+:\s*+[\"'])"
)
_INSIDE: Final = lazy_regex(
    r"""(?<![\w"'.])(?:(?:hlo|hlo_module|computations|instructions)\s*+:?\s*+\{\s*+(?=(?:hlo_module|name|id|opcode|computations|instructions)\s*+[:{])"""
    r"""|name\s*+:\s*+"[^"\n]*+"\s*+(?=(?:entry_computation_name|computations|instructions|opcode)\s*+[:{]))"""
)


def find_proto_text(text: str) -> int | None:
    """The offset at which a message with HLO in it, or part of one, begins; None if a text has none near its start.

    >>> find_proto_text('error at: hlo { hlo_module { name: "m" } }'), find_proto_text("e { p = f32[] parameter(0) }")
    (10, None)
    """
    if _EVIDENCE.search(text, 0, _LOOKED_AT) is None:
        return None
    if _HEAD.match(text, 0, _LOOKED_AT) is not None:
        return 0
    match = _INSIDE.search(text, 0, _LOOKED_AT)
    return None if match is None else match.start()


def looks_like_proto_text(text: str) -> bool:
    """Whether a message with HLO in it, or part of one, begins in the first 64 KiB of a text.

    >>> looks_like_proto_text('computations { name: "e" }'), looks_like_proto_text("name: deploy")
    (True, False)
    """
    return find_proto_text(text) is not None


def _unwrapped(text: str) -> str:
    """A message on one line that was broken into lines of equal length, as one line; other texts unchanged.

    >>> _unwrapped("x" * 80 + "\\n" + "y" * 7) == "x" * 80 + "y" * 7
    True
    """
    width = text.find("\n")
    if width < _SHORTEST_FULL_LINE:
        return text
    lines = text.rstrip().split("\n")
    is_wrapped = len(lines[-1]) <= width and all(len(line) == width for line in lines[:-1])
    return "".join(lines) if is_wrapped and len(lines) > 1 else text


# --- parts completed to a module ---
# Parts of a module's message completed to a module: undefined operands become parameters without a shape.


_INSTRUCTIONS, _ROOT = (fields_of("HloComputationProto")[name].number for name in ("instructions", "root_id"))
_COMPUTATIONS, _SCHEDULE = (fields_of("HloModuleProto")[name].number for name in ("computations", "schedule"))
_NAME: Final = fields_of("HloModuleProto")["name"].number
"""The number of the name, in computations too."""
# a snapshot's arguments and a proto's buffers are not part of the program
_HOLDERS: Final = {"HloSnapshot": "hlo", "HloProto": "hlo_module"}
_LOCAL: Final = (1 << 32) - 1  # the unique id of an instruction has its computation in the upper 32 bits
"""The bits of an id that number an instruction in its computation."""


def completed(kind: str, data: bytes) -> bytes:
    """The bytes of a module for those of a part: of a module, a message around one, computations, or instructions.

    There is no schedule in it, as that lists all instructions.

    >>> lone = MessageBuilder(KIND).add("name", "n").add("opcode", "negate").add("id", 2).add("operand_ids", (1,))
    >>> [computation] = Message("HloModuleProto", completed(KIND, lone.to_bytes())).messages("computations")
    >>> [each.text("name") for each in computation.messages("instructions")], computation.integer("root_id")
    (['operand.1', 'n'], 2)
    """
    while kind in _HOLDERS:
        message = Message(kind, data)
        data = message.data(_HOLDERS[kind])
        kind = fields_of(kind)[_HOLDERS[kind]].type
    if kind == KIND:
        kind, data = "HloComputationProto", field(_INSTRUCTIONS, data)
    if kind == "HloComputationProto":
        if not Message(kind, data).has("name"):
            data += field(_NAME, b"entry_computation")
        return _named(field(_COMPUTATIONS, _computation(data, is_lone=True)))
    parts = []
    for number, value in read_fields(data):
        if number == _COMPUTATIONS and isinstance(value, bytes):
            value = _computation(value, is_lone=False)
        if number != _SCHEDULE:
            parts.append(field(number, value))  # no field of a module is of fixed width
    return _named(b"".join(parts))


def _named(data: bytes) -> bytes:
    """A module with a name; as in text, one without is named after its last computation."""
    module = Message("HloModuleProto", data)
    if module.has("name") or not module.has("computations"):
        return data
    return data + field(_NAME, b"module_" + module.messages("computations")[-1].data("name"))


def _computation(data: bytes, *, is_lone: bool) -> bytes:
    """A computation after parameters for its undefined operands; lone instructions end with their root."""
    fields = read_fields(data)
    listed = all_bytes(fields, _INSTRUCTIONS)
    scanned = [scan_instruction(instruction) for instruction in listed]
    ids = dict.fromkeys(instruction[3] for instruction in scanned)
    parameters = [instruction[4] for instruction in scanned if instruction[1] == opcodes.PARAMETER.encode()]
    numbers = count(max(parameters, default=-1) + 1)
    references = dict.fromkeys(number for message in listed for number in _references(read_fields(message)))
    made = [_parameter(number, next(numbers)) for number in references if number not in ids]
    data = b"".join(field(_INSTRUCTIONS, instruction) for instruction in made) + data
    if any(number == _ROOT for number, _ in fields):
        return data
    if is_lone and listed:
        root = scanned[-1][3]
    elif 0 in ids:
        root = max(ids) + 1  # the root is not in the text
    else:
        return data
    return data + field(_ROOT, root)


def _references(fields: list[Field]) -> list[int]:
    """The ids of the operands and control predecessors of an instruction."""
    names = ("operand_ids", "control_predecessor_ids")
    return [number for name in names for number in read_numbers(packed_field(fields, INSTRUCTION_FIELDS[name]))]


def _parameter(number: int, place: int) -> bytes:
    draft = MessageBuilder(KIND).add("name", f"operand.{number & _LOCAL}").add("opcode", opcodes.PARAMETER)
    return draft.add("id", number).add("parameter_number", place).to_bytes()


# --- reading ---
# A module from one of XLA's messages as text, whole or in part: `.pbtxt` files, `print(proto)`, `MessageToJson`.


def read_proto_text(source: Source) -> Module:
    """The module in a message given as text; of parts of one, a module of what there is.

    Errors of a text that is truncated or malformed are in `module.errors`; HloError if nothing is readable.

    >>> text = 'instructions { name: "p" opcode: "parameter" shape { element_type: F32 dimensions: 2 } }'
    >>> read_proto_text(Source("m.pbtxt", text)).entry.root.name
    'p'
    """
    source = Source(source.name, _unwrapped(source.text), source.first_line)
    encoded = encode_text(source, find_proto_text(source.text) or 0)
    is_partial = encoded.is_partial or not _has_entry(encoded)
    try:
        data = completed(encoded.kind, encoded.data) if is_partial else encoded.data
        module = read_proto(data, source, is_partial=is_partial)
    except HloError as error:
        raise HloError.of(encoded.errors) if encoded.errors else error from None
    module.read_errors += encoded.errors
    module.check = partial(_findings, module.check, encoded.notes)
    return module


def _has_entry(encoded: Encoded) -> bool:
    """Whether a message is a module, and all of it, or contains one."""
    if encoded.kind != "HloModuleProto":
        return encoded.kind not in ("HloComputationProto", "HloInstructionProto")
    module = Message(encoded.kind, encoded.data)
    return module.has("entry_computation_id") or module.has("entry_computation_name")


def _findings(check: Callable[[Module], Findings] | None, notes: tuple[Diagnostic, ...], module: Module) -> Findings:
    """The findings in a proto, and the notes on its text."""
    findings = check(module) if check is not None else Findings()
    return Findings(findings.errors, (*notes, *findings.notes))
