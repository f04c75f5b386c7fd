"""What an error means and what to do, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.analysis.shapes.difference_in_words import shape_differences
from hlo_cli.commands.pasted.shape_differences import expected_of, shapes_in, shapes_of
from hlo_cli.commands.quoted.instructions import FoundInstruction
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_files.compiler_error import CompilerError
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.shape import ArrayShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex

_STATUSES: Final = {
    "INTERNAL": "INTERNAL means that a check inside of the compiler or runtime failed",
    "INVALID_ARGUMENT": "INVALID_ARGUMENT means that the program, an option, or an input is not valid",
    "UNIMPLEMENTED": "UNIMPLEMENTED means that this backend or release does not support the program",
    "FAILED_PRECONDITION": "FAILED_PRECONDITION means that the state of the program or the system does not allow it",
    "NOT_FOUND": "NOT_FOUND means that a function, file, or device of that name is missing",
    "UNAVAILABLE": "UNAVAILABLE means that a device or another process does not answer",
    "DEADLINE_EXCEEDED": "DEADLINE_EXCEEDED means that another process did not answer in time",
    "UNKNOWN": "UNKNOWN is an error of another library",
}
_EXCEPTION: Final = lazy_regex(r"^(?:[A-Za-z_][\w.]{0,100}(?:Error|Exception): )?+(?=\S)")
_NO_CONTEXT: Final = "during context [Unknown]: "
_DUMP: Final = "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'"
_LONGEST_ANSWER: Final = 240
_START: Final = "pipeline-start"
_ROLES: Final = {
    "hlo": "instruction",
    "computation": "computation",
    "scope": "instruction",
    "kernel": "kernel",
    "entry": "kernel",
    "module": "module",
}


def answer_to(error: CompilerError, found: Sequence[FoundInstruction]) -> str:
    """The violation in one sentence."""
    if error.rule is None:
        return _EXCEPTION.sub("", error.message).replace(_NO_CONTEXT, "")[:_LONGEST_ANSWER]
    name = found[0].name or found[0].instruction.opcode if found else ""
    shapes = shapes_of(error)
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
    return f"{title}: {name}" if name else f"{title}: {error.message[:_LONGEST_ANSWER]}"


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
    )


def _first_difference(error: CompilerError) -> str:
    shapes = shapes_of(error)
    expected = expected_of(shapes)
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
    if error.rule.key.startswith("shared memory"):
        return f"The kernel needs {int(fields['used'], 16):,} bytes, and {int(fields['limit'], 16):,} are available"
    if error.rule.key == opcodes.RESHAPE and len(counts := _element_counts(fields)) > 1:
        return ", ".join(counts)
    words = " ".join(error.rule.violated.format_map(fields).partition(" @ 0x")[0].split())
    return words.strip().rstrip(".: ").replace("  ", " ")


def _element_counts(fields: Mapping[str, str]) -> list[str]:
    """The numbers of elements of the operand and the result of a reshape, as clauses."""
    counts = list[str]()
    for shape in (shapes_in(fields["operand"]), shapes_in(fields["result"])):
        for each in shape:
            if isinstance(each, ArrayShape):
                noun = " elements" if not counts else ""
                counts.append(f"{each.to_string(layout=False)} has {each.elements:,}{noun}")
    return counts


def paragraphs_on(error: CompilerError, named: Mapping[str, str]) -> tuple[str, ...]:
    """The rule, the violation, the meaning of the status, and the places that the message names."""
    paragraphs = list[str]()
    if error.rule is not None:
        paragraphs.append(error.rule.rule)
    elif len(error.message) > _LONGEST_ANSWER:
        paragraphs.append(f"The message: {error.message}")
    if operation := error.fields.get("operation_text"):
        paragraphs.append(f"The operation: {operation}")
    places = []
    if error.status in _STATUSES:
        places.append(_STATUSES[error.status] + ".")
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


def advice_on(error: CompilerError, found: Sequence[FoundInstruction], named: Mapping[str, str]) -> tuple[str, ...]:
    """Who can fix it, how, and how to see more."""
    advice = list[str]()
    if error.rule is not None and error.rule.fix:
        advice.append(error.rule.fix.format_map(defaultdict(str, error.fields)))
    if blame := _blame(error):
        advice.append(blame)
    if place := _place(error, found):
        advice.append(f"Start at {place}.")
    if _is_about_hlo(error):
        advice.append(_next_step(error, found, named))
    return tuple(advice)


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


_NOT_HLO: Final = frozenset(("axes of a mesh", "sharding of an argument", "compile option", "array size"))


def _is_about_hlo(error: CompilerError) -> bool:
    return error.rule is None or error.rule.key not in _NOT_HLO


def _next_step(error: CompilerError, found: Sequence[FoundInstruction], named: Mapping[str, str]) -> str:
    name = found[0].name if found else named.get("hlo") or named.get("scope") or named.get("entry") or ""
    if error.rule is not None and error.rule.key in ("StableHLO or MLIR", "Mosaic kernel"):
        return "For the HLO of the program, print jax.jit(f).lower(...).compile().as_text() of a version that compiles."
    steps = f"To see the program, set {_DUMP}, run again, and check the dump with `hlo lint DIR`."
    if name:
        steps += f" `hlo parse DUMP --slice {name}` cuts out a small reproduction."
    return steps
