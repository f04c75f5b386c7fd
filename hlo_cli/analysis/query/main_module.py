"""Which of several modules is the one that matters, and which are helpers? What one execution costs, who wrote it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import Final

from hlo_cli.analysis.fusion.kernels import execution_cost
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import SourceLocation, is_library_file, program_frame
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Leaf
from hlo_cli.lazy_regex import lazy_regex

# --- the cost of a module ---


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """What one execution of a module takes: bytes accessed, flops, and kernels launched; loops count as often as known.

    `is_users` tells whether the module was made from a function of the user's program, not by a single call of a
    function of the library, such as `jax.random.normal`, outside of `jax.jit`; None if the module does not show it.
    `arguments` and `results` are the types and sizes of what the entry computation takes and returns, `state` those of
    results that are the next state of what it takes, as a step of a loop returns it.
    `has_lines` tells whether it has source lines, `is_initializer` whether it makes values of next to nothing,
    `has_gradient` whether it computes a gradient, as a step of training does, and `runs_once` whether its name says
    that it prepares or checks what such steps do.
    """

    bytes: int
    flops: int
    steps: int
    is_users: bool | None
    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    has_lines: bool = False
    is_initializer: bool = False
    has_gradient: bool = False
    runs_once: bool = False
    name: str = ""

    @property
    def function(self) -> tuple[str, int]:
        """What modules of one function have in common that was compiled for several shapes."""
        return self.name, len(self.arguments)


def cost_of_module(module: Module) -> ModuleCost:
    """The cost of one execution of a module, in bytes accessed, flops, and kernels launched.

    >>> from hlo_cli import parse_module
    >>> cost = cost_of_module(parse_module("ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }"))
    >>> cost.bytes, cost.flops, cost.steps, cost.is_users, cost.arguments, cost.state
    (32, 4, 1, None, ('f32[4]',), ())
    """
    cost = execution_cost(module)
    taken = [leaf for each in module.entry.parameters for _, leaf in each.shape.leaves]
    root = module.entry.root
    returned = () if root is None else tuple(leaf for _, leaf in root.shape.leaves)
    taken_bytes, returned_bytes = (sum(leaf.logical_bytes for leaf in leaves) for leaves in (taken, returned))
    has_gradient = any(_GRADIENT.search(each.metadata.op_name) for each in module.instructions)
    return ModuleCost(
        cost.bytes,
        cost.flops,
        cost.kernels,
        is_from_user(module),
        tuple(map(_type_of, taken)),
        tuple(map(_type_of, returned)),
        _state(module, taken, returned_bytes),
        has_lines=any(module.location(each) is not None for each in module.instructions),
        is_initializer=taken_bytes <= KEY_BYTES < returned_bytes and not has_gradient,
        has_gradient=has_gradient,
        runs_once=not _ONCE.isdisjoint(module.name.lower().split("_")),
        name=module.name,
    )


KEY_BYTES: Final = 64
"""What an initializer takes at most: a key of random numbers (8 to 16 bytes), a seed, and bounds."""
_GRADIENT: Final = lazy_regex(r"transpose\(jvp|\bgradient_tape/|\bgradients/")
"""Scopes of a backward pass: those of JAX, and those of TensorFlow 2 and 1."""
_ONCE: Final = frozenset(
    "augment build calibrate cast convert create encode eval evaluate evaluation init initialize initializer load make "
    "merge metrics prefill prepare preprocess quantize restore save setup test tokenize validate validation "
    "warmup".split()
)
"""Words in names of functions that run once for a program, an epoch, a batch, or a prompt, next to a step that runs
more often; names in examples of Flax, MaxText, Gemma, Diffusers, and of quantization."""


def _state(module: Module, taken: Sequence[Leaf], returned_bytes: int) -> tuple[str, ...]:
    """The types of the results that are the next state, if that is most of the results; empty if there is none.

    They take the memory of donated arguments, or they have the types of arguments: a loop that does not donate its
    state still returns what it takes. A function from one array to another of the same shape, such as a normalization,
    does so, too; without donation, a state has several arrays, or it comes with the number of the step.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { x = f32[99] parameter(0)  t = s32[] parameter(1)  ROOT y = f32[99] negate(x) }"
    >>> module = parse_module(text)
    >>> _state(module, [each.shape for each in module.entry.parameters], 396)
    ('f32[99]',)
    """
    root = module.entry.root
    if root is None:
        return ()
    leaves = dict(root.shape.leaves)
    donated = {alias.output_index for alias in module.input_output_alias}
    kept = Counter(map(_type_of, taken))
    same = list[Leaf]()
    for leaf in leaves.values():
        if leaf.logical_bytes > KEY_BYTES and kept[_type_of(leaf)] and not _is_count(leaf):
            kept[_type_of(leaf)] -= 1
            same.append(leaf)
    has_number = any(isinstance(leaf, ArrayShape) and not leaf.dimensions for leaf in taken)
    for state in ([leaves[index] for index in donated if index in leaves], same if len(same) > 1 or has_number else []):
        if sum(leaf.logical_bytes for leaf in state) * 2 > returned_bytes:
            return tuple(map(_type_of, state))
    return ()


def _is_count(leaf: Leaf) -> bool:
    """Whether a value has wide integers or flags: counters, keys, and tokens are updated next to what costs time.

    Integers of 8 bits may be a quantized cache.
    """
    return isinstance(leaf, ArrayShape) and leaf.element_type.name in ("pred", "s32", "u32", "s64", "u64")


def _type_of(leaf: Leaf) -> str:
    """The type and the sizes of a value, without its layout."""
    return leaf.to_string(layout=False) if isinstance(leaf, ArrayShape) else str(leaf)


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
STEPS: Final = 30
"""How often a function that returns the state that it takes is supposed to run for each run of another of the user's,
a step of training for each run of other steps, and both for each run of what only makes or reads the state, or is named
as running once: for one prompt, `decode` runs tens to hundreds of times and `prefill` once, and for one evaluation
there are as many steps of training."""
# The order of accelerators from A100 and TPU v4 on. Only the ratios count: a product of large matrices costs more than
# the copy of a larger array, and hundreds of small kernels cost more than either.
BYTE_SECONDS: Final = 1e-12  # 1 TB/s
FLOP_SECONDS: Final = 1e-14  # 100 Tflop/s
KERNEL_SECONDS: Final = 1e-6  # the start of a kernel
BLOCK: Final = 8
"""How many times more data one step takes than another with the same state if it processes blocks: a prompt has tens
of tokens or more, and decoding takes one token, or a few guesses, at a time."""
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


def reason_of_main(costs: Sequence[ModuleCost], at: int) -> str:
    """Why one of several modules is the main one: one execution costs most, or it likely runs more often than others.

    How often modules run is not in a dump, so that only the first is a fact.

    >>> costs = [ModuleCost(90, 9, 1, True), ModuleCost(10, 1, 1, True)]
    >>> reason_of_main(costs, 0), reason_of_main(costs, 1)
    ('costs most', 'likely runs most often')
    """
    return "costs most" if _seconds(costs[at]) >= max(map(_seconds, costs)) else "likely runs most often"


def _seconds(cost: ModuleCost) -> float:
    """The rough time of one execution on an accelerator."""
    return max(cost.bytes * BYTE_SECONDS, cost.flops * FLOP_SECONDS) + cost.steps * KERNEL_SECONDS


def rank_modules(costs: Sequence[ModuleCost], paths: Sequence[str | None] | None = None) -> ModuleRanking:
    """The order of modules: the user's first, initializers last, and by cost.

    `paths` are their files: those of different folders are of different programs or hosts.

    Costs are rough times of one execution, times how often each is likely to run. A module of unknown origin is the
    user's if no other is known to be and none has source lines: dumps without source lines have no helpers.

    >>> rank_modules([ModuleCost(5, 5, 5, True), ModuleCost(5, 5, 5, True)]).order
    (0, 1)
    >>> prefill = ModuleCost(90, 900, 9, True, ("f32[8]",), ("f32[9]",))
    >>> decode = ModuleCost(30, 9, 9, True, ("f32[9]",), ("f32[9]",), state=("f32[9]",))
    >>> rank_modules([prefill, decode]).main
    1
    """
    folders = [os.path.dirname(path or "") for path in paths or [""] * len(costs)]
    has_origins = any(cost.is_users or cost.has_lines for cost in costs)
    is_users = [cost.is_users or (cost.is_users is None and not has_origins) for cost in costs]
    seconds = [_seconds(cost) for cost in costs]
    # Modules that cost nothing are equal.
    times = seconds if any(seconds) else [1.0] * len(costs)
    weights = [time * EXECUTIONS if is_own else time for time, is_own in zip(times, is_users, strict=True)]
    for at, frequency in _frequencies(costs, is_users, folders):
        weights[at] *= STEPS**frequency
    shares = _shares(weights)
    functions = [(folder, *cost.function) for folder, cost in zip(folders, costs, strict=True)]
    largest: dict[tuple[str, str, int], float] = {}
    for function, share in zip(functions, shares, strict=True):
        largest[function] = max(share, largest.get(function, 0.0))

    def rank(at: int) -> tuple[bool, bool, float, int, float]:
        # Of a function that is compiled for several shapes, the one with most flops comes first: a smaller one may have
        # more kernels and bytes, because less of it is fused.
        whole = largest[functions[at]] if costs[at].name else shares[at]
        return (not is_users[at], costs[at].is_initializer, -whole, -costs[at].flops, -shares[at])

    order = sorted(range(len(costs)), key=rank)
    helpers = {at for at in order[1:] if not is_users[at] and shares[at] < HELPER_SHARE}
    bytes_shares = _shares([cost.bytes for cost in costs])
    return ModuleRanking(tuple(order), tuple(shares), tuple(bytes_shares), frozenset(helpers))


def _frequencies(
    costs: Sequence[ModuleCost], is_users: Sequence[bool], folders: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """How often each module of the user's is likely to run, as powers of STEPS; 0 for what runs most in its folder."""
    for folder in dict.fromkeys(folders):
        own = [at for at, is_own in enumerate(is_users) if is_own and folders[at] == folder]
        steps = [costs[at] for at in own if costs[at].state]
        found = [_frequency(costs[at], steps) for at in own]
        yield from ((at, each - max(found)) for at, each in zip(own, found, strict=True))


def _frequency(cost: ModuleCost, steps: Sequence[ModuleCost]) -> int:
    """The power of STEPS for a module, given all that return a state that they take.

    A step of a loop returns the state that it takes. A module that only makes or only reads the state of such a loop is
    next to it: it makes the first state, or checks what came out. Half of the state is enough for that, as JAX drops
    arguments that a function does not use. Of two steps with the same state, the one that takes much more besides runs
    seldom: it reads a whole prompt into a cache, to which the other one adds a token at a time.
    """
    is_step = bool(cost.state) or cost.has_gradient
    is_next_to_loop = not is_step and any(
        (Counter(step.state) & Counter(types)).total() * 2 >= len(step.state)
        for step in steps
        for types in (cost.arguments, cost.results)
    )
    is_of_blocks = (
        bool(cost.state)
        and not cost.has_gradient
        and any(
            _elements_besides(cost, step) >= BLOCK * max(_elements_besides(step, cost), 1)
            for step in steps
            if sorted(step.state) == sorted(cost.state) and step.name != cost.name
        )
    )
    return bool(cost.state) + cost.has_gradient - (cost.runs_once or is_next_to_loop or is_of_blocks)


def _elements_besides(cost: ModuleCost, other: ModuleCost) -> int:
    """The elements of the arguments of a module that another one does not take.

    >>> prefill, decode = (ModuleCost(0, 0, 0, True, ("f32[9]", f"s32[2,{tokens}]")) for tokens in (300, 1))
    >>> _elements_besides(prefill, decode), _elements_besides(decode, prefill)
    (600, 2)
    """
    besides = Counter(cost.arguments) - Counter(other.arguments)
    return sum(prod(map(int, _SIZE.findall(each.partition("[")[2]))) * n for each, n in besides.items())


_SIZE: Final = lazy_regex(r"[0-9]+")


def _shares(amounts: Sequence[float]) -> list[float]:
    """The shares in a sum; 0 if the sum is."""
    whole = sum(amounts)
    return [amount / whole if whole else 0.0 for amount in amounts]
