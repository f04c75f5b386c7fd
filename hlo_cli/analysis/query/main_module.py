"""Which of several modules is the one that matters, and which are helpers? What one execution costs, who wrote it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hlo_cli.analysis.fusion.kernels import execution_cost
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import SourceLocation, is_library_file, program_frame
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex

# --- the cost of a module ---


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """What one execution of a module takes: bytes accessed, flops, and kernels launched; loops count as often as known.

    `is_users` tells whether the module was made from a function of the user's program, not by a single call of a
    function of the library, such as `jax.random.normal`, outside of `jax.jit`; None if the module does not show it.
    `arguments` are the types and sizes of what the entry computation takes.
    `has_lines` tells whether it has source lines, `is_step` whether most of its results take the memory of donated
    arguments, such as the state of a loop, and `is_initializer` whether it makes values of next to nothing.
    """

    bytes: int
    flops: int
    steps: int
    is_users: bool | None
    arguments: tuple[str, ...] = ()
    has_lines: bool = False
    is_step: bool = False
    is_initializer: bool = False


def cost_of_module(module: Module) -> ModuleCost:
    """The cost of one execution of a module, in bytes accessed, flops, and kernels launched.

    >>> from hlo_cli import parse_module
    >>> cost = cost_of_module(parse_module("ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }"))
    >>> cost.bytes, cost.flops, cost.steps, cost.is_users, cost.arguments, cost.is_step
    (32, 4, 1, None, ('f32[4]',), False)
    """
    cost = execution_cost(module)
    taken = sum(each.shape.logical_bytes for each in module.entry.parameters)
    returned = 0 if module.entry.root is None else module.entry.root.shape.logical_bytes
    return ModuleCost(
        cost.bytes,
        cost.flops,
        cost.kernels,
        is_from_user(module),
        tuple(_LAYOUT.sub("", str(each.shape)) for each in module.entry.parameters),
        has_lines=any(module.location(each) is not None for each in module.instructions),
        is_step=_donated_bytes(module) * 2 > returned,
        is_initializer=taken <= KEY_BYTES < returned,
    )


_LAYOUT: Final = lazy_regex(r"\{[^{}]*\}")
KEY_BYTES: Final = 64
"""What an initializer takes at most: a key of random numbers (8 to 16 bytes), a seed, and bounds."""


def _donated_bytes(module: Module) -> int:
    """The bytes of the results that take the memory of donated arguments."""
    root = module.entry.root
    shapes = {} if root is None else dict(root.shape.leaves)
    donated = {alias.output_index for alias in module.input_output_alias}
    return sum(shapes[index].logical_bytes for index in donated if index in shapes)


# --- who wrote it ---

_PREFIX: Final = lazy_regex(r"(?:jit|pjit|pmap|xmap|shmap)_")
"""What JAX puts in front of the name of a function: `wrap_name` of jax/_src/util.py, for each of its transforms."""
_UNNAMED: Final = lazy_regex(r"\W")
"""What JAX replaces by `_` in names of modules: `sanitize_name` of jax/_src/interpreters/mlir.py."""
_LAMBDA: Final = "_lambda"
"""The name of a module of a lambda, `<lambda>`, without the last `_`, which XLA or JAX may drop."""


def is_from_user(module: Module) -> bool | None:
    """Whether a module was made from a function of the user's program; None if it has no source lines.

    A function of the user's is on the stack of its own instructions, or they are from several lines. A function of JAX
    that runs outside of `jax.jit` was called from one line, and its own frames are not recorded. Without source lines,
    a name with an underscore, such as `jit__normal`, is that of a private function of JAX.

    >>> from hlo_cli import parse_module
    >>> line = 'metadata={source_file="a.py" source_line=3}'
    >>> is_from_user(parse_module(f"HloModule jit_multiply  ENTRY e {{ ROOT r = f32[] iota(), {line} }}"))
    False
    """
    name, prefixes = _PREFIX.subn("", module.name, count=1)
    if not prefixes:
        return None  # a module of another framework, or one named by hand
    if name.strip("_") in _names_of_users(module):
        return True
    lines = _lines_of_users(module)
    if lines:
        return len(lines) > 1
    return False if name.startswith("_") and not name.startswith(_LAMBDA) else None


def _names_of_users(module: Module) -> Collection[str]:
    """The names of functions outside of libraries that are on a stack of the module, as names of modules have them."""
    tables = module.stack_frames
    locations = (
        location
        for number in range(1, len(tables.frames) + 1)
        if (location := tables.innermost(number)) is not None and _is_users(location)
    )
    return {_UNNAMED.sub("_", location.function.rpartition(".")[2]).strip("_") for location in locations}


def _lines_of_users(module: Module) -> Collection[SourceLocation]:
    """The innermost lines outside of libraries of all instructions."""
    tables, known = module.stack_frames, dict[int, tuple[SourceLocation, ...]]()
    lines = set[SourceLocation]()
    for instruction in module.instructions:
        number = instruction.metadata.stack_frame_id
        stack = tables.stack_sharing(number, known) if number else ()
        location = program_frame(stack) or module.location(instruction)
        if location is not None and _is_users(location):
            lines.add(location)
    return lines


def _is_users(location: SourceLocation) -> bool:
    return not is_library_file(location.file)


# --- the main module ---


EXECUTIONS: Final = 100
"""How often a function that the user compiled is supposed to run for each run of a helper: a step of training or of
decoding runs in a loop, and JAX runs its helpers mostly once, to make the first values."""
STEPS: Final = 10
"""How often a function that takes its state as donated arguments is supposed to run for each run of another of the
user's: for one prompt, `decode` runs tens of times and `prefill` once."""
HELPER_SHARE: Final = 0.2
"""The share of the cost of all modules below which one that the user did not write is a helper. It is at most 0.17 in
21 dumps of small programs; one that calls functions one by one, without `jax.jit`, has larger ones, which are to be
seen."""


@dataclass(frozen=True, slots=True)
class ModuleRanking:
    """Modules in the order of what they cost, the main module first.

    `order` are their indices, `shares` their shares of the cost of all, executions included, `bytes_shares` those of
    the bytes of one execution of each; `helpers` are the indices of modules that the user did not write and that cost
    little.

    >>> costs = [ModuleCost(90, 9, 1, False), ModuleCost(10, 1, 1, True)]
    >>> ranking = rank_modules(costs)
    >>> ranking.main, ranking.order, sorted(ranking.helpers), ranking.bytes_share(ranking.helpers)
    (1, (1, 0), [0], 0.9)
    """

    order: tuple[int, ...]
    shares: tuple[float, ...]
    bytes_shares: tuple[float, ...]
    helpers: frozenset[int]

    @property
    def main(self) -> int:
        """The index of the main module."""
        return self.order[0]

    def bytes_share(self, indices: Collection[int]) -> float:
        """The share of some modules in the bytes of one execution of each."""
        return sum(self.bytes_shares[at] for at in indices)


def rank_modules(costs: Sequence[ModuleCost]) -> ModuleRanking:
    """The order of modules: the user's first, initializers last, and by cost.

    Costs are the means of the shares in bytes, flops, and kernels, times executions. A module of unknown origin is the
    user's if no other is known to be and none has source lines: dumps without source lines have no helpers.

    >>> rank_modules([ModuleCost(5, 5, 5, True), ModuleCost(5, 5, 5, True)]).order
    (0, 1)
    >>> prefill, decode = ModuleCost(90, 900, 9, True), ModuleCost(30, 9, 9, True, is_step=True)
    >>> rank_modules([prefill, decode]).main
    1
    """
    amounts = ([cost.bytes for cost in costs], [cost.flops for cost in costs], [cost.steps for cost in costs])
    known = [_shares(each) for each in amounts if any(each)] or [_shares([1] * len(costs))]
    has_origins = any(cost.is_users or cost.has_lines for cost in costs)
    is_users = [cost.is_users or (cost.is_users is None and not has_origins) for cost in costs]
    weights = [
        sum(parts) * (EXECUTIONS if is_own else 1) * (STEPS if is_own and cost.is_step else 1)
        for cost, is_own, parts in zip(costs, is_users, zip(*known, strict=True), strict=True)
    ]
    shares = _shares(weights)
    order = sorted(range(len(costs)), key=lambda at: (not is_users[at], costs[at].is_initializer, -shares[at]))
    helpers = {at for at in order[1:] if not is_users[at] and shares[at] < HELPER_SHARE}
    return ModuleRanking(tuple(order), tuple(shares), tuple(_shares(amounts[0])), frozenset(helpers))


def _shares(amounts: Sequence[float]) -> list[float]:
    """The shares in a sum; 0 if the sum is."""
    whole = sum(amounts)
    return [amount / whole if whole else 0.0 for amount in amounts]
