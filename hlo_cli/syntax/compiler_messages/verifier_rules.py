"""The messages of XLA's verifier, shape inference, and parser, and the rules that they report.

Mirrors xla/service/hlo_verifier.cc, xla/service/shape_inference.cc, xla/hlo/ir/hlo_instruction.cc, and
xla/hlo/parser/hlo_parser.cc. In the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import ErrorRule

SHAPE: Final = r"(?:\([^;\n]{0,2000}?\)|[a-z][a-z0-9]{0,15}\[[^\]\n]{0,400}\](?:\{[^}\n]{0,200}\})?)"


_END: Final = r"\.|$|[ ,]"
_ACTUAL_END: Final = r":|$|[ .]"
_CLOSED: Final = r"\) ->"
_SPACE: Final = r"\s|$"


def _shape(name: str, after: str) -> str:
    """A shape that is followed by `after`, as a field of the message."""
    return rf"(?P<{name}>{SHAPE})(?={after})"


VERIFIER_RULES: Final = (
    (
        (
            rf"Expected instruction to have shape equal to {_shape('expected', ', actual')}, actual shape is "
            rf"{_shape('actual', _ACTUAL_END)}"
        ),
        ErrorRule(
            "result shape",
            "The result of an instruction has the shape that follows from its operands and attributes.",
            "The operands give {expected}, the text has {actual}.",
            shapes=("expected", "actual"),
            is_program=False,
        ),
    ),
    (
        (
            r"(?P<opcode>\w++) instruction shouldn't change layout memory space from (?P<from>\w++) to (?P<to>\w++):"
            r"(?: %?(?P<name>[\w.\-]++) = [^\n]*?(?:S\((?P<space>\d++)\)[^\n]*?)? "
            r"[a-z][\w\-]*+\((?:[^\n]*? )?%?(?P<operand>[A-Za-z_][\w.\-]*+)[,)])?"
        ),
        ErrorRule(
            "memory space",
            "Operand 0 and the result of this opcode are in one memory space.",
            "{name} takes a {from} array ({operand}) and gives a {to} array, S({space}).",
            "Move the array first, by jax.device_put to the other memory kind, or keep both in one "
            "space; S(5) is host memory.",
            is_program=False,
        ),
    ),
    (
        r"Seen floating point types of different precisions in",
        ErrorRule(
            "mixed precision",
            "All floating-point operands of this opcode have the same type.",
            "",
            "Convert the operands to one type. If XLA's own pass mixed them, disable that pass.",
        ),
    ),
    (
        (
            r"The parameter of condition and body, the result of the body, and init must all have the same shape; got "
            rf"Condition: \(\s*+[\w.\-]++: {_shape('condition', _CLOSED)}\) -> [^;]{{0,400}}; body: \(\s*+[\w.\-]++: "
            rf"{_shape('body', _CLOSED)}\) -> {_shape('result', '; init')}; init: {_shape('initial', _END)}"
        ),
        ErrorRule(
            "loop state",
            "The initial value of a loop, the parameters of its condition and body, and the result of the body have "
            "one shape.",
            "",
            "Make the body return the types, sizes, and structure that it gets; cast the element that changes.",
            shapes=("initial", "condition", "body", "result"),
            is_program=True,
        ),
    ),
    (
        (
            r"result of branch 0 computation and branch (?P<number>\d++) computation must have the same shape: got "
            rf"branch 0 computation result: {_shape('first', ';')}; branch \d++ computation result: "
            rf"{_shape('other', _END)}"
        ),
        ErrorRule(
            "branch results",
            "All branches of a conditional return the same shape.",
            "Branch 0 returns {first}, branch {number} returns {other}.",
            "Return the same types, sizes, and structure from all branches.",
            shapes=("first", "other"),
            is_program=True,
        ),
    ),
    (
        (
            rf"Binary op (?:\w++ )?with (?:incompatible shapes|different element types): {_shape('left', ' and')} and "
            rf"{_shape('right', _END)}"
        ),
        ErrorRule(
            "operand shapes",
            "The operands of an elementwise operation have the same sizes and type; HLO does not broadcast by itself.",
            "The operands are {left} and {right}.",
            shapes=("left", "right"),
        ),
    ),
    (
        r"Unbounded dynamism is disabled for instruction",
        ErrorRule(
            "unbounded dimension",
            "Every dimension has a size or a bound; `?` has none, while `<=8` is at most 8.",
            "",
            "Lower for concrete sizes, or refine the shapes before compiling; the backend does not run unbounded ones.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:Custom call target (?P<target>['\"\w.$@]++) is not implemented"
            r"|No registered implementation for (?:\w++ )?custom call to (?P<called>['\"\w.$@]++) for "
            r"(?P<platform>\w++))"
        ),
        ErrorRule(
            "custom-call target",
            "The target of a custom call is registered for the platform before the program is compiled or run.",
            "No function is registered for {target}{called}.",
            "Load the library that registers the target, or compile for a platform that has it. PadToStatic and "
            "SliceToDynamic mean that the program has dynamic dimensions.",
            is_program=True,
        ),
    ),
    (
        r"channel (?P<channel>\d++) is used for (?:different types of channel|multiple host send/recv) instructions",
        ErrorRule(
            "channel",
            "All instructions with one channel_id are of one kind; a host transfer has a channel of its own.",
            "Instructions with channel_id={channel} differ.",
            "Find them in the dump: hlo parse DUMP --instructions --where 'channel_id == {channel}'.",
            is_program=False,
        ),
    ),
    (
        r"hlo->operand_count\(\) == split_count",
        ErrorRule(
            "all-to-all operands",
            "An all-to-all with several operands has one operand for each device of a group.",
            "The number of operands is not the size of the replica groups.",
            is_program=False,
        ),
    ),
    (
        r"The (?P<opcode>[\w\-]++) instruction requires one consumer, found (?P<found>\d++)",
        ErrorRule(
            "start and done",
            "Every start of an asynchronous operation is used by exactly one done.",
            "The {opcode} has {found} users.",
        ),
    ),
    (
        (
            r"StaticExtentProduct\(operand->shape\(\)\) shape: "
            rf"{_shape('result', ' operand')} operand: {_shape('operand', _SPACE)}"
        ),
        ErrorRule(
            opcodes.RESHAPE,
            "A reshape keeps the number of elements.",
            "The operand is {operand}, the result {result}.",
            is_program=True,
        ),
    ),
    (
        r"mismatched element counts: from=(?P<from>\d++) \([^)]{0,400}\) to=(?P<to>\d++)",
        ErrorRule(
            opcodes.RESHAPE,
            "A reshape keeps the number of elements.",
            "The operand has {from} elements, the result {to}.",
            is_program=True,
        ),
    ),
    (
        r"Expected (?P<expected>\d++) operands for (?P<opcode>[\w\-]++) instruction",
        ErrorRule("operand count", "An opcode has a fixed number of operands.", "{opcode} needs {expected} operands."),
    ),
    (
        r"Implicit broadcast is not allowed in HLO",
        ErrorRule(
            "implicit broadcast",
            "The operands of an elementwise instruction have the sizes of its result; broadcasts are instructions.",
        ),
    ),
    (
        r"Non-root instruction (?P<name>\S++) in (?P<where>\S++) must have users",
        ErrorRule(
            "unused instruction in a fusion",
            "In a fused computation, every instruction but the root has a user.",
            "{name} has no user in {where}.",
            is_program=False,
        ),
    ),
    (
        (
            r"minor_to_major field (?:has duplicate values: (?P<order>\{[\d, ]*+\})|\w[^;\n]{0,200}); shape: "
            rf"{_shape('shape', _SPACE)}"
        ),
        ErrorRule(
            "layout",
            "The layout lists every dimension once, from minor to major.",
            "The layout {order} of {shape} does not.",
            is_program=True,
        ),
    ),
    (
        r"overflow in static extent product: dimensions=\[(?P<sizes>[\d,\s]++)\]",
        ErrorRule(
            "array size",
            "The number of elements of an array is below 2^63.",
            "The product of the sizes {sizes} is larger.",
            is_program=True,
        ),
    ),
    (
        r"invalid parameter number\. Expected \[0, (?P<count>\d++)\), got (?P<found>\d++)",
        ErrorRule(
            "parameter numbers",
            "The parameters of a computation are numbered from 0 without gaps.",
            "There are {count} parameters, but one has the number {found}.",
            is_program=True,
        ),
    ),
    (
        r"while_instr->shape\(\)\.IsTuple\(\)",
        ErrorRule(
            "loop state",
            "The state of a loop is a tuple here; dynamic dimensions are added to it.",
            "The while instruction has an array as its state.",
            "Make the state a tuple of one element.",
        ),
    ),
    (
        r"(?:[Rr]eplica|replica id) #?(?P<replica>\d++) (?:is repeated|seen more than once)",
        ErrorRule(
            "replica groups",
            "Every device is in exactly one replica group.",
            "Device {replica} is in more than one group.",
            is_program=True,
        ),
    ),
    (
        r"Invalid sharding for instruction",
        ErrorRule("sharding", "A sharding has one tile dimension for each dimension, and one sharding for each leaf."),
    ),
)
"""Patterns of messages and their rules; the first that matches at a place counts."""
