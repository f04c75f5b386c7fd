"""Keys that sum up the costs of a program by cause: source line, named scope, argument, or compiler pass.

A fusion has the key of its own metadata, not those of the operations in its body, so that each cost has one key. A
value that a loop carries has the key of its initial value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.origin.carried import Carried
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.origin.scopes import generalize, scope_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import ShapeIndex, subshape

By = Literal["source", "scope", "argument", "pass"]
"""What a key is: a line of the program, a named scope, an argument of the entry computation, or a compiler pass."""

UNKNOWN_KEY: Final = "(unknown)"
ARGUMENTS_KEY: Final = "(arguments)"
"""Key of an argument among source lines and scopes: no line computes it."""
NO_SCOPE_KEY: Final = "(no scope)"
COMPUTED_KEY: Final = "(computed)"
"""Key of a value that is not an argument, among arguments."""
PROGRAM_KEY: Final = "(program)"
"""Key of an instruction that no pass made, among passes: the first dump has it."""
LATER_KEY: Final = "(after the last pass dump)"
"""Key of an instruction that none of the per-pass dumps has, among passes."""
OTHER_KEYS: Final = (UNKNOWN_KEY, ARGUMENTS_KEY, NO_SCOPE_KEY, COMPUTED_KEY, PROGRAM_KEY, LATER_KEY)
"""Keys that name no cause."""

_NO_PASSES: Final[Mapping[Instruction, str]] = {}
_RESULTS: Final[tuple[ShapeIndex, ...]] = ((0,), (1,))
"""Elements of an async start that tell its key if the start does not: copies have their result first, others second."""
_LIBRARIES: Final = (
    *("/site-packages/", "/dist-packages/", "/lib/python3", "/jax/_src/", "/jax/experimental/"),
    *("/flax/core/", "/flax/linen/", "/flax/nnx/", "/optax/_src/", "/haiku/_src/", "/equinox/nn/"),
    *("/torch_xla/", "/tensorflow/python/"),
)
"""Parts of the paths of files that are not the user's."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a cost: its text, the `name` from which the numbers of layers are not removed, and whether inferred.

    >>> Key("layers/*/attention", "layers/7/attention").text
    'layers/*/attention'
    """

    text: str
    name: str
    is_inferred: bool = False


class Keys:
    """The keys of a module's instructions and of the elements of their results."""

    def __init__(self, module: Module, by: By, passes: Mapping[Instruction, str]) -> None:
        """`passes` gives the pass that made an instruction."""
        self.by: Final = by
        self._module = module  # origins hold it weakly
        self._passes = passes
        self._origins = origins_of(module)
        self._carried = Carried(module)
        self._known: dict[tuple[Instruction, ShapeIndex], Key] = {}
        self._general_arguments = _general_arguments(module) if by == "argument" else {}

    def __call__(self, instruction: Instruction, index: ShapeIndex = ()) -> str:
        """The text of a key; that of the element at `index` if the result is a tuple."""
        return self.of(instruction, index).text

    def of(self, instruction: Instruction, index: ShapeIndex = ()) -> Key:
        """The key of an instruction, or of the element at `index` if its result is a tuple.

        >>> from hlo_cli import parse_module
        >>> text = 'p = f32[2] parameter(0), metadata={op_name="w"}  r = f32[2] negate(p), metadata={op_name="f/3/neg"}'
        >>> module = parse_module(f"HloModule m  ENTRY e {{ {text} }}")
        >>> keys = keys_of(module, "scope")
        >>> [keys.of(instruction) for instruction in module.instructions]
        [Key(text='(arguments)', name='(arguments)', is_inferred=False), Key(text='f/*', name='f/3', is_inferred=False)]
        """
        found = self._known.get((instruction, index))
        if found is None:
            found = self._key(instruction, index)
            if found.text == UNKNOWN_KEY and not index and instruction.opcode.endswith("-start"):
                results = (self._key(instruction, at) for at in _RESULTS if subshape(instruction.shape, at) is not None)
                found = next((key for key in results if key.text != UNKNOWN_KEY), found)
            self._known[instruction, index] = found
        return found

    def of_use(self, instruction: Instruction, index: ShapeIndex = ()) -> Key:
        """The key of a value; of an argument, the source line or scope of the nearest instruction that uses it.

        >>> from hlo_cli import parse_module
        >>> text = 'p = f32[2] parameter(0)  r = f32[2] negate(p), metadata={op_name="f/neg" source_file="a.py"'
        >>> module = parse_module(f"HloModule m  ENTRY e {{ {text} source_line=3}} }}")
        >>> keys_of(module, "source").of_use(module.entry.parameters[0])
        Key(text='a.py:3', name='a.py:3', is_inferred=True)
        """
        key = self.of(instruction, index)
        if key.text != ARGUMENTS_KEY:
            return key
        used = self._place(instruction, index, is_own=False)
        return key if used.text == UNKNOWN_KEY else used

    def _key(self, instruction: Instruction, index: ShapeIndex) -> Key:
        if self.by == "pass":
            made_by = self._passes.get(instruction, UNKNOWN_KEY)
            return Key(made_by, made_by)
        definer, place, is_changed = self._carried.definer(instruction, index)
        is_argument = definer.opcode == opcodes.PARAMETER and definer.computation.is_entry
        if self.by == "argument":
            argument = definer if is_argument else self._origins.argument(definer, place)
            if argument is None or is_changed:
                is_unknown = not is_changed and self._origins.is_of_several_callers(definer, place)
                return Key(UNKNOWN_KEY, UNKNOWN_KEY) if is_unknown else Key(COMPUTED_KEY, COMPUTED_KEY)
            is_inferred = argument is not instruction
            return self._argument(argument, place if is_argument else (), is_inferred=is_inferred)
        if is_argument and not is_changed:
            return Key(ARGUMENTS_KEY, ARGUMENTS_KEY, definer is not instruction)
        if definer is not instruction and (key := self._place(definer, place, is_own=False)).text != UNKNOWN_KEY:
            return key
        return self._place(instruction, index, is_own=True)

    def _place(self, definer: Instruction, index: ShapeIndex, *, is_own: bool) -> Key:
        """The source line or scope of a value."""
        origin = self._origins.own(definer)
        if not origin.stack:  # the origin of a value with a stack is its own, and the argument does not matter here
            origin = self._origins.without_argument(definer, index)
        is_inferred = origin.is_inferred or not is_own
        if self.by == "source":
            frame = program_frame(origin.stack)
            return Key(UNKNOWN_KEY, UNKNOWN_KEY) if frame is None else Key(str(frame), str(frame), is_inferred)
        if not origin.op_name:
            return Key(UNKNOWN_KEY, UNKNOWN_KEY)
        scope = _scope(origin.op_name)
        return Key(_generalize(scope), scope, is_inferred and origin.op_name != definer.metadata.op_name)

    def _argument(self, argument: Instruction, index: ShapeIndex, *, is_inferred: bool) -> Key:
        suffix = index_suffix(index)
        name = argument.metadata.op_name or argument.name
        return Key(self._general_arguments.get(argument, name) + suffix, name + suffix, is_inferred)


def keys_of(module: Module, by: By, passes: Mapping[Instruction, str] | None = None) -> Keys:
    """Returns the keys of a module's instructions: a function of an instruction, or of an element of its result.

    `passes` is required for `pass`: the pass that made each instruction.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[2] iota(), iota_dimension=0, metadata={source_file="a.py" source_line=3}')
    >>> keys_of(module, "source")(module.entry.root), keys_of(module, "argument")(module.entry.root)
    ('a.py:3', '(computed)')
    """
    return computed_once(Keys, module, by, passes or _NO_PASSES)


def program_frame(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """Returns the innermost frame of a stack outside of libraries; if all are in libraries, the innermost; else None.

    A file is in a library if its path contains `/site-packages/`, `/dist-packages/`, the standard library of Python,
    or a package of JAX, Flax, Optax, Haiku, Equinox, PyTorch/XLA, or TensorFlow.

    >>> frames = SourceLocation("/x/site-packages/flax/linen/linear.py", 7), SourceLocation("/home/me/model.py", 92)
    >>> str(program_frame(frames)), str(program_frame(frames[:1])), program_frame(())
    ('/home/me/model.py:92', '/x/site-packages/flax/linen/linear.py:7', None)
    """
    innermost = stack[0] if stack else None
    return next((frame for frame in stack if not _is_of_library(frame.file)), innermost)


@lru_cache(maxsize=4096)
def _is_of_library(path: str) -> bool:
    return path.startswith("<") or any(part in path for part in _LIBRARIES)


@lru_cache(maxsize=1 << 16)
def _generalize(name: str) -> str:
    return generalize(name)


@lru_cache(maxsize=1 << 16)
def _scope(op_name: str) -> str:
    return scope_of(op_name) or NO_SCOPE_KEY


def _general_arguments(module: Module) -> dict[Instruction, str]:
    """Names of arguments without numbers of layers, where all arguments that such a name covers have one shape."""
    groups: dict[str, list[Instruction]] = {}
    for parameter in module.entry.parameters:
        if op_name := parameter.metadata.op_name:
            groups.setdefault(generalize(op_name), []).append(parameter)
    return {
        parameter: name
        for name, group in groups.items()
        if len(group) > 1 and len({each.shape for each in group}) == 1
        for parameter in group
    }
