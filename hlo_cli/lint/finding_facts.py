"""What is a finding about, what does it cost, and which findings have one cause?

Names of values as a user knows them, bytes and how often they are moved, and what repeats of a finding share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.dependencies import PASSES_ON_ONE_VALUE, producer_of
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.analysis.origin.scopes_and_moves import Origin, generalize
from hlo_cli.analysis.schedule.async_overlap import AsyncPair
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation, is_library_file, program_frame
from hlo_cli.ir.instruction import Instruction, Users
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS, BLOCK_MOVES, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.findings import Cause
from hlo_cli.report.numbers import format_bytes

if TYPE_CHECKING:
    from hlo_cli.analysis.schedule.step_time import Link


# --- names of values ---
# Names of values as the user knows them: an argument, an operation of the program, or a place in its source.


# What compilers add to pass on a value has no name that a user knows.
_PASSING_OPCODES: Final = frozenset(
    (opcodes.BITCAST, opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.GET_TUPLE_ELEMENT,
     opcodes.OPT_BARRIER, opcodes.TUPLE)
)  # fmt: skip
"""Opcodes of instructions that compilers add to pass values on."""
_WINDOWS: Final = "\\"
"""The separator of folders on Windows."""
# Chains of moves and async operations have a few links. Chosen.
MAX_STEPS: Final = 100
"""A bound against cycles in invalid text."""


def is_plumbing(instruction: Instruction) -> bool:
    """Whether an instruction only passes on a value, so that a user of the program cannot change it.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }").entry
    >>> [is_plumbing(each) for each in entry.instructions]
    [False, True, False]
    """
    return instruction.opcode in _PASSING_OPCODES or instruction.opcode in ASYNC_CONTINUATIONS


# JAX names the parts of a loop so, whatever they carry.
_LOOPS: Final = frozenset(("while", "body", "cond"))
"""Last parts of op_names that name a loop, not a value."""


def name_of(instruction: Instruction, origin: Origin) -> str:
    """The argument that a value is, else the operation of the program with its place, else the nearest instruction
    that computes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.origin.origins import origins_of
    >>> text = '''ENTRY e { p = f32[4] parameter(0), metadata={op_name="params[\\\\'w\\\\']"}  q = f32[4] copy(p)
    ... ROOT n = f32[4] negate(q), metadata={op_name="jit(f)/mlp/neg" source_file="m.py" source_line=4} }'''
    >>> module = parse_module(text)
    >>> [name_of(each, origins_of(module).own(each)) for each in module.instructions]
    ["params['w']", 'p', 'mlp/neg at m.py:4']
    """
    if origin.argument_name:
        return origin.argument_name
    if instruction.opcode == opcodes.PARAMETER and origin.op_name:
        return origin.op_name
    operation = _operation(origin)
    # A value of a loop is named by what is around the loop.
    if is_loop := operation.rpartition("/")[2] in _LOOPS:
        operation = operation.rpartition("/")[0]
    if operation:
        place = place_of(origin)
        # A lone opcode reads as a noun: the add at m.py:4.
        return f"the {operation}{place}" if place and "/" not in operation else operation + place
    made = _computing(instruction)
    name = made.name if not is_loop and not is_plumbing(made) else _unnamed(instruction, made)
    return name + place_of(origin)


def _unnamed(instruction: Instruction, made: Instruction) -> str:
    """A value by its shape. A tuple, such as all that a loop carries, has a shape of many lines that tells nothing.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = (f32[4], s32[]) parameter(0)  ROOT g = f32[4] get-tuple-element(p), index=0 }"
    >>> entry = parse_module(text).entry
    >>> _unnamed(entry.root, entry.instruction("p")), _unnamed(entry.instruction("p"), entry.instruction("p"))
    ('the f32[4] value', 'the tuple')
    """
    for each in (made, instruction):
        if not isinstance(each.shape, TupleShape) or len(each.shape.elements) == 1:
            return f"the {each.shape.to_string(layout=False)} value"
    return "the loop" if made.opcode == opcodes.WHILE else "the tuple"


def sized(shape: Shape, name: str = "") -> str:
    """A shape without its layout, unless the name before it has it, and its size, in parentheses.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> sized(parse_shape("f32[256,2]{1,0:T(8,128)}"))
    '(f32[256,2], 128 KiB)'
    >>> sized(parse_shape("f32[256,2]{1,0:T(8,128)}"), "the f32[256,2] value at m.py:4")
    '(128 KiB)'
    """
    words, size = shape.to_string(layout=False), format_bytes(shape.padded_bytes)
    return f"({size})" if words in name else f"({words}, {size})"


def place_of(origin: Origin) -> str:
    """The place in the source at the end of a name; empty if unknown.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> place_of(Origin(stack=(SourceLocation("/home/me/model.py", 92),))), place_of(Origin())
    (' at model.py:92', '')
    """
    frame = frame_of(origin)
    return f" at {str(frame).replace(_WINDOWS, '/').rpartition('/')[2]}" if frame is not None else ""


def frame_of(origin: Origin) -> SourceLocation | None:
    """The innermost place outside of libraries; None if unknown.

    >>> frame_of(Origin()) is None
    True
    """
    return program_frame(origin.stack)


def _operation(origin: Origin) -> str:
    """The scope and the name of the operation; empty if unknown."""
    if not origin.op_name:
        return ""
    return "/".join(filter(None, (origin.scope, origin.op_name.rpartition("/")[2])))


def _computing(instruction: Instruction) -> Instruction:
    """The instruction that computes a value, before those that only pass it on."""
    made = producer_of(instruction)
    for _ in range(MAX_STEPS):
        if not made.operands or not (
            is_plumbing(made) or (made.opcode in ASYNCHRONOUS and made.opcode != opcodes.FUSION)
        ):
            break
        # A tuple has several values, so no single one computes it.
        if made.opcode == opcodes.TUPLE:
            break
        made = producer_of(made.operands[0])
    return made


# --- what libraries do ---


_CALLED: Final = lazy_regex(r"jit\(([^()]*)\)")
"""A function in an op_name that JAX compiles on its own."""
_LOOPS_INSIDE: Final = ("/while/", "/scan/", "/cond/")


def is_of_library(origin: Origin) -> bool:
    """Whether no line of the user's program computes a value: a library does, inside of a function of its own.

    That is a loop in such a function, or a private function that another private one calls. An operation that stands
    for the function, such as the maximum of `jax.nn.relu`, is the user's.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> called = "jit(step)/jit(_normal)/jit(_normal_real)/jit(_uniform)/while/body/add"
    >>> step = (SourceLocation("train.py", 7, "step"),)
    >>> is_of_library(Origin(called, step)), is_of_library(Origin("jit(step)/jit(relu)/max", step))
    (True, False)
    >>> is_of_library(Origin("jit(step)/jit(_step)/while/body/add", (SourceLocation("train.py", 7, "_step"),)))
    False
    """
    frame = frame_of(origin)
    if frame is not None and is_library_file(frame.file):
        return True
    functions = {each.function.rpartition(".")[2] for each in origin.stack if each.function}
    calls = list(_CALLED.finditer(origin.op_name))
    # The first is the function of the module, and the last one of the user's program calls what follows.
    last = max((number for number, call in enumerate(calls) if call[1] in functions), default=0)
    for call in calls[last + 1 :]:
        name, inside = call[1], origin.op_name[call.end() :]
        # JAX records the user's frames alone. Older versions record no functions; then a private name is the library's.
        if not functions and not name.startswith("_"):
            continue
        if any(loop in inside for loop in _LOOPS_INSIDE) or (name.startswith("_") and "jit(_" in inside):
            return True
    return False


# --- costs ---
# Costs of findings: how often their instructions run, and how long moving the bytes takes that they waste.


# HLO201 is about a limit, HLO603 and HLO604 about what runs where.
_WITHOUT_COST: Final = frozenset(("HLO201", "HLO603", "HLO604"))


COST_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HLO1": "bytes of padding, or bytes that are copied or rearranged",
        "HLO2": "wasted bytes of memory, or bytes copied needlessly",
        "HLO3": "bytes of memory traffic between kernels that a fusion or a narrower type would avoid",
        "HLO4": "bytes transferred while no kernel runs",
        "HLO5": "bytes transferred needlessly; for replicated arguments, wasted bytes of memory",
        "HLO6": "bytes exchanged with the host",
        "HLO701": "bytes of memory that 32-bit types would save",
        "HLO702": "bytes of memory that 32-bit types would save",
    }
)
"""What the costs of findings are, by the beginning of the rule's code; those of other rules have no cost."""


# Moves between these and the chip take bandwidth; moves within the chip hardly do.
_OFF_CHIP: Final = (MemorySpace.MAIN, MemorySpace.HOST)
"""Memory outside of the chip, from which compilers fetch what kernels read."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Bytes that one execution of an instruction wastes, and how they are moved.

    `link` carries them; with None they only occupy memory, once for all executions and without taking time.
    `moved_bytes` cross the link, if not `bytes`, such as twice the bytes for a copy in main memory. `pair` is the
    transfer that moves them, whose time is known better than that of bytes.
    """

    bytes: int
    link: Link | None = "memory"
    moved_bytes: int | None = None
    pair: AsyncPair | None = None


def executions_of_waste(at: Instruction | None, waste: Waste | None, module: Module) -> Executions:
    """Returns how often the waste occurs in one execution of the module.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> executions_of_waste(module.entry.root, Waste(8), module).known
    1
    """
    if at is None or waste is None or waste.link is None:
        return Executions(1)
    return executions_of(module).get(at.computation, NO_EXECUTIONS)


def seconds_of(waste: Waste, executions: int, chip: ChipSpec, module: Module) -> float | None:
    """Returns how long moving the waste takes in all executions; None without a link or a published bandwidth.

    That is so of waste in on-chip memory, of which no byte crosses a link: its time is unknown, not 0.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> seconds_of(Waste(819_000), 10, chip_spec("v5e"), module)
    1e-05
    >>> seconds_of(Waste(819_000, moved_bytes=0), 10, chip_spec("v5e"), module) is None
    True
    """
    from hlo_cli.analysis.schedule.step_time import bandwidth_of, seconds_of_part  # required with a chip only

    if waste.pair is not None:
        moved = waste.bytes if waste.moved_bytes is None else waste.moved_bytes
        once = seconds_of_part(waste.pair, moved, chip, module)
        return None if once is None else once * executions
    rate = bandwidth_of(waste.link, chip)
    if rate is None or (waste.bytes and waste.moved_bytes == 0):
        return None
    return (waste.bytes if waste.moved_bytes is None else waste.moved_bytes) * executions / rate.per_second


def waste_of_array(size: int, array: Shape, target: str | None) -> Waste:
    """Returns the waste of bytes of an array, which cross main memory unless a TPU has the array on the chip.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[8,128]{1,0:T(8,128)S(1)}")
    >>> [waste_of_array(9, shape, target).moved_bytes for target in ("tpu", "gpu")]
    [0, None]
    """
    is_on_chip = target == "tpu" and isinstance(array, ArrayShape) and array.layout.memory_space not in _OFF_CHIP
    return Waste(size, moved_bytes=0 if is_on_chip else None)


def waste_of_copy(read: Shape | None, written: Shape) -> Waste:
    """Returns what a copy wastes that changes a layout: what is saved if the array has the new layout from the start.

    That is the whole copy, whose bytes cross main memory once for each side that is there. But an array that is copied
    to on-chip memory, such as VMEM, must get there in any layout, so that only bytes are saved that the new one lacks.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> waste_of_copy(parse_shape("f32[2]"), parse_shape("f32[2]"))
    Waste(bytes=8, link='memory', moved_bytes=16, pair=None)
    >>> waste_of_copy(parse_shape("f32[4,8]{1,0:T(8,128)}"), parse_shape("f32[4,8]{0,1:T(8,128)S(1)}")).bytes
    0
    """
    spaces = [each.layout.memory_space for each in (read, written) if isinstance(each, ArrayShape)]
    size = written.padded_bytes
    if isinstance(read, ArrayShape) and spaces[0] in _OFF_CHIP and spaces[-1] not in _OFF_CHIP:
        # Compiled again with the argument in that layout, the copy becomes a copy-start of as many bytes.
        saved = max(0, read.padded_bytes - size)
        return Waste(saved, "host" if MemorySpace.HOST in spaces else "memory", saved)
    if MemorySpace.HOST in spaces:
        return Waste(size, "host")
    # Read and written in main memory: once for each side that is there.
    return Waste(size, "memory", size * spaces.count(MemorySpace.MAIN))


def cost_meaning(code: str) -> str:
    """What the cost of a rule's findings is; empty if they have none.

    >>> cost_meaning("HLO401"), cost_meaning("HLO010")
    ('bytes transferred while no kernel runs', '')
    """
    if code in _WITHOUT_COST:
        return ""
    return next((meaning for begin, meaning in COST_MEANINGS.items() if code.startswith(begin)), "")


# --- one cause of several findings ---
# What findings have in common: the pattern of repeats in other layers, and the value that several rules report.
#
# Findings with equal patterns are one cause, such as the same copy in each of 12 layers: same rule, message, and shape,
# and the same place in the program or, if no metadata tells it, the same operands and users.


# More users do not tell layers apart better, and some values have thousands. Chosen.
_MAX_USERS: Final = 8
"""The most users that a structural pattern names."""
# An equation is no name of a layer or a function.
_EINSUM_MARK: Final = "->"
"""Part of the scopes that `jnp.einsum` adds, such as `bsd,dhk->bshk`."""
# JAX's qualified names of lambdas and nested functions.
_UNNAMED: Final = ("<lambda>", "<locals>", ".")
"""Endings of the name of a function that are not the name of one that contains it."""
_MOVING_OPCODES: Final = frozenset((opcodes.COPY, opcodes.COPY_DONE, opcodes.COPY_START, opcodes.ASYNC_DONE))


class NamedValue(NamedTuple):
    """A value in a message, its name there, and its origin."""

    value: Instruction
    name: str
    origin: Origin


Reach: TypeAlias = Literal["line", "function", "argument", "anywhere"]
"""Which values one change can fix: those of one line, of one function and named scope, of a whole argument of the
program, or all. Arguments are one cause with the others in their part of the tree, such as the weights of all layers.
"""


class Common(NamedTuple):
    """What to report of several findings, of different shapes or lines, if one change would fix all of them.

    `message` has no sizes, `COUNT` for the number of findings, and the name of the value, which becomes that of all
    values: an argument's part of the tree, or the arrays of a function. `reach` says which. Of findings `anywhere`,
    those with this message are one cause. `similar` is the message of those that agree on more than that, such as the
    shape; for findings in a function, too.
    """

    message: str
    reach: Reach = "line"
    similar: str = ""


def cause_of(
    message: str,
    at: Instruction,
    named: tuple[NamedValue, NamedValue | None],
    waste: Waste | None,
    common: Common | None,
    users: Users,
) -> Cause:
    """What a finding shares with those in other layers and with those of other rules on the same array.

    `named` are the value that the message is about and a second one that it names; `users` are required if the origin
    of the value is unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  a = f32[2] copy(p) }")
    >>> a = module.instruction("a")
    >>> cause = cause_of("p is copied", a, (NamedValue(a, "p", Origin()), None), Waste(8), None, {a: ()})
    >>> cause.value, cause.pattern.splitlines()
    ('memory e/p', ['* is copied', 'copy f32[2]', 'parameter f32[2]'])
    """
    about, other = named
    if other is not None:
        message = _renamed(message, other.name, _general_name(other.name, other.origin))
    general = _renamed(message, about.name, _general_name(about.name, about.origin))
    shared = ""
    if waste is not None and waste.link is not None:
        # In memory, all rules about one value share its cost; over links, each transfer has its own.
        made = value_of(about.value) if waste.link == "memory" else at
        shared = f"{waste.link} {made.computation.name}/{made.name}"
    if (cause := _common_cause(common, general, about, shared)) is not None:
        return cause
    if is_known(about.origin):
        return Cause(f"{general}\n{at.shape.to_string(layout=False)}", shared, general)
    # Without any name, the neighborhood of the instruction is the only pattern.
    pattern = "\n".join((_renamed(message, about.name, "*"), *_neighborhood(at, users)))
    return Cause(pattern, shared, general)


def _common_cause(common: Common | None, general: str, about: NamedValue, shared: str) -> Cause | None:
    """The cause of a finding that one change would fix together with others; None if that is not known."""
    if common is None:
        return None
    repeated = _renamed(common.similar or common.message, about.name, _general_name(about.name, about.origin))
    if common.reach == "anywhere":
        levels = (common.similar, common.message) if common.similar else (common.message,)
        return Cause(common.message, shared, general, levels, _short_place(about), repeated)
    if not is_known(about.origin):
        return None
    container = _container_of(about.origin, is_whole=common.reach == "argument")
    messages = (common.similar or common.message, common.message)
    if container:
        similar, wide = (_renamed(each, about.name, container) for each in messages)
        return Cause(wide, shared, general, (similar, wide), repeated=repeated)
    if common.reach == "function" and (function := _function_of(about.origin)) is not None:
        key, words = function
        similar, wide = (_renamed(each, about.name, f"arrays in {words}") for each in messages)
        return Cause(f"{wide}\n{key}", shared, general, (similar, wide), _short_place(about), repeated)
    if common.reach == "function":  # without functions in the metadata, equal lines have equal messages
        return None
    wide = _renamed(common.message, about.name, _general_name(about.name, about.origin))
    return Cause(wide, shared, general, (wide,), repeated=repeated)


def _function_of(origin: Origin) -> tuple[str, str] | None:
    """The function and named scope that compute a value, as a key and for people; None if neither is known.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> frame = SourceLocation("m.py", 4, "train.<locals>.step.<locals>.<lambda>")
    >>> _function_of(Origin("jit(f)/layers_3/mlp/add", (frame,))), _function_of(Origin("jit(f)/add", (frame,)))[1]
    (('m.py train.<locals>.step\\nlayers_*/mlp', 'step/layers_*/mlp'), 'step')
    >>> _function_of(Origin("jit(f)/layers_3/mlp/add")), _function_of(Origin("jit(f)/add"))
    ((' \\nlayers_*/mlp', 'layers_*/mlp'), None)
    """
    scope = "/".join(part for part in generalize(origin.scope).split("/") if _EINSUM_MARK not in part)
    frame = frame_of(origin)
    function = (frame.function or "") if frame is not None else ""
    while (shorter := reduce(str.removesuffix, _UNNAMED, function)) != function:
        function = shorter
    if not scope and not function:
        return None
    if function:  # of one function, numbered scopes are calls of it, such as block0 and block1
        scope = "/".join(_unnumbered(part) for part in scope.split("/"))
    file = frame.file if frame is not None else ""
    # __call__ of a class is named by the class.
    name = next((part for part in reversed(function.split(".")) if not part.startswith("__")), function)
    return f"{file} {function}\n{scope}", "/".join(filter(None, (name, scope)))


def _unnumbered(part: str) -> str:
    """A part of a scope with `*` for a number at its end.

    >>> _unnumbered("block12"), _unnumbered("layers_*"), _unnumbered("7")
    ('block*', 'layers_*', '7')
    """
    name = part.rstrip("0123456789")
    return f"{name}*" if name and name != part else part


def _short_place(about: NamedValue) -> str:
    """The argument that a value is, else its line in the source, for a list of places; empty if unknown."""
    return generalize(about.origin.argument_name) or place_of(about.origin).removeprefix(" at ")


def is_known(origin: Origin) -> bool:
    """Whether the origin says where in the program a value is made."""
    return bool(origin.argument_name or origin.op_name or origin.source)


def _general_name(name: str, origin: Origin) -> str:
    """The name of a value for all layers; the place in the source stays as it is.

    >>> from hlo_cli.ir.attributes.metadata import SourceLocation
    >>> _general_name("layers_3/mlp/add at m.py:4", Origin("layers_3/mlp/add", (SourceLocation("m.py", 4),)))
    'layers_*/mlp/add at m.py:4'
    """
    place = place_of(origin)
    return generalize(name.removesuffix(place)) + place if place and name.endswith(place) else generalize(name)


def _renamed(message: str, name: str, to: str) -> str:
    """A message with another name for a value, which is not part of a word.

    >>> _renamed("p is copied", "p", "*")
    '* is copied'
    """
    at, before = message.find(name), 0
    parts: list[str] = []
    while name and at >= 0:
        end = at + len(name)
        # `p` must not be replaced in `p.1` or `map`.
        if not (_continues(message[at - 1 : at]) or _continues(message[end : end + 1])):
            parts += (message[before:at], to)
            before = end
        at = message.find(name, end)
    return "".join((*parts, message[before:]))


def _continues(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _container_of(origin: Origin, *, is_whole: bool) -> str:
    """The part of the tree to which an argument belongs; empty for values that are not arguments in a tree."""
    general = generalize(origin.argument_name)
    root, bracket, _ = general.partition("[")
    if is_whole:
        return f"{root}[…]" if bracket else ""
    layer, star, rest = general.rpartition("[*]")
    # `params['layers'][*]['w']`: all in a layer are one cause.
    if star and rest:
        return f"{layer}{star}[…]"
    above = general.rpartition("[")[0]
    return f"{above}[…]" if "[" in above else ""


def value_of(instruction: Instruction) -> Instruction:
    """The instruction that makes the array that an instruction moves: through copies, prefetches, and bitcasts.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  b = f32[2,2] bitcast(c) }").entry
    >>> value_of(entry.instruction("b"))
    <parameter p>
    """
    made = instruction
    for _ in range(MAX_STEPS):
        is_moved = made.opcode in PASSES_ON_ONE_VALUE or made.opcode in _MOVING_OPCODES or _starts_move(made)
        if not is_moved or not made.operands:
            break
        made = made.operands[0]
    return made


def _starts_move(instruction: Instruction) -> bool:
    """Whether an instruction starts to move a whole array or part of it."""
    if instruction.opcode != opcodes.ASYNC_START or not instruction.called_computations:
        return wrapped_opcode(instruction.opcode) in BLOCK_MOVES
    root = instruction.called_computations[0].root
    return root is not None and root.opcode in BLOCK_MOVES


def _neighborhood(at: Instruction, users: Users) -> Iterator[str]:
    """What surrounds an instruction: its operation, its operands, and its users, without names."""
    yield f"{_kind(at)} {at.shape.to_string(layout=False)}"
    for number, operand in enumerate(at.operands):
        yield f"{_kind(operand)} {at.operand_shape(number).to_string(layout=False)}"
    # Sorted, since the order of users is not that of the program.
    listed = sorted(
        f"used by {_kind(user)} {user.shape.to_string(layout=False)}" for user in users.get(at, ())[:_MAX_USERS]
    )
    yield from listed


def _kind(instruction: Instruction) -> str:
    """The opcode, and for a fusion those of its root and kind."""
    called = instruction.called_computations
    root = called[0].root if instruction.opcode == opcodes.FUSION and called else None
    return instruction.opcode if root is None else f"{instruction.opcode} {root.opcode} {len(called[0].instructions)}"
