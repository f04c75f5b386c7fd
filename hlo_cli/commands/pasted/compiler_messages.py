"""What does a message of the compiler mean? Errors, slow operations, and full rematerialization."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import MAX_FOLDED_ELEMENTS, evaluations, operand_elements
from hlo_cli.analysis.shapes.inference import shape_difference, shape_differences
from hlo_cli.analysis.sharding.placement import describe_sharding
from hlo_cli.commands.layout.shape import shapes_table
from hlo_cli.commands.modules.quoted import FoundInstruction, instructions_in, one_line, read_instruction
from hlo_cli.commands.prints.text_report import explained_parts
from hlo_cli.commands.shard.reshard import AnySharding, first_warned, warning_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import CompilerError, SlowOperation
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape, Shape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.compiler_messages.causes import CAUSES, HARMLESS
from hlo_cli.syntax.compiler_messages.compiler_errors import essential_text, parse_compiler_errors
from hlo_cli.syntax.compiler_messages.compiler_warnings import parse_slow_operations
from hlo_cli.syntax.compiler_messages.evidence import is_severe
from hlo_cli.syntax.compiler_messages.message_facts import (
    STATUS_WORDS,
    System,
    comparison_of,
    sentence_of,
    system_named,
    system_of,
    telling_line,
)
from hlo_cli.syntax.compiler_messages.tracing_errors import size_difference
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- errors ---
# An error of a compiler in place of a module: the rule in words, what violates it, and the instructions explained.


_NAMED: Final = lazy_regex(
    r"HLO: (?P<hlo>[\w.\-]++); HLO computation: (?P<computation>[\w.\-]++)|tracing scope: (?P<scope>[\w.\-]++)"
    r"|HLO name `(?P<kernel>[^`\n]{1,200})`|Entry function '(?P<entry>[\w.$]++)'|#hlo_module=(?P<module>[\w.\-]++)"
)
_LONGEST_MESSAGE: Final = 300  # some messages quote whole modules


_CAUSE_RULES: Final = frozenset(rule for _, rule in CAUSES) - frozenset(rule for _, rule in HARMLESS)
"""Rules that are of no system, so that the message's own is named."""


def _system_of(error: CompilerError, text: str) -> System | None:
    """The system of a message, if its rule does not name it."""
    if name := error.fields.get("system", ""):
        return None if name == "JAX" else system_named(name)
    if error.rule is not None and error.rule not in _CAUSE_RULES:
        return None
    system = system_of(error.message) or (None if error.raised_at and error.rule is not None else system_of(text))
    is_named = system is not None and error.rule is not None and system.name in error.rule.rule
    return None if is_named else system


def message_report(pasted: PastedText) -> Report | None:
    """The report on a message of no kind: by the rules, a cause, or its system; None if it is no message."""
    [first, *_] = parse_compiler_errors(pasted.text) or (None,)
    if first is None:
        return None
    # an echo of the words is no answer: without a rule, the system or the difference of two values is
    is_message = is_severe(telling_line(pasted.text)) and (
        system_of(pasted.text) is not None or bool(comparison_of(sentence_of(first.message)))
    )
    return compiler_error_report(pasted) if first.rule is not None or is_message else None


def framework_error_report(pasted: PastedText) -> Report | None:
    """The report on an error of a framework; None if none has a known rule: its words may be in any text."""
    is_known = any(error.rule is not None for error in parse_compiler_errors(pasted.text))
    return compiler_error_report(pasted) if is_known else None


def compiler_error_report(pasted: PastedText) -> Report:
    """The report on the first error of a text whose meaning is known, or on its most telling line."""
    errors = parse_compiler_errors(pasted.text)
    text = essential_text(pasted.text)
    found = instructions_in(text)
    if not errors:
        raise HloError(f"{pasted.name} is empty", hint="paste the complete message")
    first = errors[0]
    named = _names_in(text)
    paragraphs = _paragraphs_on(first, named, text)
    parts: list[Part] = [Passage("error", paragraphs)] if paragraphs else []
    if (table := _differences_table(first)) is not None:
        parts.append(table)
    elif not found and (shapes := _shapes_in(first.message)):
        parts.append(replace(shapes_table(shapes), main=False))
    parts += explained_parts(found)
    parts.append(_errors_table(errors, found, person=len(errors) > 1))
    parts.append(Passage("advice", _advice_on(first, found, named, text)))
    instruction = found[0] if found else None
    return Report(
        "parse",
        _answer_to(first, found),
        numbers={
            "status": first.status or None,
            "rule": first.rule.key if first.rule else None,
            "message": first.message or None,
            "context": first.context or None,
            "failed_after": first.failed_after or None,
            "raised_at": first.raised_at or None,
            "condition": first.condition or None,
            "fields": {name: value for name, value in first.fields.items() if value},
            "instruction": instruction.name or None if instruction else named.get("hlo") or None,
            "names": named,
            "op_name": instruction.op_name or None if instruction else None,
            "source": instruction.source or None if instruction else None,
            "user_line": first.user_line or None,
        },
        parts=tuple(parts),
        next=("hlo help dump",) if _is_about_hlo(first) else (),
        notes=tuple(_verifier_notes(found)),
        input={"path": pasted.name, "line": first.line},
    )


def _names_in(text: str) -> dict[str, str]:
    """The names of instructions, computations, and modules in a message, by their role."""
    found = dict[str, str]()
    for match in _NAMED.finditer(text):
        for role, name in match.groupdict().items():
            if name and name != "<no name>":
                found.setdefault(role, name)
    return found


def _errors_table(errors: Sequence[CompilerError], found: Sequence[FoundInstruction], *, person: bool) -> Table:
    instruction = found[0] if found else None
    columns: tuple[Column[CompilerError], ...] = (
        Column("status", "status", of=lambda error: error.status or None),
        Column("rule", "rule", of=lambda error: error.rule.key if error.rule else None),
        Column("violation", "violation", of=lambda error: _answer_to(error, found)),
        Column("message", "message", person=False, of=lambda error: error.message[:_LONGEST_MESSAGE]),
        Column("context", "context", person=False, of=lambda error: error.context or None),
        Column("pass", "pass", of=lambda error: error.failed_after or None),
        Column("raised_at", "raised at", "source", of=lambda error: error.raised_at or None),
        Column("line", "line", "line", of=lambda error: error.line),
        Column("instruction", "instruction", "name",
               of=lambda error: instruction.name or instruction.instruction.opcode if instruction else None),
        Column("op_name", "op_name", "op_name", person=False,
               of=lambda error: instruction.op_name or None if instruction else None),
        Column("source", "source", "source", person=False,
               of=lambda error: instruction.source or None if instruction else None),
    )  # fmt: skip
    rows = rows_from(columns, errors)
    return Table("errors", columns, rows, noun="errors", limit=5, person=person)


def _verifier_notes(found: Sequence[FoundInstruction]) -> list[Diagnostic]:
    """What our own verifier finds in the instructions."""
    notes = []
    for each in found[:3]:
        if not each.is_whole or _misses_computations(each):
            continue
        try:
            difference = shape_difference(each.instruction)
        except HloError as error:
            notes.append(Diagnostic("note", f"hlo finds: {error.diagnostic.message}"))
            continue
        if difference is not None:
            notes.append(Diagnostic("note", f"hlo finds in {each.name or each.instruction.opcode}: {difference}"))
    return notes


def _misses_computations(found: FoundInstruction) -> bool:
    """Whether the instruction calls computations, which are not in the text."""
    return any(name in _CALLS for name, _ in found.instruction.pairs)


_CALLS: Final = frozenset(("to_apply", "calls", "body", "condition", "branch_computations", "called_computations"))


# --- the error in words ---

_EXCEPTION: Final = lazy_regex(r"^(?:[A-Za-z_][\w.]{0,100}(?:Error|Exception): )?+(?=\S)")
_NO_CONTEXT: Final = "during context [Unknown]: "
_DUMP_FLAGS: Final = "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'"
_LONGEST_ANSWER: Final = 240  # three lines of 80 columns
_START: Final = "pipeline-start"
_ROLES: Final = {
    "hlo": "instruction",
    "computation": "computation",
    "scope": "instruction",
    "kernel": "kernel",
    "entry": "kernel",
    "module": "module",
}


def _answer_to(error: CompilerError, found: Sequence[FoundInstruction]) -> str:
    """The violation in one sentence."""
    if error.rule is None:
        words = sentence_of(_EXCEPTION.sub("", error.message).replace(_NO_CONTEXT, ""))
        difference = "" if _difference_of_sizes(error.message) else comparison_of(words)
        return f"{words} ({difference})" if difference and len(words) <= _LONGEST_ANSWER else words
    name = found[0].name or found[0].instruction.opcode if found else ""
    shapes = _shapes_of(error)
    title = error.rule.key[0].upper() + error.rule.key[1:]
    if error.rule.key == "result shape" and len(shapes) == 2:
        of = f"the result of {name}" if name else "the result of an instruction"
        expected, actual = (shape.to_string(layout=False) for shape in shapes.values())
        if expected == actual:
            return f"{title}: {of} has another layout than its operands give"
        words = f"{title}: {of} is {actual}, but its operands give {expected}"
        one, other = shapes.values()
        index, _, _, difference = next(shape_differences(one, other), ((), None, None, ""))
        words += f" ({difference})" if difference and not index else ""
        return words if len(words) <= _LONGEST_ANSWER else f"{title}: {_first_difference(error)}"
    if len(shapes) > 1 and (words := _first_difference(error)):
        return f"{title}: {words}"
    if error.rule.key == "mixed precision" and found:
        return f"{title}: {name} has {_float_types(found[0])} values"
    if violated := _violated(error):
        return f"{title}: {violated[0].lower() if _is_sentence(violated) else violated[0]}{violated[1:]}"
    return f"{title}: {name or sentence_of(error.message)}"


def _float_types(found: FoundInstruction) -> str:
    """The floating-point types of the operands; of the result if those are not in the text."""
    instruction = found.instruction
    shapes = [instruction.operand_shape(at) for at in range(len(instruction.operands))] or [instruction.shape]
    if any(isinstance(shape, UnknownShape) for shape in shapes):
        shapes = [instruction.shape]
    types = [leaf.element_type for shape in shapes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)]
    return " and ".join(dict.fromkeys(str(each) for each in types if each.kind == "float")) or "several"


def _is_sentence(words: str) -> bool:
    return words.split(" ")[0] in (
        "The",
        "All",
        "An",
        "A",
        "Line",
        "Dimension",
        "Device",
        "There",
        "No",
        "One",
        "For",
        "Instructions",
        "Axis",
        "Rank",
        "Along",
        "It",
        "This",
        "At",
        "Dimensions",
        "Argument",
    )


def _first_difference(error: CompilerError) -> str:
    shapes = _shapes_of(error)
    expected = _expected_of(shapes)
    for label, shape in shapes.items():
        for index, _, _, words in shape_differences(shapes[expected], shape) if label != expected else ():
            place = (
                f"element {index_text(index)} of the {_WHERE.get(label, label)}"
                if index
                else f"the {_WHERE.get(label, label)}"
            )
            return f"in {place}, {words}"
    return ""


_WHERE: Final = {
    "initial": "initial value",
    "condition": "parameter of the condition",
    "body": "parameter of the body",
    "result": "result of the body",
    "first": "result of branch 0",
    "other": "result of the other branch",
    "left": "left operand",
    "right": "right operand",
    "actual": "result",
}


def _violated(error: CompilerError) -> str:
    """The violation with the numbers of the message; empty if the message has none."""
    if error.rule is None or not error.rule.violated:
        return ""
    fields = defaultdict(str, error.fields)
    fields |= {
        name: f"{format_bytes(int(size))} ({int(size):,} bytes)" if int(size) >= 1024 else format_bytes(int(size))
        for name, size in error.fields.items()
        if name.endswith("_bytes") and size
    }
    fields |= {name: f"{int(each):,}" for name, each in error.fields.items() if name.endswith("_count") and each}
    if error.rule.key.startswith("shared memory"):
        return f"The kernel needs {int(fields['used'], 16):,} bytes, and {int(fields['limit'], 16):,} are available"
    if error.rule.key == opcodes.RESHAPE and len(counts := _element_counts(fields)) > 1:
        return ", ".join(counts)
    words = " ".join(_with_clauses(error.rule.violated, fields).format_map(fields).partition(" @ 0x")[0].split())
    words = words.replace(", S()", "")  # memory of the device has no number in a layout
    words = words.strip().rstrip(".: ").removesuffix("; its last warning")  # which a message of NCCL may lack
    return words.replace("  ", " ")


_CLAUSE: Final = lazy_regex(r"\[\[(?P<clause>[^|\]]*+)(?:\|(?P<other>[^\]]*+))?\]\]")
_FIELD: Final = lazy_regex(r"\{(\w++)\}")


def _with_clauses(template: str, fields: Mapping[str, str]) -> str:
    """A template with those optional clauses whose fields have a value, or else with what takes their place.

    >>> _with_clauses("{a}[[ in {b}]] is [[{c}|new]].", {"a": "x", "b": "", "c": ""})
    '{a} is new.'
    """
    return _CLAUSE.sub(
        lambda match: (
            match["clause"]
            if all(fields.get(name) for name in _FIELD.findall(match["clause"]))
            else match["other"] or ""
        ),
        template,
    )


def _element_counts(fields: Mapping[str, str]) -> list[str]:
    """The numbers of elements of the operand and the result of a reshape, as clauses."""
    counts = list[str]()
    for shape in (_shapes_in(fields["operand"]), _shapes_in(fields["result"])):
        for each in shape:
            if isinstance(each, ArrayShape):
                noun = " elements" if not counts else ""
                counts.append(f"{each.to_string(layout=False)} has {each.elements:,}{noun}")
    return counts


def _paragraphs_on(error: CompilerError, named: Mapping[str, str], text: str) -> tuple[str, ...]:
    """The rule, the violation, the meaning of the status, and the places that the message names."""
    paragraphs = list[str]()
    if error.rule is not None:
        paragraphs.append(error.rule.rule)
    elif len(error.message) > _LONGEST_ANSWER:
        paragraphs.append(f"The message: {error.message}")
    if system := _system_of(error, text):
        paragraphs.append(system.role)
    if error.rule is None and (difference := _difference_of_sizes(error.message)):
        paragraphs.append(f"The sizes differ: {difference}.")
    if operation := error.fields.get("operation_text"):
        paragraphs.append(f"The operation: {operation}")
    places = []
    if error.status in STATUS_WORDS:
        places.append(f"{error.status}: {STATUS_WORDS[error.status]}.")
    raised = []
    raised += [f"in the check {error.context}"] if error.context else []
    raised += [f"after the pass {error.failed_after}"] if error.failed_after else []
    raised += [f"at {error.raised_at}"] if error.raised_at else []
    places += [f"It was raised {', '.join(raised)}."] if raised else []
    places += [f"The check is `{error.condition}`."] if error.condition else []
    if places:
        paragraphs.append(" ".join(places))
    names = [f"{_ROLES[role]} {name}" for role, name in named.items() if role in _ROLES]
    if names:
        paragraphs.append(f"The message names the {' and the '.join(dict.fromkeys(names))}.")
    return tuple(paragraphs)


def _difference_of_sizes(message: str) -> str:
    """Where the first two shapes in Python's form differ; empty unless the words at them tell that they are shapes.

    >>> _difference_of_sizes("shapes (4, 8) and (4, 9) differ"), _difference_of_sizes("nan at (12, 5) and (13, 6)")
    ('dimension 1 is 8 and 9', '')
    """
    sizes = list(islice(_PYTHON_SHAPE.finditer(message), 2))
    if len(sizes) < 2 or not _SHAPE_WORD.search(message, max(0, sizes[0].start() - _BEFORE_SHAPES), sizes[1].end()):
        return ""
    difference = size_difference(f"{sizes[0][0]} {sizes[1][0]}", along=-1)
    # shapes of several ranks need not be two of one kind: one may be a list of axes
    return difference if difference.startswith("dimension") else ""


def _advice_on(
    error: CompilerError, found: Sequence[FoundInstruction], named: Mapping[str, str], text: str
) -> tuple[str, ...]:
    """Who can fix it, how, and how to see more."""
    advice = list[str]()
    if error.rule is not None and error.rule.fix:
        advice.append(error.rule.fix.format_map(defaultdict(str, error.fields)))
    if error.rule is None:
        advice += _advice_on_difference(comparison_of(sentence_of(error.message)))
    if system := _system_of(error, text):
        advice.append(system.next_step)
    if blame := _blame(error):
        advice.append(blame)
    if place := _place(error, found):
        advice.append(f"Start at {place}.")
    if _is_about_hlo(error):
        advice.append(_next_step(error, found, named))
    return tuple(advice)


def _advice_on_difference(difference: str) -> tuple[str, ...]:
    """Where two shapes or types that differ come from."""
    if difference.startswith("the types") and "dimension" not in difference:
        return ("Look for a missing cast, or for a constant or an input of the other type.",)
    if ": pad it to" in difference:
        return ("Change one of the two numbers, such as a batch size, a number of heads, or a size of the mesh.",)
    return (_SHAPE_ADVICE,) if difference.startswith(("dimension", "the shapes", "the summed", "the types")) else ()


_SHAPE_ADVICE: Final = (
    "Look where the first of them is made: another batch size, a transposed matrix, a missing dimension (x[:, None]), "
    "a missing cast, or the weights of another model."
)


def _blame(error: CompilerError) -> str:
    """Whose fault it is, as far as the place of the check tells."""
    if error.failed_after == _START:
        return (
            "No pass of the pipeline had run, so the program was already invalid when it entered: the fault is in the "
            "framework or in an earlier pipeline."
        )
    if error.failed_after and error.context == "hlo verifier":
        return (
            f"The pass {error.failed_after}, or one of its pipeline, made a valid program invalid: a bug of XLA, not "
            "of the program. Compare with another release; `hlo diff DIR --passes` lists what each pass changes."
        )
    if error.rule is not None and error.rule.is_program is False and error.context:
        return "XLA's own passes made the program invalid: a bug of XLA, or of the framework that wrote the HLO."
    return ""


def _place(error: CompilerError, found: Sequence[FoundInstruction]) -> str:
    places = [each for each in (found[0].op_name, found[0].source) if each] if found else []
    places += [error.user_line] if error.user_line else []
    return ", ".join(places)


def _is_about_hlo(error: CompilerError) -> bool:
    if error.rule is not None:
        return error.rule.is_about_hlo
    # Without a check or a pass, the error may be of Python or of the runtime, where a dump says nothing.
    return bool(error.condition or error.failed_after or error.context or error.raised_at)


def _next_step(error: CompilerError, found: Sequence[FoundInstruction], named: Mapping[str, str]) -> str:
    name = found[0].name if found else named.get("hlo") or named.get("scope") or named.get("entry") or ""
    if error.rule is not None and error.rule.key in ("StableHLO or MLIR", "Mosaic kernel"):
        return "For the HLO of the program, print jax.jit(f).lower(...).compile().as_text() of a version that compiles."
    steps = f"To see the program, set {_DUMP_FLAGS}, run again, and check the dump with `hlo lint DIR`."
    if name:
        steps += f" `hlo parse DUMP --slice {name}` cuts out a small reproduction."
    return steps


# --- the shapes that differ ---

_ELEMENT_COLUMNS: Final = (
    Column("element", "element", of=lambda label, index, one, other, words: index_text(index) if index else None),
    Column("expected", "expected", "shape", of=lambda label, index, one, other, words: _text(one, words)),
    Column("part", "in", of=lambda label, index, one, other, words: _TITLES.get(label, label)),
    Column("found", "found", "shape", of=lambda label, index, one, other, words: _text(other, words)),
    Column("difference", "difference", of=lambda label, index, one, other, words: words),
)
_SHAPE: Final = lazy_regex(r"(?<![\w.])[a-z][a-z0-9]{0,15}\[[0-9,<=?]{0,400}+\](?:\{[^{}\n]{1,200}+\})?+")
_PYTHON_SHAPE: Final = lazy_regex(r"\(\d{1,9}(?:,|(?:, ?\d{1,9}){1,8},?)\)|\[\d{1,9}(?:, ?\d{1,9}){0,8},?\]")
"""A tuple of Python, which has a comma, or a list: `(28)` is a number."""
_SHAPE_WORD: Final = lazy_regex(
    r"[Ss]hape|\b[Ss]izes\b|\bSize\(|\b(?:pred|bf16|[fsuc]\d{1,3}|float\d\d|bfloat16|u?int\d{1,2})[(\[]"
)
_BEFORE_SHAPES: Final = 40  # characters: "shape mismatch: value array of shape" is one before a shape
_MOST_SHAPES: Final = 20  # a message that quotes a module has thousands
_TITLES: Final[dict[str, str]] = {
    "actual": "text",
    "first": "branch 0",
    "other": "other branch",
    "left": "left operand",
    "right": "right operand",
    "initial": "initial value",
    "condition": "condition parameter",
    "body": "body parameter",
    "result": "body result",
}


def _differences_table(error: CompilerError) -> Table | None:
    """The elements that differ from the first shape, or from that which most of several have; None if none do."""
    shapes = _shapes_of(error)
    if len(shapes) < 2:
        return None
    expected = _expected_of(shapes)
    differences = (
        (label, *difference)
        for label, shape in shapes.items()
        if label != expected
        for difference in shape_differences(shapes[expected], shape)
    )
    rows = rows_from_tuples(_ELEMENT_COLUMNS, differences)
    return Table("shape_differences", _ELEMENT_COLUMNS, rows, noun="differences", main=False) if rows else None


def _shapes_of(error: CompilerError) -> dict[str, Shape]:
    """The shapes of an error that can be read, by the names of their fields."""
    found = dict[str, Shape]()
    for field in error.rule.shapes if error.rule is not None else ():
        try:
            shape = parse_shape(error.fields.get(field, ""))
        except (HloError, RecursionError):
            continue
        if not isinstance(shape, UnknownShape):
            found[field] = shape
    return found


def _shapes_in(message: str) -> list[Shape]:
    """The distinct array shapes in a message, in order.

    >>> [str(shape) for shape in _shapes_in("got f32[2,3] and bf16[<=8]{0}, not f32[2,3] or x[1]")]
    ['f32[2,3]{1,0}', 'bf16[<=8]{0}']
    """
    found = dict[str, Shape]()
    for match in islice(_SHAPE.finditer(message), _MOST_SHAPES):
        try:
            shape = parse_shape(match[0])
        except HloError:
            continue
        if not isinstance(shape, UnknownShape):
            found.setdefault(match[0], shape)
    return list(found.values())


def _expected_of(shapes: dict[str, Shape]) -> str:
    """The field of the shape that most fields have; the first of equals."""
    counts = Counter(
        {
            label: sum(next(shape_differences(shape, other), None) is None for other in shapes.values())
            for label, shape in shapes.items()
        }
    )
    return counts.most_common(1)[0][0]


def _text(shape: Shape | None, words: str) -> str | None:
    """The shape, with its layout only where that is the difference."""
    return None if shape is None else shape.to_string(layout=words.startswith("layout"))


# --- slow operations ---
# Warnings about slow operations of the compiler in place of a module: what is slow, how much work it is, and why.


_SLOW_COLUMNS: Final = (
    Column("warnings", "warnings", "count", total="sum", of=lambda group: group.warnings),
    Column("seconds", "time", "seconds", of=lambda group: group.seconds),
    Column("operation", "operation", rank=6, of=lambda group: _WORDS[group.first.kind]),
    Column("instruction", "instruction", "name", role="name", of=lambda group: group.name or None),
    Column("evaluations", "evaluations", "count", of=lambda group: group.evaluations),
    Column("operand_elements", "operand elements", "count", person=False, of=lambda group: group.operand_elements),
    Column("bytes", "result", "bytes", of=lambda group: group.bytes),
    Column("shape", "shape", "shape", of=lambda group: str(group.found.instruction.shape) if group.found else None),
    Column("op_name", "op_name", "op_name", rank=3, from_width=120,
           of=lambda group: group.found.op_name or None if group.found else None),
    Column("source", "source", "source", rank=4, of=lambda group: group.found.source or None if group.found else None),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlowGroup:
    """The warnings about one instruction or module, with the longest time in them."""

    warnings: int
    first: SlowOperation
    seconds: float | None
    found: FoundInstruction | None

    @property
    def name(self) -> str:
        """The name of the instruction or module; empty if it is not in the text."""
        return self.first.name or (self.found.name or self.found.instruction.opcode if self.found else "")

    @property
    def evaluations(self) -> int | None:
        """The scalar operations of the instruction."""
        return evaluations(self.found.instruction) if self.found and self.first.kind == "folding" else None

    @property
    def operand_elements(self) -> int | None:
        """The elements of all operands."""
        return operand_elements(self.found.instruction) if self.found else None

    @property
    def bytes(self) -> int | None:
        """The size of the result."""
        return self.found.instruction.shape.logical_bytes if self.found else None


def slow_operation_report(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one with the most work first."""
    groups = _groups(parse_slow_operations(pasted.text))
    if not groups:
        return compiler_error_report(pasted)
    first = groups[0]
    rows = rows_from(_SLOW_COLUMNS, groups)
    parts: list[Part] = [Table("operations", _SLOW_COLUMNS, rows, noun="operations", limit=10, person=len(groups) > 1)]
    if first.found is not None:
        parts += explained_parts([first.found])
    parts.append(Passage("advice", tuple(_advice(first))))
    return Report(
        "parse",
        _slow_answer(first),
        numbers={
            "operation": first.first.kind,
            "warnings": sum(group.warnings for group in groups),
            "name": first.name or None,
            "seconds": first.seconds,
            "threshold_seconds": first.first.threshold_seconds,
            "evaluations": first.evaluations,
            "bytes": first.bytes,
            "op_name": first.found.op_name or None if first.found else None,
            "source": first.found.source or None if first.found else None,
        },
        parts=tuple(parts),
        next=("hlo help dump",),
        notes=tuple(_slow_notes(first)),
        input={"path": pasted.name, "line": first.first.line},
    )


def _groups(warnings: Sequence[SlowOperation]) -> list[SlowGroup]:
    found = defaultdict[tuple[str, str], list[SlowOperation]](list)
    for warning in warnings:
        found[warning.kind, one_line(warning.operation) or warning.name].append(warning)
    groups = [_group(text, group) for (_, text), group in found.items()]
    return sorted(groups, key=lambda group: (-(group.evaluations or 0), -(group.seconds or 0), -(group.bytes or 0)))


def _group(text: str, group: Sequence[SlowOperation]) -> SlowGroup:
    times = [each.seconds for each in group if each.seconds is not None]
    instruction = read_instruction(text) if group[0].operation else None
    return SlowGroup(len(group), group[0], max(times) if times else None, instruction)


_WORDS: Final[dict[str, str]] = {
    "folding": "constant folding",
    "compilation": "compilation",
    "unoptimized build": "compilation",
    "autotuning": "autotuning",
}


def _slow_answer(group: SlowGroup) -> str:
    time = _time(group)
    match group.first.kind:
        case "folding":
            words = f"XLA computes {group.name or 'an instruction'} during compilation{time}"
            work = f" with {format_count(group.evaluations, 'evaluations')}" if group.evaluations else ""
            return f"{words}: a constant of {format_bytes(group.bytes)}{work}" if group.bytes else words
        case "autotuning":
            return f"Trying the algorithm {group.first.algorithm} for {group.name or 'an instruction'} is slow{time}"
        case "unoptimized build":
            return "XLA was built without compiler optimizations, so compilation is slow"
        case _:
            return f"Compiling {group.name or 'a module'} is slow{time}"


def _time(group: SlowGroup) -> str:
    if group.seconds is not None:
        return f" ({format_seconds(group.seconds)})"
    threshold = group.first.threshold_seconds
    return f" (more than {threshold:g} s)" if threshold else ""


def _slow_notes(group: SlowGroup) -> list[Diagnostic]:
    notes = []
    if group.found is None and group.first.operation:
        notes.append(Diagnostic("note", f"cannot read the instruction: {one_line(group.first.operation)[:200]}"))
    elif group.found is None:
        notes.append(Diagnostic("note", "the text has only a name, not the instruction"))
    threshold = group.first.threshold_seconds or 0
    if group.first.kind == "folding" and threshold > 1:
        earlier = int(threshold).bit_length() - 1
        notes.append(
            Diagnostic("note", f"the threshold doubles with each slow instruction; {earlier} came before this one")
        )
    return notes


def _advice(group: SlowGroup) -> list[str]:
    match group.first.kind:
        case "folding":
            return _folding_advice(group)
        case "autotuning":
            return [_TRIALS, _KEEP_TRIALS]
        case "unoptimized build":
            return ["Rebuild XLA with `-c opt`, or install a release of jaxlib or TensorFlow."]
        case _:
            return [_COMPILATION, _DUMP_ADVICE]


def _folding_advice(group: SlowGroup) -> list[str]:
    size = f" of {format_bytes(group.bytes)}" if group.bytes else ""
    means = (
        "This is not an error. The operands are constants, so XLA evaluates the instruction on the host and stores the "
        f"result{size} in the executable. It skips results and operands of more than {MAX_FOLDED_ELEMENTS:,} elements."
    )
    repeated = _repeated_operands(group)
    instead = (
        "To avoid it, pass the array as an argument of the jitted function instead of closing over it or creating it "
        "inside; to compute it once on the host, create it with NumPy outside of jit. To switch the pass off, set "
        "XLA_FLAGS=--xla_disable_hlo_passes=constant_folding."
    )
    place = ", ".join(filter(None, (group.found.op_name, group.found.source))) if group.found else ""
    means = f"{means} {repeated}".strip()
    found = [means, f"It comes from {place}. {instead}" if place else instead]
    return found if group.found else [*found, f"The message shows only a name. {_DUMP_ADVICE}"]


def _repeated_operands(group: SlowGroup) -> str:
    """A sentence on the operands that, by their names, repeat one value or count up."""
    if group.found is None:
        return ""
    instruction = group.found.instruction
    names = [
        f"{operand.name} ({format_bytes(instruction.operand_shape(at).logical_bytes)})"
        for at, operand in enumerate(instruction.operands)
        if operand.name.startswith(("broadcast", "iota")) and instruction.operand_shape(at).logical_bytes
    ]
    made = "by its name a repeated value or an iota, such as from jnp.zeros, jnp.ones, or jnp.arange"
    return f"The operand {' and '.join(names)} is {made}." if names else ""


_DUMP_ADVICE: Final = (
    "To see the instructions, set XLA_FLAGS=--xla_dump_to=DIR, compile again, and run `hlo parse DIR` on the result."
)
_COMPILATION: Final = (
    "This is not an error. XLA warns once a compilation takes 2 minutes, and only for the first of 1, 2, 4, 8, and so "
    "on slow ones; no option switches the warning off, but TF_CPP_MIN_LOG_LEVEL=3 hides all errors in the log. Usual "
    "causes are unrolled Python loops (use jax.lax.scan or fori_loop), large constants, and many autotuned kernels; "
    "a persistent compilation cache (jax_compilation_cache_dir) keeps the result."
)
_TRIALS: Final = (
    "This is not an error. While compiling, XLA runs each algorithm of the library once per shape and keeps the "
    "fastest; the program itself is not slowed."
)
_KEEP_TRIALS: Final = (
    "To shorten it, keep shapes constant, store the results with --xla_gpu_per_fusion_autotune_cache_dir=DIR, or lower "
    "--xla_gpu_autotune_level (0 switches it off and takes a default algorithm)."
)


# --- full rematerialization ---
# Warnings about full rematerialization in place of a module: both shardings, the instruction, and the cost.


def resharding_report(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one about the largest array first."""
    report = warning_report(pasted.text, pasted.name, command="parse")
    first = first_warned(pasted.text)
    if report is None or first is None:
        return compiler_error_report(pasted)
    parts: list[Part] = [*report.parts]
    if first.before is not None or first.after is not None:
        parts.insert(0, _sharding_words(first.before, first.after))
    if first.found is not None:
        parts[-1:-1] = explained_parts([first.found])
    return replace(report, parts=tuple(parts))


def _sharding_words(before: AnySharding | None, after: AnySharding | None) -> Passage:
    """Both shardings in words."""
    words = (
        f"{label} {sharding}: {describe_sharding(sharding)}"
        if sharding is not None
        else f"{label} a sharding that is not in the text, or elided in it"
        for label, sharding in (("From", before), ("To", after))
    )
    return Passage("shardings", tuple(words))
