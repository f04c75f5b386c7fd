"""What makes a fusion what it is, the heroes in its body, and does it hold the rules of XLA's verifier?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.matmuls import MAY_BE_MATMULS, matmul_of
from hlo_cli.analysis.dataflow.dependencies import users_of
from hlo_cli.analysis.problem import Problem
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import (
    CHANNEL_OPCODES,
    COLLECTIVES,
    CONTROL_PREDECESSORS,
    ELEMENTWISE,
    HOST_FEEDS,
    MATMULS,
    OPCODE_ARITY,
    OUTPUT_TO_OPERAND_ALIASING,
    OWN_KERNELS,
    RUNNERS,
)
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, compatible, same_order, subshape
from hlo_cli.source import Diagnostic

# --- transposes by tiles in shared memory ---
# Transposes that a GPU kernel computes by tiles in shared memory, so that reads and writes are contiguous.
#
# Mirrors `GetDescriptionForTiledTransposeEmitter` of xla/service/gpu/ir_emission_utils.cc.


_MIN_TILE: Final = 16  # `kMinDimensionToTransposeTiled` of ir_emission_utils.h
_MIN_NARROW_TILE: Final = 8  # `kMinDimensionToTransposeTiled2`, half of it if the product is large
_MIN_TILE_ELEMENTS: Final = 8192  # `kMinTotalDimensionsToTransposeTiled`: 64 · 128
_WORD_BITS: Final = 64  # `kMaxBitsInMostMinorDimension`, which shared memory limits
_PACKED_BITS: Final = 32  # width of a bank of shared memory, which narrower types share
_MIN_PACKED: Final = 10  # `GetPackedTransposeTileSizes`: filled lines, in elements of a bank


def _is_tiled_transpose(transpose: Instruction) -> bool:
    """Whether XLA's GPU emitter computes a transpose by tiles.

    >>> from hlo_cli import parse_module
    >>> def asked(text): return _is_tiled_transpose(parse_module(text).entry.root)
    >>> asked("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}")
    True
    >>> asked("r = f32[64,3] transpose(f32[3,64] a), dimensions={1,0}")
    False
    >>> asked("r = f32[64,32,3] transpose(f32[32,64,3] a), dimensions={1,0,2}")
    False
    """
    given, result = transpose.operand_shape(0) if transpose.operands else None, transpose.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    sizes, order = _physical_transpose(given, result, transpose.integers("dimensions"))
    if len(sizes) < 2:
        return False
    bits = result.element_type.bits
    moved = tuple(sizes[at] for at in order)
    if order[-1] != len(order) - 1:
        a, b = sizes[-1], moved[-1]
        if bits > 4 and (min(a, b) >= _MIN_TILE or (min(a, b) >= _MIN_NARROW_TILE and a * b >= _MIN_TILE_ELEMENTS)):
            return True
        # The packed emitter has stricter rules (`gpu_emitters._packed`); for a name of the hero this bound is enough.
        return bits < _PACKED_BITS and min(a, b) >= _MIN_PACKED * _PACKED_BITS // bits
    width = sizes[-1] * bits
    return len(sizes) > 2 and width <= _WORD_BITS and width * min(sizes[-2], moved[-2]) >= _WORD_BITS


def _physical_transpose(
    operand: ArrayShape, result: ArrayShape, dimensions: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Physical dimensions of the operand, major to minor, and the permutation that gives those of the result.

    Dimensions of size 1 are omitted; dimensions that stay adjacent are merged.
    """
    if not len(dimensions) == operand.rank == result.rank:
        return (), ()
    majors = [d for d in reversed(operand.layout.minor_to_major) if operand.dimensions[d] != 1]
    moved = [dimensions[d] for d in reversed(result.layout.minor_to_major) if result.dimensions[d] != 1]
    place = {d: position for position, d in enumerate(majors)}
    runs: list[list[int]] = []
    for before, position in pairwise([-2, *(place[d] for d in moved if d in place)]):
        if position == before + 1 and runs:
            runs[-1].append(position)
        else:
            runs.append([position])
    ordered = sorted(runs)
    sizes = tuple(prod(operand.dimensions[majors[position]] for position in run) for run in ordered)
    return sizes, tuple(ordered.index(run) for run in runs)


# --- heroes ---
# Heroes of a fusion: the operations that determine how its kernel is emitted.
#
# Mirrors `FindNonTrivialHero` of xla/service/gpu/ir_emission_utils.cc, and `RenameFusions` of
# xla/backends/gpu/transforms/rename_fusions.cc, which names fusions after their heroes.


_ELEMENTWISE: Final = ELEMENTWISE | {opcodes.BITCAST}
_ALWAYS_HEROES: Final = COLLECTIVES | OWN_KERNELS | {opcodes.CUSTOM_CALL}
"""Opcodes that determine the kernel wherever they are in the fusion."""


def heroes_of(body: Computation) -> tuple[Instruction, ...]:
    """Heroes of a fused computation, without repetition, in the order of its results.

    - A body with a dot or convolution has one hero: the matmul with most flops.
    - Otherwise sorts, collectives, library calls, and similar operations of the body are its heroes.
    - Otherwise each result has one hero: the reduction from which unary elementwise operations compute it; else the
      only concatenate or tiled transpose from which elementwise operations compute it; else the result itself.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ... ENTRY f { p = f32[8,9] parameter(0)  z = f32[] constant(0)
    ...   r = f32[8] reduce(p, z), dimensions={1}, to_apply=s  ROOT n = f32[8] negate(r) }'''
    >>> heroes_of(parse_module(text).entry)
    (<reduce r>,)
    """
    inner = list(all_fused(body))
    # Not XLA's rule for kernels: a matmul decides the time of a fusion, whatever is around it.
    asked = [each for each in inner if each.opcode in MAY_BE_MATMULS]
    if products := [product for each in asked if (product := matmul_of(each)) is not None]:
        return (max(products, key=lambda product: product.flops).instruction,)
    if leading := [each for each in inner if each.opcode in _ALWAYS_HEROES]:
        return tuple(leading)
    heroes = _Heroes()
    return tuple(dict.fromkeys(heroes.of(root) for root in roots_of(body)))


def roots_of(body: Computation) -> tuple[Instruction, ...]:
    """Instructions that compute the results of a fused computation: the root, or the operands of a root tuple."""
    root = body.root
    if root is None:
        return ()
    return root.operands if root.opcode == opcodes.TUPLE else (root,)


def all_fused(body: Computation) -> Iterator[Instruction]:
    """Instructions of a fused computation; nested fusions are replaced by their instructions."""
    waiting = [iter(body.instructions)]
    entered = {body}
    while waiting:
        instruction = next(waiting[-1], None)
        if instruction is None:
            waiting.pop()
            continue
        called = instruction.called_computations
        if instruction.opcode == opcodes.FUSION and called and called[0] not in entered:
            entered.add(called[0])
            waiting.append(iter(called[0].instructions))
        else:
            yield instruction


class _Heroes:
    """Finds heroes of results; caches the sources of all instructions per computation."""

    def __init__(self) -> None:
        """Starts with an empty cache."""
        self._sources: dict[Computation, dict[Instruction, _Sources]] = {}

    def of(self, root: Instruction) -> Instruction:
        """Hero of one result."""
        computed = _without_copies(root)
        if computed.computation not in self._sources:
            self._sources[computed.computation] = _sources(computed.computation)
        sources = self._sources[computed.computation].get(computed, _NO_SOURCES)
        if sources.reduction is not None:
            return sources.reduction
        # `FindNonTrivialHero`: two candidates make none, and the root stays its own hero.
        return sources.movers[0] if len(sources.movers) == 1 else computed


class _Sources(NamedTuple):
    """Reduction from which unary elementwise operations compute a value, and up to two data movements it is computed
    from.
    """

    reduction: Instruction | None
    movers: tuple[Instruction, ...]


_NO_SOURCES: Final = _Sources(None, ())


def _sources(body: Computation) -> dict[Instruction, _Sources]:
    """Sources of each instruction of a body; operands precede their users."""
    sources: dict[Instruction, _Sources] = {}
    for instruction in body.instructions:
        if instruction.opcode == opcodes.REDUCE:
            sources[instruction] = _Sources(instruction, ())
        elif instruction.opcode == "concatenate" or (
            instruction.opcode == opcodes.TRANSPOSE and _is_tiled_transpose(instruction)
        ):
            sources[instruction] = _Sources(None, (instruction,))
        elif instruction.opcode in _ELEMENTWISE:
            before = [sources.get(operand, _NO_SOURCES) for operand in instruction.operands]
            movers = dict.fromkeys(move for one in before for move in one.movers)
            # A reduction is looked for through unary operations only, a mover through those of up to three operands.
            sources[instruction] = _Sources(before[0].reduction if len(before) == 1 else None, tuple(movers)[:2])
    return sources


def _without_copies(root: Instruction) -> Instruction:
    """Instruction that computes a result before copies and bitcasts, also inside a nested fusion."""
    made, seen = root, {root}
    while (before := _forwarded(made)) is not None and before not in seen:
        made = before
        seen.add(made)
    return made


def _forwarded(instruction: Instruction) -> Instruction | None:
    """Operand or nested root that an instruction forwards unchanged; None if it computes a value."""
    if instruction.opcode == opcodes.FUSION and instruction.called_computations:
        inner = instruction.called_computations[0].root
        return inner if inner is not None and inner.opcode not in (opcodes.PARAMETER, opcodes.TUPLE) else None
    if not instruction.operands:
        return None
    if instruction.opcode == opcodes.GET_TUPLE_ELEMENT and instruction.operands[0].opcode == opcodes.FUSION:
        results = tuple(root for body in instruction.operands[0].called_computations[:1] for root in roots_of(body))
        number = instruction.integer("index") or 0
        return results[number] if number < len(results) and results[number].opcode != opcodes.PARAMETER else None
    is_same = instruction.opcode == opcodes.BITCAST or (
        instruction.opcode == opcodes.COPY and instruction.shape == instruction.operand_shape(0)
    )
    return instruction.operands[0] if is_same and instruction.operands[0].opcode != opcodes.PARAMETER else None


# --- the verifier of fusions ---
# Verifies the invariants of fusions. Mirrors `CheckFusionInstruction` of xla/service/hlo_verifier.cc.


FUSION_KINDS: Final = ("kLoop", "kInput", "kOutput", "kCustom")

_NOT_FUSIBLE: Final = (
    HOST_FEEDS
    | CHANNEL_OPCODES
    | {opcodes.CONDITIONAL, opcodes.DOMAIN, opcodes.RNG_GET_AND_UPDATE_STATE, opcodes.WHILE}
)
"""Opcodes that cannot be part of a kernel: control flow and communication."""


_ALLOWED_UNUSED: Final = _NOT_FUSIBLE | {opcodes.CUSTOM_CALL, opcodes.PARAMETER, opcodes.RNG}
"""Opcodes that are allowed in a body without a user."""

_KIND_OPCODES: Final = {
    "kInput": frozenset("concatenate dynamic-update-slice reduce reduce-window scatter sort transpose".split()),
    "kOutput": MATMULS | {opcodes.REDUCE, opcodes.REDUCE_WINDOW},
}
"""Opcodes of which a fusion of a kind contains at least one."""

_TUPLE_USERS: Final = (RUNNERS - {opcodes.ASYNC_START}) | {
    opcodes.ASYNC_DONE,
    opcodes.FUSION,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.TUPLE,
}
"""Opcodes that are allowed to use a tuple as a whole."""

_OMITTED_OPERANDS: Final = "...(+"


@of_module
def verify_fusions(module: Module) -> Iterator[Diagnostic]:
    """Yields a diagnostic for every violation of an invariant of fusions, in the order of the text.

    Yields none for a module with parse errors or omitted operands. Unusual fusions that XLA accepts are warnings.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  x = s8[9] fusion(p), kind=kLoop, calls=f
    ...   ROOT y = s8[9] fusion(x), kind=kLoop, calls=f }'''
    >>> for found in verify_fusions(parse_module(text)): print(found.code, found.message)
    fusion-callers body f of y is also called by x
    """
    return (problem.diagnostic(module.source) for problem in fusion_problems(module))


def fusion_problems(module: Module) -> Iterator[Problem]:
    """Yields the problems that `verify_fusions` reports, each with its instruction, which identifies the place in a
    proto.

    >>> from hlo_cli import parse_module
    >>> text = "f { ROOT a = s8[9] parameter(0) }  ENTRY e { ROOT x = s8[9] fusion(), kind=kLoop, calls=f }"
    >>> [(problem.instruction.name, problem.code) for problem in fusion_problems(parse_module(text))]
    [('x', 'fusion-parameters')]
    """
    # A damaged text would report what is missing from the text, not from the module.
    if module.errors or not _has_operands(module):
        return
    callers: dict[Computation, list[Instruction]] = {}
    for instruction in module.instructions:
        for called in instruction.called_computations:
            callers.setdefault(called, []).append(instruction)
    for computation in module.computations:
        fusions = [each for each in computation.instructions if each.written_opcode == opcodes.FUSION]
        # Users of a whole computation are gathered only if a multi-output fusion asks for them.
        several = any(isinstance(fusion.shape, TupleShape) for fusion in fusions)
        users = users_of(computation) if several else {}
        for fusion in fusions:
            yield from _problems(module, fusion, callers, users)


def _has_operands(module: Module) -> bool:
    """Whether the text has all operands; XLA can print modules without operands or with the first four only."""
    is_cut = _OMITTED_OPERANDS in module.source.text
    return not is_cut and all(i.operands or not OPCODE_ARITY.get(i.written_opcode, 0) for i in module.instructions)


def _problems(
    module: Module, fusion: Instruction, callers: Mapping[Computation, list[Instruction]], users: Users
) -> Iterator[Problem]:
    number = len(fusion.called_computations)
    if number > 1:
        yield Problem(fusion, f"{fusion.name} calls {number} computations, expected one", code="fusion-computation")
    if number != 1:  # a text may leave out what is called
        return
    body = fusion.called_computations[0]
    if body.is_entry:
        yield Problem(
            fusion, f"{fusion.name} uses the entry computation {body.name} as its body", code="fusion-callers"
        )
    if (first := callers[body][0]) is not fusion:
        yield Problem(
            fusion, f"body {body.name} of {fusion.name} is also called by {first.name}", code="fusion-callers"
        )
    else:
        yield from _body_problems(module, fusion, body)
    yield from _shape_problems(module, fusion, body)
    yield from _kind_problems(fusion, body)
    yield from _output_problems(fusion, users)
    yield from _alias_problems(fusion)


def _shape_problems(module: Module, fusion: Instruction, body: Computation) -> Iterator[Problem]:
    """Compares parameters with operands and the root with the result; in a scheduled module also their dimension
    orders.
    """
    given, taken = len(fusion.operands), len(body.parameters)
    if given != taken:
        operands, parameters = (f"{n} {word}{'s' * (n != 1)}" for n, word in ((given, "operand"), (taken, "parameter")))
        message = f"{fusion.name} has {operands}, but its body {body.name} has {parameters}"
        # XLA accepts operands beyond the parameters: it checks parameter by parameter.
        yield Problem(fusion, message, "error" if taken > given else "warning", code="fusion-parameters")
    for number, parameter in enumerate(body.parameters[:given]):
        shape = fusion.operand_shape(number)
        if parameter.parameter_number != number:
            yield Problem(parameter, f"{body.name} has no parameter {number}", code="fusion-parameters")
        elif not _same(shape, parameter.shape, module):
            operand = fusion.operands[number].name
            found = f"operand {operand} of {fusion.name} has {shape}"
            message = f"parameter {parameter.name} has shape {parameter.shape}, but {found}"
            yield Problem(parameter, message, code="fusion-parameters")
    if body.root is not None and not _same(body.root.shape, fusion.shape, module):
        message = f"{fusion.name} has shape {fusion.shape}, but its root {body.root.name} has {body.root.shape}"
        yield Problem(fusion, message, code="fusion-result")


def _same(a: Shape, b: Shape, module: Module) -> bool:
    # hlo_verifier.cc compares layouts only after layout assignment, of which a schedule is the sign in the text.
    return same_order(a, b) if module.is_scheduled else compatible(a, b)


def _body_problems(module: Module, fusion: Instruction, body: Computation) -> Iterator[Problem]:
    """Yields unused operations, opcodes that cannot be fused, and control dependencies in a body."""
    is_waited = _may_contain(module, body, CONTROL_PREDECESSORS)
    used = {operand for instruction in body.instructions for operand in instruction.operands}
    for instruction in body.instructions:
        if instruction is body.root:
            if instruction in used:
                yield Problem(instruction, f"root {instruction.name} of {body.name} also has users", code="fusion-root")
        elif instruction not in used and instruction.opcode not in _ALLOWED_UNUSED:
            yield Problem(instruction, f"dead instruction {instruction.name} in {body.name}", code="fusion-unused")
        if instruction.opcode in _NOT_FUSIBLE:
            yield Problem(
                instruction,
                f"{instruction.name} cannot be in {fusion.name}: {instruction.opcode} cannot be fused",
                code="fusion-inside",
            )
        if is_waited and instruction.attribute(CONTROL_PREDECESSORS) is not None:
            yield Problem(
                instruction, f"{instruction.name} has a control dependency inside {fusion.name}", code="fusion-control"
            )
    # No rule of the verifier, but no backend can emit two such operations in one kernel.
    kernels = [instruction for instruction in all_fused(body) if instruction.opcode in OWN_KERNELS]
    if len(kernels) > 1:
        names = ", ".join(instruction.name for instruction in kernels)
        message = f"{fusion.name} contains {len(kernels)} operations that each need their own kernel: {names}"
        yield Problem(fusion, message, code="fusion-kernels")


def _may_contain(module: Module, computation: Computation, mark: str) -> bool:
    """Whether the text of a computation contains `mark`; true if it has no text."""
    body = computation.span
    return body is None or module.source.text.find(mark, body.start, body.end) >= 0


def _kind_problems(fusion: Instruction, body: Computation) -> Iterator[Problem]:
    kind = fusion.attribute("kind")
    if kind is None:  # as texts without extra attributes are
        return
    if kind not in FUSION_KINDS:
        yield Problem(
            fusion,
            f"{fusion.name} has unknown kind={kind}; expected {', '.join(FUSION_KINDS[:-1])}, or {FUSION_KINDS[-1]}",
            code="fusion-kind",
        )
    elif kind in _KIND_OPCODES and not any(each.opcode in _KIND_OPCODES[kind] for each in all_fused(body)):
        message = f"{fusion.name} is {kind}, but contains none of {', '.join(sorted(_KIND_OPCODES[kind]))}"
        yield Problem(fusion, message, "warning", code="fusion-kind")


def _output_problems(fusion: Instruction, users: Users) -> Iterator[Problem]:
    """Yields users of a multi-output fusion other than get-tuple-element, and nested tuples."""
    if not isinstance(fusion.shape, TupleShape):
        return
    # XLA accepts it; its own passes never make one, and users reach only the first level.
    if any(root.opcode == opcodes.TUPLE for root in roots_of(fusion.called_computations[0])):
        yield Problem(fusion, f"{fusion.name} returns a nested tuple", "warning", code="fusion-outputs")
    for user in users.get(fusion, ()):
        if user.opcode not in _TUPLE_USERS:
            message = f"{user.name} uses {fusion.name} as a tuple instead of through get-tuple-element"
            yield Problem(user, message, "warning", code="fusion-outputs")


def _alias_problems(fusion: Instruction) -> Iterator[Problem]:
    """Checks that aliased outputs and operands exist and have the same size."""
    if OUTPUT_TO_OPERAND_ALIASING not in fusion.raw[1]:
        return
    for alias in fusion.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias):
        number = alias.operand_number
        given = fusion.operand_shape(number) if 0 <= number < len(fusion.operands) else None
        place = subshape(given, alias.operand_index) if given is not None else None
        result = subshape(fusion.shape, alias.output_index)
        if place is None or result is None:
            missing = "result" if result is None else "operand"
            message = f"aliasing {alias} of {fusion.name} names a nonexistent {missing}"
        elif not compatible(place, result):
            message = f"{fusion.name} aliases {place} with {result}, which has a different shape"
        else:
            continue
        yield Problem(fusion, message, code="fusion-aliasing")
