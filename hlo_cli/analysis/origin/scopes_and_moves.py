"""What tells an origin: the scopes in its names, its record, and the moves along which a value stays the same?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.flat_schedule import is_async_end, is_async_start
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode
from hlo_cli.ir.shape import ShapeIndex, subshape
from hlo_cli.lazy_regex import lazy_regex

# --- scopes in names ---
# Names in the user's program: the scope in an op_name, and names of repeated layers made equal.


# A number of its own or after an underscore is a layer; that in `conv2d` or `w1` is part of the name.
_NUMBERED: Final = lazy_regex(r"(?<![A-Za-z0-9])([0-9]+)(?![A-Za-z0-9])|(?<=[A-Za-z]_)([0-9]+)(?![A-Za-z0-9])")
# Names of primitives and of helper functions in jax/_src and jax/experimental.
_ADDED: Final = frozenset(
    "checkpoint closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr pjit remat remat2 "
    "rematted_computation shard_map while".split()
)
"""Parts of op_names that JAX adds for its own functions, which are no scopes of the user."""
_ADDED_AFTER: Final = frozenset(("while", part) for part in ("body", "body_fun", "body_pred", "cond", "cond_fun"))
_DIGITS: Final = lazy_regex(r"[0-9]+")
# Jax/_src/lax/control_flow/conditionals.py names the branches of a cond so.
_BRANCH: Final = lazy_regex(r"branch_[0-9]+_fun")
_RECOMPUTED: Final = re.compile(r"(?:^|/)rematted_computation/")
"""Scope in the op_name of what jax.checkpoint computes again, as in `IsFrameworkRematerialization` of XLA."""
_REMATERIALIZED: Final = re.compile(r"\.remat(?:[0-9_.]|$)")
"""Suffix of names that hlo_rematerialization.cc makes, such as `.remat`, `.remat2`, and `.remat_compressed`."""
# Transformations whose name JAX puts around the scope: what they wrap is the user's.
_WRAPPERS: Final = ("jit(", "pjit(", "jvp(", "transpose(", "vmap(", "remat(", "checkpoint(", "xmap(", "pmap(")


@cache
def scope_of(op_name: str) -> str:
    """The named scopes in an op_name, without the operation and what JAX adds: `jit(…)`, loops, and rematerialization.

    >>> scope_of("jit(step)/transpose(jvp(layers))/attention/dot_general"), scope_of("jit(f)/add"), scope_of("x")
    ('layers/attention', '', '')
    >>> scope_of("jit(f)/transpose(jvp(mlp))/jvp(mlp)/checkpoint/while/body/closed_call/norm/mul")
    'mlp/norm'
    >>> scope_of("jit(f)/mlp/cond/branch_1_fun/mul"), scope_of("jit(f)/cond/mul")
    ('mlp', 'cond')
    """
    scopes: list[str] = []
    before = ""
    # XLA joins the op_names of merged instructions by a semicolon; the first is that of the survivor.
    for part in _split(op_name.partition(";")[0])[:-1]:
        inner = _unwrapped(part)
        is_branch = _BRANCH.fullmatch(inner) is not None
        is_added = is_branch or inner in _ADDED or (before, inner) in _ADDED_AFTER
        if is_branch and before == "cond" and scopes[-1:] == ["cond"]:
            scopes.pop()
        # Transformations repeat a scope: `jvp(f)/f` is one.
        if inner and not is_added and inner not in scopes[-1:]:
            scopes.append(inner)
        before = inner
    return "/".join(scopes)


def is_rematerialized(instruction: Instruction) -> bool:
    """Whether an instruction computes something again to save memory: by jax.checkpoint, or by XLA.

    >>> from hlo_cli import parse_module
    >>> is_rematerialized(parse_module("fusion.3.remat2 = f32[2] negate(f32[2] p)").entry.root)
    True
    """
    if _REMATERIALIZED.search(instruction.name):
        return True
    op_name = instruction.metadata.op_name
    return "remat" in op_name and _RECOMPUTED.search(op_name) is not None


def _split(op_name: str) -> list[str]:
    """The parts between slashes that are outside parentheses and brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(op_name):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "/" and depth <= 0:
            parts.append(op_name[start:position])
            start = position + 1
    return [*parts, op_name[start:]]


def _unwrapped(part: str) -> str:
    """The scope inside of transformations: `jvp(layers)` is `layers`; of `jit(f)` nothing is left."""
    while part.endswith(")"):
        wrapper = next((each for each in _WRAPPERS if part.startswith(each)), None)
        if wrapper is None:
            return part
        # The name of a function, which every operation of it would have.
        if wrapper in ("jit(", "pjit("):
            return ""
        part = part[len(wrapper) : -1]
    return part


def generalize(name: str) -> str:
    """A name with `*` for the numbers of layers, so that names in repeated layers are equal.

    >>> generalize("params['layers'][3]['w1']"), generalize("layers_7/attention"), generalize("jit(f)/block/2/add")
    ("params['layers'][*]['w1']", 'layers_*/attention', 'jit(f)/block/*/add')
    """
    return _NUMBERED.sub("*", name)


def with_scope(op_name: str, scope: str) -> str:
    """An op_name in another scope: one with as many parts, such as that of the next layer, or one further out.

    Returns the op_name as it is if its scope is neither.

    >>> with_scope("jit(f)/transpose(jvp(layers))/4/add", "layers/5")
    'jit(f)/transpose(jvp(layers))/5/add'
    >>> with_scope("jit(f)/jvp(decoder)/layer_4/mlp/dot_general", "decoder")
    'jit(f)/jvp(decoder)/dot_general'
    """
    own_scope = scope_of(op_name)
    old, new = own_scope.split("/"), scope.split("/")
    parts = _split(op_name)
    if len(old) == len(new) and scope:
        names = dict(zip(old, new, strict=True))
        return "/".join(_renamed(part, names) for part in parts)
    if scope and own_scope.startswith(f"{scope}/"):
        cut = ("/".join((*parts[:count], parts[-1])) for count in range(len(parts) - 1, 0, -1))
        return next((name for name in cut if scope_of(name) == scope), op_name)
    return op_name


def common_scope(scopes: Sequence[str]) -> str:
    """What several scopes have in common: one of repeated layers with `*` for its number, else the outer scope.

    >>> common_scope(["decoder/layer_1/mlp", "decoder/layer_2/mlp"]), common_scope(["decoder/layer_1", "decoder/norm"])
    ('decoder/layer_*/mlp', 'decoder')
    """
    parts = [scope.split("/") for scope in scopes]
    if len({tuple(map(all_general, each)) for each in parts}) == 1:
        return "/".join(each[0] if len(set(each)) == 1 else all_general(each[0]) for each in zip(*parts, strict=True))
    shared = zip(*parts, strict=False)
    return "/".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, shared))


@cache
def all_general(name: str) -> str:
    """A name with `*` for all numbers.

    >>> all_general("block0/layers_3/conv2d")
    'block*/layers_*/conv*d'
    """
    return _DIGITS.sub("*", name)


def _renamed(part: str, names: Mapping[str, str]) -> str:
    inner = _unwrapped(part)
    return part.replace(inner, names[inner]) if inner in names else part


# --- the record ---
# The origin of an instruction: op_name, stack of calls, argument, and what told them.


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from, as far as known.

    - `op_name` is the name of the operation in the user's program, `stack` the calls that made it, innermost first.
      A scope in it such as `layers_*` is one of several layers, if it is not known which.
    - `argument` is the entry parameter whose value this is, moved or reshaped but not computed; None if there is none.
    - `teller` is the instruction whose metadata these are, None if they are the instruction's own; `relation` says
      what the instruction is to its teller, such as `prefetch of`.

    >>> origin = Origin("jit(step)/layers/7/attention/dot_general", (SourceLocation("model.py", 92, "attention"),))
    >>> origin.source, origin.scope, origin.is_inferred, origin.argument_name
    ('model.py:92', 'layers/7/attention', False, '')
    """

    op_name: str = ""
    stack: tuple[SourceLocation, ...] = ()
    argument: Instruction | None = None
    teller: Instruction | None = None
    relation: str = ""

    @property
    def is_inferred(self) -> bool:
        """Whether the facts are those of another instruction."""
        return self.teller is not None

    @property
    def location(self) -> SourceLocation | None:
        """The innermost place in the user's program."""
        return self.stack[0] if self.stack else None

    @property
    def source(self) -> str:
        """The innermost place as `file:line`; empty if unknown."""
        return str(self.stack[0]) if self.stack else ""

    @property
    def scope(self) -> str:
        """The named scope of the operation: `op_name` without transformations and the name of the operation."""
        return scope_of(self.op_name)

    @property
    def argument_name(self) -> str:
        """The argument as the user calls it, such as `params['w']`, else the name of its parameter; empty if none."""
        if self.argument is None:
            return ""
        return self.argument.metadata.op_name or self.argument.name


UNKNOWN = Origin()


# --- moves of values ---
# Moves: from each value, the value that it is, copied, prefetched, gathered, or passed on, and in which words.
#
# A value is an instruction and an index of its shape. Most instructions that compilers add move one value; each such
# value has one step back, so that chains of moves are followed in linear time. Steps cross calls: a parameter is the
# operand of its first caller, the result of a fusion or loop the root of its body.


Value: TypeAlias = tuple[Instruction, ShapeIndex]
"""An instruction and an index of its shape; () for the whole result."""


class Step(NamedTuple):
    """One step back: the value that is moved, how, and whether it is the same data (else it only carries over)."""

    value: Value
    relation: str
    is_same: bool = True


_RELATIONS: Final = {
    opcodes.ADD_DEPENDENCY: "same value as",
    opcodes.BITCAST: "bitcast of",
    opcodes.CONVERT: "conversion of",
    opcodes.COPY: "copy of",
    opcodes.DOMAIN: "same value as",
    opcodes.DYNAMIC_RESHAPE: "reshape of",
    opcodes.DYNAMIC_SLICE: "slice of",
    opcodes.OPT_BARRIER: "same value as",
    opcodes.RESHAPE: "reshape of",
    opcodes.SLICE: "slice of",
    opcodes.TRANSPOSE: "transpose of",
}
"""Opcodes whose result is their first operand, moved, with the relation between the two."""
_EXCHANGES: Final = {
    opcodes.ALL_GATHER: ("all-gather of", True),
    opcodes.ALL_REDUCE: ("all-reduce of", False),
    opcodes.ALL_REDUCE_DONE: ("all-reduce of", False),
    opcodes.ALL_REDUCE_START: ("all-reduce of", False),
    opcodes.ALL_TO_ALL: ("all-to-all of", True),
    opcodes.COLLECTIVE_PERMUTE: ("collective-permute of", True),
    opcodes.REDUCE_SCATTER: ("reduce-scatter of", False),
    "collective-broadcast": ("collective-broadcast of", True),
}
"""Collectives with one result for each operand, with the relation between the two, and whether the data is the same."""
_TUPLED: Final = frozenset((opcodes.ADD_DEPENDENCY, opcodes.COPY, opcodes.DOMAIN, opcodes.OPT_BARRIER))
"""Of these, the opcodes that keep the indices of a tuple."""
_EXCHANGED: Final = {
    opcodes.ALL_GATHER_DONE: "all-gather of",
    opcodes.ALL_GATHER_START: "all-gather of",
    opcodes.COLLECTIVE_PERMUTE_DONE: "collective-permute of",
    opcodes.COLLECTIVE_PERMUTE_START: "collective-permute of",
}
_INDEX: Final = re.compile(r"^, index=(\d{1,9})(?![\w.])")


class Moves:
    """The steps back from the values of a module."""

    __slots__ = ("_here", "_kept", "_shared", "first_caller")

    def __init__(self, module: Module) -> None:
        """Finds the first caller of each computation, in the order of the text."""
        self.first_caller: dict[Computation, tuple[Instruction, int]] = {}
        self._kept: dict[Value, bool] = {}
        self._here: dict[Value, Value] = {}
        self._shared: set[Computation] = set()
        for caller in module.instructions:
            for position, called in enumerate(caller.called_computations):
                first = self.first_caller.setdefault(called, (caller, position))
                # Updates and dones name the computation of their start again.
                if first != (caller, position) and caller.opcode not in ASYNC_CONTINUATIONS:
                    self._shared.add(called)

    def step(self, value: Value) -> Step | None:
        """The step back from a value; None if its instruction computes it, or it is an argument of the program.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> Moves(module).step((module.entry.root, ()))
        Step(value=(<parameter p>, ()), relation='copy of', is_same=True)
        """
        instruction, index = value
        opcode = instruction.opcode
        if (relation := _RELATIONS.get(opcode)) is not None:
            return _operand(instruction, 0, index if opcode in _TUPLED else (), relation)
        if (exchange := _EXCHANGES.get(opcode)) is not None:
            return _exchanged(instruction, index, *exchange)
        if (rule := _RULES.get(opcode)) is not None:
            return rule(self, instruction, index)
        if is_async_start(opcode):
            return self._async_start(instruction, index)
        if is_async_end(opcode):
            return self._async_end(instruction, index)
        return None

    def chain(self, value: Value) -> Iterator[Step]:
        """The steps back from a value as long as the data is the same."""
        seen = {value}
        while (step := self.step(value)) is not None and step.is_same and step.value not in seen:
            yield step
            value = step.value
            seen.add(value)

    def is_shared(self, computation: Computation) -> bool:
        """Whether several instructions call a computation, or one calls it twice."""
        return computation in self._shared

    def is_of_several_callers(self, value: Value) -> bool:
        """Whether a value is a parameter, or an element of one, that several callers pass."""
        instruction, _ = value
        if instruction.opcode != opcodes.PARAMETER or not self.is_shared(instruction.computation):
            return False
        # Body and condition of a loop are one caller's.
        return self.first_caller[instruction.computation][0].opcode != opcodes.WHILE

    def is_kept(self, body: Computation, index: ShapeIndex) -> bool:
        """Whether a loop's body returns an element of its parameter unchanged."""
        if body.root is None or not body.parameters:
            return False
        parameter = body.parameters[0]
        found = self._kept.get((parameter, index))
        if found is None:
            self._kept[parameter, index] = False  # until known: only malformed modules ask again before
            found = self._kept[parameter, index] = self._back_here((body.root, index)) == (parameter, index)
        return found

    def _back_here(self, value: Value) -> Value:
        """The value at the end of the steps back that stay within the computation and keep the data."""
        ends, passed = self._here, list[Value]()
        while value not in ends:
            ends[value] = value
            passed.append(value)
            step = self.step(value) if value[0].opcode != opcodes.PARAMETER else None
            if step is None or not step.is_same or step.value[0].computation is not value[0].computation:
                break
            value = step.value
        for each in passed:
            ends[each] = ends[value]
        return ends[value]

    def _element(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        # From the text, as every loop has hundreds of them and parsing attributes is slow.
        found = _INDEX.match(instruction.raw[1])
        taken = int(found[1]) if found else instruction.integer("index") or 0
        return _operand(instruction, 0, (taken, *index), "element of")

    def _tuple(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        return _operand(instruction, index[0], index[1:], "element of") if index else None

    def _copy_start(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        return _operand(instruction, 0, (), _copied(instruction)) if index != (2,) else None

    def _copy_done(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        start = instruction.operands[0] if instruction.operands else None
        words = _copied(start) if start is not None and start.opcode == opcodes.COPY_START else "copy of"
        return _operand(instruction, 0, (0,), words)

    def _started(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        return _operand(instruction, index[1] if len(index) > 1 else 0, (), _EXCHANGED[instruction.opcode])

    def _done(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        return _operand(instruction, 0, (1, *index), _EXCHANGED[instruction.opcode])

    def _while(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        body = instruction.called_computations[0] if instruction.called_computations else None
        if not index or body is None or body.root is None:
            return None
        if self.is_kept(body, index):
            return _operand(instruction, 0, index, "carried by a loop from")
        return Step((body.root, index), "result of the loop with", is_same=False)

    def _root(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        root = instruction.called_computations[0].root if instruction.called_computations else None
        if root is None or subshape(root.shape, index) is None:
            return None
        is_same = instruction.opcode != opcodes.CONDITIONAL
        return Step((root, index), "result of", is_same=is_same)

    def _parameter(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        computation = instruction.computation
        if computation.is_entry or computation not in self.first_caller:
            return None
        number = instruction.parameter_number
        caller, position = self.first_caller[computation]
        if number is None:
            return None
        # Another caller passes another value, so it is told whence, but not what it is.
        is_same = computation not in self._shared  # else other callers pass other values
        if caller.opcode == opcodes.WHILE:
            body = caller.called_computations[0]
            is_same = is_same and self.is_kept(body, index)
            return _operand(caller, 0, index, "loop carry of", is_same=is_same)
        if caller.opcode == opcodes.CONDITIONAL:
            return _operand(caller, position + 1, index, "argument of a branch", is_same=is_same)
        if caller.opcode in (opcodes.FUSION, opcodes.CALL) or _is_start_of_call(caller):
            return _operand(caller, number, index, "operand of the caller", is_same=is_same)
        return None

    def _async_start(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        if index[:1] == (0,):
            return _operand(instruction, index[1] if len(index) > 1 else 0, index[2:], "operand of")
        if index[:1] not in ((), (1,)):
            return None
        return self._wrapped(instruction, index[1:])

    def _wrapped(self, start: Instruction, index: ShapeIndex) -> Step | None:
        """The step back from the result of an async operation."""
        if _is_start_of_call(start):
            return self._root(start, index)
        opcode = wrapped_opcode(start.opcode) or ""
        if opcode not in _RELATIONS:
            return None
        relation = "prefetch of" if opcode == opcodes.SLICE else _RELATIONS[opcode]
        return _operand(start, 0, (), relation)

    def _async_end(self, instruction: Instruction, index: ShapeIndex) -> Step | None:
        start = instruction.operands[0] if instruction.operands else None
        if start is None:
            return None
        is_done = instruction.opcode.endswith("-done")
        return _operand(instruction, 0, (1, *index) if is_done else index, "result of")


def _exchanged(instruction: Instruction, index: ShapeIndex, relation: str, is_same: bool) -> Step | None:
    """The step back through a collective; the data of the others is told by the first operand."""
    if instruction.opcode.endswith("-done"):
        return _operand(instruction, 0, index, relation, is_same=is_same)
    is_element = len(instruction.operands) > 1 and len(index) == 1
    return _operand(instruction, index[0] if is_element else 0, (), relation, is_same=is_same)


def _is_start_of_call(start: Instruction) -> bool:
    """Whether an async operation runs a computation; others only apply one to elements, such as a reduce-scatter."""
    return start.opcode == opcodes.ASYNC_START or wrapped_opcode(start.opcode) in (opcodes.CALL, opcodes.FUSION)


def _copied(start: Instruction) -> str:
    """What a copy-start makes: a prefetch if it is into a faster memory."""
    to = subshape(start.shape, (0,))
    layout = to.layout if to is not None else None
    space = layout.memory_space if layout is not None else 0
    # XLA's word for a copy that memory-space assignment adds ahead of a use.
    return "copy of" if space in (MemorySpace.MAIN, MemorySpace.HOST) else "prefetch of"


def _operand(
    instruction: Instruction, number: int, index: ShapeIndex, relation: str, *, is_same: bool = True
) -> Step | None:
    if not 0 <= number < len(instruction.operands):
        return None
    return Step((instruction.operands[number], (*instruction.operand_index(number), *index)), relation, is_same)


_RULES: Final = {
    opcodes.ALL_GATHER_DONE: Moves._done,
    opcodes.ALL_GATHER_START: Moves._started,
    opcodes.COLLECTIVE_PERMUTE_DONE: Moves._done,
    opcodes.COLLECTIVE_PERMUTE_START: Moves._started,
    opcodes.CALL: Moves._root,
    opcodes.CONDITIONAL: Moves._root,
    opcodes.COPY_DONE: Moves._copy_done,
    opcodes.COPY_START: Moves._copy_start,
    opcodes.FUSION: Moves._root,
    opcodes.GET_TUPLE_ELEMENT: Moves._element,
    opcodes.PARAMETER: Moves._parameter,
    opcodes.TUPLE: Moves._tuple,
    opcodes.WHILE: Moves._while,
}
