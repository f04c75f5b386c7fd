"""How much work is an operation or a fusion on a GPU: cycles, bytes read and written, and uses of elements?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, floor, modf, prod
from struct import Struct
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.gpu_emitters import Sizes, arrays_of, bytes_of, elements_of, first_array, sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import FusionBody, Node, VisitOrder, is_elementwise, users_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape, TupleShape

# --- time as XLA's model computes it ---
# Time as XLA's cost model computes it: single precision for quotients, durations in quarters of a nanosecond.
#
# Mirrors `absl::Duration` of absl/time/duration.cc, whose rounding decides between fusions of equal benefit.


TICKS_PER_SECOND: Final = 4_000_000_000  # absl::Duration counts quarters of a nanosecond
TICKS_PER_MICROSECOND: Final = 4_000  # the same unit
_SINGLE: Final = Struct("f")  # packing rounds as C++ does, and is faster than numpy for single values
_pack, _unpack = _SINGLE.pack, _SINGLE.unpack


def f32(value: float) -> float:
    """The value rounded to single precision.

    >>> f32(0.1) == 0.1, f32(2**24 + 1)
    (False, 16777216.0)
    """
    rounded: float = _unpack(_pack(value))[0]
    return rounded


def seconds(value: float) -> int:
    """Ticks of a number of seconds, rounded to the nearest (`absl::Seconds`).

    >>> seconds(1e-6), seconds(1.3e-10)
    (4000, 1)
    """
    whole = floor(value)
    # absl splits whole seconds off before it scales, so that large values keep their fraction.
    return whole * TICKS_PER_SECOND + _round((value - whole) * TICKS_PER_SECOND)


def scale(ticks: int, factor: float) -> int:
    """A duration times a number: through seconds and back, as absl does (`operator*=`).

    >>> scale(10, 0.95), scale(4, 2.5), scale(7_000_000_000, 1.5)
    (10, 10, 10500000000)
    """
    # duration.cc multiplies whole seconds and the rest apart; one product differs by a tick in 1 of 200 pairs.
    high, low = divmod(ticks, TICKS_PER_SECOND)
    high_fraction, high_whole = modf(high * factor)
    low_fraction, low_whole = modf(low * factor / TICKS_PER_SECOND + high_fraction)
    return int(high_whole + low_whole) * TICKS_PER_SECOND + _round(low_fraction * TICKS_PER_SECOND)


def nanoseconds(value: float) -> int:
    """Ticks of a number of nanoseconds (`absl::Nanoseconds`).

    >>> nanoseconds(1.125)
    5
    """
    # absl multiplies a nanosecond, which is 4 ticks, by the number: the rounding is that of `scale`.
    return scale(4, value)


def microseconds(ticks: int) -> float:
    """A duration in microseconds.

    >>> microseconds(8098)
    2.0245
    """
    return ticks / TICKS_PER_MICROSECOND


def _round(value: float) -> int:
    """The nearest integer, halves up."""
    whole = floor(value)
    return whole + (value - whole >= 0.5)


# --- measured cycles of operations ---
# Clock cycles per element of elementwise operations on NVIDIA GPUs, by compute capability.
#
# The measured profiles of xla/service/gpu/model/hlo_op_profiles_data.h. An operation or type that is not listed takes
# `DEFAULT_CYCLES`; a capability that is not listed uses the profile of `DEFAULT_PROFILE`
# (`HloOpProfiles::GetProfile`).


DEFAULT_CYCLES: Final = 3  # `kDefaultFlopsPerElement` of gpu_hlo_cost_analysis.cc: at least a few cycles
DEFAULT_PROFILE: Final = "sm_86"  # `HloOpProfiles::GetProfile` takes it for devices without one


@cache
def _op_cycles(profile: str) -> Mapping[tuple[str, str], int]:
    """Returns the cycles per element by opcode and element type of the result.

    >>> _op_cycles("sm_90")["add", "f32"], _op_cycles("gfx942") == _op_cycles("sm_86")
    (7, True)
    """
    cycles_of: dict[tuple[str, str], int] = {}
    opcode = ""
    for word in _PROFILES.get(profile, _PROFILES[DEFAULT_PROFILE]).split():
        kind, equals, cycles = word.partition("=")
        if equals:
            cycles_of[opcode, kind] = int(cycles)
        else:
            opcode = word
    return cycles_of


_PROFILES: Final = {
    "sm_103": """
        popcnt s8=37 s16=37 s32=37 s64=37 u8=37 u16=37 u32=37 u64=33 add s8=4 s16=4 s32=4 s64=12 u8=4 u16=4 u32=4 u64=12
        f16=8 f32=8 f64=136 c64=12 c128=277 divide s8=372 s16=380 s32=302 s64=1068 u8=298 u16=293 u32=136 u64=890 f16=49
        f32=24 f64=2028 c64=335 c128=14299 multiply s8=8 s16=8 s32=8 s64=12 u8=8 u16=8 u32=8 u64=12 f16=8 f32=8 f64=132
        c64=33 c128=832 subtract s8=4 s16=4 s32=4 s64=12 u8=4 u16=4 u32=4 u64=12 f16=8 f32=8 f64=132 c64=12 c128=285
        cbrt f16=198 f32=173 f64=2248 cosine f16=442 f32=347 f64=2782 c64=761 c128=10312 erf f16=235 f32=190 f64=6276
        exponential f16=111 f32=86 f64=2322 c64=823 c128=11749 exponential-minus-one f16=186 f32=144 f64=2802 c64=894
        c128=10076 log f16=120 f32=186 f64=488 c64=695 c128=14022 log-plus-one f16=219 f32=211 f64=3369 c64=741
        c128=16025 logistic f16=244 f32=202 f64=3142 c64=2852 c128=27390 round-nearest-afz f16=66 f32=57 f64=364
        round-nearest-even f16=62 f32=33 f64=136 rsqrt f16=111 f32=78 f64=939 c64=2976 c128=18369 sine f16=372 f32=376
        f64=2761 c64=790 c128=10399 sqrt f16=111 f32=78 f64=1465 c64=4375 c128=29046 tan f16=372 f32=405 f64=3502
        c64=1771 c128=16137 tanh f16=149 f32=140 f64=2094 c64=1668 c128=16191 atan2 f16=451 f32=438 f64=5464 c64=6582
        c128=63780
    """,
    "sm_100": """
        divide s8=373 s16=369 s32=306 s64=730 u8=302 u16=302 u32=125 u64=628 f16=43 f32=23 f64=483 c64=330 c128=2338
        multiply s8=7 s16=7 s32=3 s64=11 u8=7 u16=7 u32=3 u64=11 f16=7 f32=7 f64=15 c64=31 c128=39 power s8=153 s16=145
        s32=172 s64=298 u8=153 u16=149 u32=172 u64=298 f16=451 f32=463 f64=1796 c64=5285 c128=8685 cbrt f16=200 f32=180
        f64=569 cosine f16=1017 f32=1002 f64=538 c64=2511 c128=1862 erf f16=161 f32=161 f64=746 exponential f16=106
        f32=82 f64=314 c64=695 c128=1375 exponential-minus-one f16=216 f32=196 f64=385 c64=864 c128=1513 log f16=102
        f32=165 f64=844 c64=703 c128=3859 log-plus-one f16=216 f32=200 f64=793 c64=664 c128=5985 logistic f16=220
        f32=176 f64=428 c64=2314 c128=5973 rsqrt f16=98 f32=74 f64=231 c64=2507 c128=5792 sine f16=1006 f32=990 f64=534
        c64=2440 c128=1878 sqrt f16=98 f32=74 f64=294 c64=4271 c128=6602 tanh f16=141 f32=137 f64=459 c64=2444 c128=4519
        add f16=7 f32=7 f64=15 c64=11 c128=15 atan2 f16=400 f32=373 f64=829 c64=6346 c128=13310 subtract f16=7 f32=7
        f64=15 c64=11 c128=15
    """,
    "sm_90": """
        divide s8=356 s16=364 s32=297 s64=685 u8=300 u16=304 u32=122 u64=629 f16=43 f32=19 f64=526 c64=498 c128=2280
        multiply s8=7 s16=7 s32=3 s64=11 u8=7 u16=7 u32=3 u64=11 f16=7 f32=3 f64=15 c64=79 c128=39 power s8=122 s16=122
        s32=71 s64=253 u8=122 u16=126 u32=71 u64=253 f16=526 f32=510 f64=2205 c64=5532 c128=8363 cbrt f16=201 f32=178
        f64=586 cosine f16=997 f32=978 f64=558 c64=2415 c128=1750 exponential f16=102 f32=79 f64=376 c64=641 c128=1342
        exponential-minus-one f16=217 f32=190 f64=712 c64=2055 c128=1275 log f16=182 f32=166 f64=815 c64=756 c128=2455
        log-plus-one f16=245 f32=229 f64=1259 c64=633 c128=2403 rsqrt f16=95 f32=75 f64=277 c64=3148 c128=5500 sine
        f16=993 f32=958 f64=554 c64=2324 c128=1999 sqrt f16=95 f32=75 f64=332 c64=4344 c128=6636 tanh f16=502 f32=467
        f64=431 c64=2379 c128=4613 add f16=7 f32=7 f64=15 c64=7 c128=15 atan2 f16=451 f32=431 f64=930 c64=6462
        c128=13131 subtract f16=7 f32=7 f64=15 c64=7 c128=15
    """,
    "sm_86": """
        divide s8=370 s16=367 s32=306 s64=918 u8=306 u16=302 u32=115 u64=838 f64=2016 c64=687 c128=7941 power s8=392
        s16=396 s64=601 u8=388 u16=399 u64=604 f16=975 f32=925 f64=5511 c64=3351 c128=18205 cbrt f16=925 f32=867
        f64=6339 cosine f16=691 f32=662 f64=1717 c128=6613 exponential f16=108 f32=86 f64=1652 c64=1360 c128=4028
        exponential-minus-one f16=396 f32=381 f64=1900 c64=1400 c128=4161 log f16=266 f32=244 f64=608 c64=950 c128=7599
        log-plus-one f16=284 f32=262 f64=2073 c64=842 c128=6962 logistic f16=226 f32=176 f64=2412 rsqrt f16=97 f32=75
        f64=698 c64=2383 c128=11318 sqrt f16=97 f32=75 f64=986 c64=3193 c128=15606 tanh f16=212 f32=190 f64=1609
        c128=9939 atan2 f16=482 f32=486 f64=3747 c64=5353 c128=39027 sine f32=662 f64=1789 c128=5878 add f64=97 c128=97
        multiply f64=97 c128=270 subtract f64=97 c128=97
    """,
    "sm_80": """
        divide s8=417 s16=468 s64=1094 u8=420 u16=391 u64=908 f64=831 c128=3037 power u8=417 u16=454 u64=744 f32=1221
        f64=1861 c64=4131 c128=6054 cbrt f16=1195 f64=1638 log f16=321 f32=259 f64=699 c64=1037 c128=2371 log-plus-one
        f16=346 f64=1223 c64=1029 c128=2405 sqrt f16=124 f64=397 c128=5304 tanh f16=499 f32=504 f64=733 c128=3618
        exponential-minus-one f64=572 rsqrt f64=329 c128=3945 sine f64=597 c128=2284 atan2 f64=1080 c64=6618 c128=13564
        cosine c128=2309
    """,
    "sm_70": """
        divide s8=336 s16=345 s32=287 s64=685 u8=293 u16=293 u32=113 u64=599 f16=73 f32=21 f64=501 c64=480 c128=2423
        multiply s8=9 s16=9 s32=3 s64=12 u8=9 u16=9 u32=3 u64=12 f16=9 f32=6 f64=15 c64=42 c128=45 power s8=189 s16=183
        s32=104 s64=376 u8=189 u16=183 u32=104 u64=376 f16=709 f32=673 f64=2099 c64=8105 c128=9810 add s64=3 u64=3 f16=9
        f32=6 f64=15 c64=12 c128=15 cbrt f16=226 f32=189 f64=599 cosine f16=425 f32=373 f64=624 c64=780 c128=1808
        exponential f16=128 f32=79 f64=358 c64=722 c128=1487 exponential-minus-one f16=241 f32=205 f64=410 c64=703
        c128=1334 log f16=232 f32=180 f64=318 c64=758 c128=1805 log-plus-one f16=266 f32=217 f64=633 c64=654 c128=1618
        rsqrt f16=122 f32=76 f64=263 c64=3261 c128=7261 sine f16=425 f32=373 f64=618 c64=789 c128=2013 sqrt f16=122
        f32=76 f64=324 c64=6282 c128=8237 tanh f16=284 f32=269 f64=406 c64=1924 c128=6343 atan2 f16=449 f32=406 f64=973
        c64=8151 c128=15355 subtract f16=9 f32=6 f64=15 c64=12 c128=15
    """,
    "sm_60": """
        add s8=2 s16=2 s32=2 s64=2 u8=2 u16=2 u32=2 u64=2 f16=11 f32=11 f64=14 c64=20 c128=20 divide s8=426 s16=420
        s32=444 s64=1018 u8=299 u16=307 u32=189 u64=888 f16=68 f32=35 f64=565 c64=760 c128=3194 multiply s8=5 s16=5
        s32=14 s64=82 u8=5 u16=5 u32=14 u64=79 f16=11 f32=11 f64=14 c64=65 c128=65 power s8=216 s16=216 s32=417 s64=1569
        u8=213 u16=216 u32=420 u64=1548 f16=1012 f32=988 f64=2682 c64=8335 c128=17893 cbrt f16=233 f32=213 f64=645
        cosine f16=532 f32=494 f64=1427 c64=1128 c128=4302 exponential f16=142 f32=109 f64=405 c64=1021 c128=3665
        exponential-minus-one f16=364 f32=337 f64=544 c64=991 c128=3656 log f16=325 f32=284 f64=441 c64=1107 c128=2057
        log-plus-one f16=373 f32=328 f64=784 c64=994 c128=1806 rsqrt f16=100 f32=71 f64=355 c64=2158 c128=6135 sine
        f16=497 f32=473 f64=1640 c64=1139 c128=4169 sqrt f16=100 f32=71 f64=417 c64=2934 c128=8595 tanh f16=458 f32=426
        f64=473 c64=1883 c128=5294 atan2 f16=675 f32=663 f64=1169 c64=16282 c128=22278 subtract f16=11 f32=11 f64=14
        c64=20 c128=20
    """,
    "sm_75": """
        divide s8=360 s16=357 s32=296 s64=979 u8=293 u16=290 u32=118 u64=812 f16=74 f64=1915 c128=8040 power s8=336
        s16=339 s64=495 u8=334 u16=336 u64=515 f16=1120 f32=1085 f64=5538 c64=3219 c128=18550 cbrt f16=792 f32=783
        f64=6494 cosine f16=815 f32=737 f64=1800 c64=1702 c128=6474 exponential f16=132 f32=83 f64=1630 c64=1503
        c128=4962 exponential-minus-one f16=342 f32=319 f64=1929 c64=1474 c128=4037 log f16=239 f32=201 f64=596 c64=835
        c128=7286 log-plus-one f16=239 f32=218 f64=1774 c64=737 c128=6848 logistic f16=262 f32=181 f64=2430 rsqrt
        f16=126 f32=74 f64=705 c64=2232 c128=10748 sine f16=794 f32=717 f64=1805 c64=1632 c128=5391 sqrt f16=123 f32=74
        f64=984 c64=2989 c128=15981 tanh f16=175 f32=167 f64=1535 c64=2263 c128=9653 atan2 f16=414 f32=414 f64=3744
        c64=4847 c128=38206 add f64=95 c128=95 multiply f64=95 c128=273 subtract f64=95 c128=97
    """,
}


# --- work of operations ---
# Cycles and bytes of single operations on a GPU, as the rules of each opcode give them.
#
# Mirrors the handlers of xla/service/gpu/model/gpu_hlo_cost_analysis.cc and xla/service/hlo_cost_analysis.cc.


_COUNTED: Final = ELEMENTWISE - {opcodes.COPY}  # a copy moves bytes, which XLA counts as no flops
_CONCATENATE_CYCLES: Final = 6  # `HandleConcatenate` of gpu_hlo_cost_analysis.cc
_UNALIGNED_CONCATENATE_CYCLES: Final = 400  # the same function: threads of a warp take different branches
_NO_WORK: Final = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))


class Basic(NamedTuple):
    """Cycles of an operation, and how often it uses each element of each operand.

    `hands_groups_on`: its operands are used as often as its result, element by element.
    """

    flops: float
    utilization: tuple[float, ...]
    hands_groups_on: bool


class OperationWork:
    """Work of operations by the cycles of a profile; remembers what was asked for, once for all clones."""

    __slots__ = ("_applied", "_cycles", "_known")

    def __init__(self, profile: str) -> None:
        self._cycles = _op_cycles(profile)
        self._known: dict[Node | Instruction, Basic] = {}
        self._applied: dict[Computation, float] = {}

    def of(self, node: Node) -> Basic:
        """Cycles and utilization of an operation that is not a fusion."""
        # Clones share an instruction; a node with a new opcode, such as a get-tuple-element, does not have its work.
        key = node.instruction if node.opcode == node.instruction.opcode else node
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Basic(self._flops(node), _utilization(node), _hands_groups_on(node))
        return found

    def per_element(self, node: Node) -> int:
        """Cycles for one element of the result, as the model of tiled kernels counts them."""
        if node.opcode == opcodes.REDUCE:
            called = node.instruction.called_computations
            factor = elements_of(node.operands[0].shape) // max(1, elements_of(first_array(node.shape)))
            return (factor - 1) * int(self._flops_of(called[0])) if called else 0
        return self._cycles.get((node.opcode, type_of(node)), DEFAULT_CYCLES) if node.opcode in _COUNTED else 0

    def bytes_of(self, node: Node) -> tuple[list[float], float]:
        """Bytes that an operation reads of each operand, and writes."""
        reads: list[float] = [bytes_of(operand.shape) for operand in node.operands]
        # Arrays only: XLA counts no tables of pointers for results, though it does for operands.
        written: float = sum(bytes_of(array) for array in arrays_of(node.shape))
        match node.opcode:
            case opcode if opcode in _NO_WORK:
                return [0.0] * len(reads), 0.0
            case opcodes.BROADCAST | opcodes.SLICE | opcodes.DYNAMIC_SLICE | opcodes.GATHER:
                # Every access counts: a broadcast reads its operand anew for each element of the result.
                reads[0] = written
            case opcodes.DYNAMIC_UPDATE_SLICE:
                # In place: the old value is not read, and only the update is written.
                reads[0], written = 0.0, reads[1]
            case opcodes.SCATTER:
                count = len(reads) // 2
                # hlo_cost_analysis.cc takes the size of the updates for what is read of the inputs.
                reads[:count] = reads[count + 1 :]
                written = sum(reads[:count])
            case opcodes.REDUCE:
                for place in range(len(reads) // 2, len(reads)):
                    # Each result starts from the initial value, which is read once for each.
                    reads[place] = elements_of(first_array(node.shape)) * reads[place]
            case opcodes.REDUCE_WINDOW:
                window, _ = _window_counts(node)
                shape = node.operands[0].shape
                width = shape.element_type.byte_width if isinstance(shape, ArrayShape) else 0
                reads[0] = elements_of(first_array(node.shape)) * window * width
        return [f32(count) for count in reads], f32(written)

    def _flops(self, node: Node) -> float:
        elements = elements_of(node.shape)
        match node.opcode:
            case opcodes.CONCATENATE:
                return f32(_concatenate_cycles(node) * elements)
            case opcodes.REDUCE:
                # n elements need n − 1 applications for each result.
                count = elements_of(node.operands[0].shape) - elements_of(first_array(node.shape))
                return self._applications(node, count)
            case opcodes.REDUCE_WINDOW:
                return self._applications(node, _window_counts(node)[1])
            case opcodes.SCATTER:
                return self._applications(node, elements_of(node.operands[len(node.operands) // 2 + 1].shape))
            case opcodes.MAP:
                return self._applications(node, elements)
            case opcode if opcode in _COUNTED:
                return f32(self._cycles.get((opcode, type_of(node)), DEFAULT_CYCLES) * elements)
        return 0.0

    def _applications(self, node: Node, count: int) -> float:
        called = node.instruction.called_computations
        # Both factors in single precision, as `hlo_cost_analysis.cc` scales the properties of a body.
        return f32(self._flops_of(called[0]) * f32(count)) if called else 0.0

    def _flops_of(self, applied: Computation) -> float:
        """Cycles of a computation of scalars."""
        total = self._applied.get(applied)
        if total is None:
            total = 0.0
            for instruction in applied.instructions:
                # Bodies of reductions are scalars; one that calls further computations is not counted by XLA, either.
                if instruction.opcode in _COUNTED and isinstance(instruction.shape, ArrayShape):
                    cycles = self._cycles.get((instruction.opcode, instruction.shape.element_type.name), DEFAULT_CYCLES)
                    total = f32(total + cycles * instruction.shape.elements)
            self._applied[applied] = total
        return total


def concatenated_dimension(node: Node) -> int:
    """The dimension along which a concatenate joins arrays; the first if that is missing or wrong, as lint reports.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "c = f32[2,4] concatenate(f32[2,2] p, f32[2,2] p), dimensions={1}"
    >>> modules = parse_module(text), parse_module(text.replace("{1}", "{2}"))
    >>> [concatenated_dimension(mutable_graph_of(each.entry).root) for each in modules]
    [1, 0]
    """
    found = node.instruction.integers("dimensions")[:1]
    return found[0] if found and all(found[0] < len(sizes_of(operand)) for operand in node.operands) else 0


def _concatenate_cycles(node: Node) -> int:
    dimension = concatenated_dimension(node)
    # Along dimension 0 operands follow each other; else whole warps have to belong to one operand.
    is_aligned = dimension == 0 or sizes_of(node.operands[0])[dimension] % 32 == 0
    return _CONCATENATE_CYCLES if is_aligned else _UNALIGNED_CONCATENATE_CYCLES


def _utilization(node: Node) -> tuple[float, ...]:
    """How often each element of each operand is used, on average."""
    utilization = [1.0] * len(node.operands)
    result = elements_of(first_array(node.shape))
    match node.opcode:
        case opcodes.BROADCAST | opcodes.SLICE | opcodes.DYNAMIC_SLICE | opcodes.GATHER:
            utilization[0] = _ratio(result, elements_of(node.operands[0].shape))
        case opcodes.DYNAMIC_UPDATE_SLICE:
            utilization[0] = _ratio(result - elements_of(node.operands[1].shape), result)
        case opcodes.REDUCE:
            for place in range(len(utilization) // 2, len(utilization)):
                utilization[place] = _ratio(result, elements_of(node.operands[place].shape))
        case opcodes.REDUCE_WINDOW:
            window, _ = _window_counts(node)
            utilization[0] = _ratio(result * window, elements_of(node.operands[0].shape))
    return tuple(utilization)


def _hands_groups_on(node: Node) -> bool:
    """Whether the operands of an operation are used as its result is."""
    if node.opcode in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT):
        return True
    if node.opcode == opcodes.BITCAST:
        given, result = node.operands[0].shape, node.shape
        return (
            isinstance(given, ArrayShape)
            and isinstance(result, ArrayShape)
            and given.dimensions == result.dimensions
            and given.layout == result.layout
        )
    return is_elementwise(node)


def _ratio(part: int, whole: int) -> float:
    return f32(part / whole) if whole else 0.0


def _window_counts(node: Node) -> tuple[int, int]:
    """Elements of a window, and applications of the computation of a reduce-window."""
    window = node.instruction.window
    dimensions = window.dimensions if window is not None else ()
    result = elements_of(first_array(node.shape))
    size = prod(d.size for d in dimensions)
    # hlo_cost_analysis.cc knows cumulative sums, which XLA rewrites; the count is that of the rewritten form.
    if (whole := _cumulative_size(node, dimensions)) is not None:
        return whole, result // whole + whole - 1
    return size, (size - 1) * result


def _cumulative_size(node: Node, dimensions: tuple[WindowDimension, ...]) -> int | None:
    """Size of the only reduced dimension if the window covers all of it at every position, else None."""
    reduced = [place for place, d in enumerate(dimensions) if d.size != 1]
    padded = [d for d in dimensions if d.padding_low or d.padding_high]
    if len(reduced) != 1 or len(padded) != 1 or isinstance(node.shape, TupleShape):
        return None
    d, size = dimensions[reduced[0]], sizes_of(node)[reduced[0]]
    is_whole = 0 < d.padding_low == d.padding_high == size - 1 and d.size == 2 * d.padding_low + 1
    return size if is_whole else None


# --- work of fusions ---
# Work of an operation or fusion on a GPU: cycles, bytes of operands and results, and how often elements are used.
#
# Mirrors `GpuHloCostAnalysis` of xla/service/gpu/model/gpu_hlo_cost_analysis.cc with `count_multiple_input_accesses`,
# and xla/service/hlo_cost_analysis.cc: an operand counts every access, and arithmetic is in single precision.


EXACT: Final = 1 << 24
"""Integers below are exact in single precision."""
_WHOLE: Final = 1.0  # one object, so that the comparison below is of a value that was never computed


@dataclass(slots=True, eq=False)
class Work:
    """Work of one instruction: `flops` are clock cycles, `reads` and `utilization` belong to the operands in order.

    `size` is the number of emitted operations. `groups` are, of a fusion, the roots of the elementwise groups of each
    parameter, and `root_groups` those of its root; `group_use` is how often each root is computed.
    """

    flops: int
    reads: tuple[int, ...]
    written: int
    utilization: tuple[float, ...]
    size: int = 1
    copies: tuple[int, ...] = ()
    groups: tuple[dict[Node, None], ...] = ()
    root_groups: dict[Node, None] | None = None
    group_use: dict[Node, float] | None = None

    def common(self, first: dict[Node, None], second: dict[Node, None]) -> float:
        """Utilization that two values of a fusion share (`CommonElementwiseUtilization`)."""
        total = 0.0
        assert self.group_use is not None
        for root in first:
            if root in second:
                total = f32(total + self.group_use[root])
        return total


class WorkCounter:
    """Work of nodes on a GPU with a table of cycles.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> root = mutable_graph_of(parse_module("r = f32[8,9] broadcast(f32[9] a), dimensions={1}").entry).root
    >>> work = WorkCounter("sm_90").of(root)
    >>> work.reads, work.written, work.utilization
    ((288,), 288, (8.0,))
    """

    __slots__ = ("_growing", "_operations", "_sizes")

    def __init__(self, profile: str, sizes: Sizes | None = None) -> None:
        self._growing: dict[Node, _GrowingWork] = {}
        self._sizes = sizes or Sizes()
        self._operations = OperationWork(profile)

    def of(self, node: Node) -> Work:
        """Work of an operation, or of a fusion with its current body."""
        if node.body is not None:
            return self._of_fusion(node, node.body)
        basic = self._operations.of(node)
        reads, written = self._operations.bytes_of(node)
        return Work(int(basic.flops), tuple(int(b) for b in reads), int(written), basic.utilization)

    def forget(self, node: Node) -> None:
        """Forgets a fusion that is no more; what grows is known."""
        self._growing.pop(node, None)

    def _of_fusion(self, fusion: Node, body: FusionBody) -> Work:
        """Work of a fusion, continued where operations were fused since it was asked for."""
        growing = self._growing.get(fusion)
        if growing is None or not growing.is_near(body):
            growing = self._growing[fusion] = _GrowingWork(body, self._operations, self._sizes)
        return growing.work(body)


class _GrowingWork:
    """Work of a body into which operations are fused, each in place of a parameter.

    Sums are in single precision, so their order counts: that in which XLA visits the body, users before operands. An
    operation takes the place of its parameter there, and changes nothing but its own operands.
    """

    __slots__ = (
        *("_copies", "_groups", "_is_integral", "_known", "_operands", "_operations", "_order", "_readers", "_seen"),
        *("_size", "_sizes", "_sums", "_terms", "_times", "_total", "_updated", "_use", "_written", "insertions"),
    )

    def __init__(self, body: FusionBody, operations: OperationWork, sizes: Sizes) -> None:
        root, order = body.root, users_first(body)
        self.insertions, self._seen = body.insertions, len(body.insertions)
        self._operations, self._sizes, self._order = operations, sizes, VisitOrder(order)
        # The buffer that a root updates is not read: XLA's cost analysis expects the update in place.
        self._updated = _written_by_updates(root)
        self._written = sum(self._updated.get(result, bytes_of(shape)) for result, shape in _results(root))
        self._groups: dict[Node, dict[Node, None]] = {root: {root: None}}
        self._use, self._copies, self._size = {root: _WHOLE}, {root: 1}, 0
        # How often a node is computed, and emitted; of a parameter also the bytes read.
        self._times: dict[Node, tuple[float, int]] = {}
        self._known: dict[Node, tuple[float, int, int]] = {}
        # Operands and users as they were when an operation was added: later ones are added in their turn.
        self._operands: dict[Node, Sequence[Node]] = {}
        self._readers: dict[Node, list[Node]] = {}
        # Cycles of each operation in order, and in single precision their sums as far as they are known.
        self._terms: list[float] = []
        self._sums: list[float] = []
        self._total, self._is_integral = 0.0, True
        for node in order:
            if node.opcode != opcodes.PARAMETER:
                self._add(node, tuple(node.operands), len(self._terms))

    def is_near(self, body: FusionBody) -> bool:
        """Whether adding what was fused since is less work than to begin anew."""
        # Measured: to insert an operation takes about three times as long as to add it to the end.
        return self.insertions is body.insertions and 3 * (len(self.insertions) - self._seen) < len(self._terms)

    def work(self, body: FusionBody) -> Work:
        """Work of the body as it is now."""
        for parameter, node, operands in self.insertions[self._seen :]:
            if node is not parameter:
                self._replace(parameter, node)
            self._add(node, operands, self._order.insert(node, operands))
        self._seen = len(self.insertions)
        found = [self._known.get(parameter) or self._of_parameter(parameter) for parameter in body.parameters]
        return Work(
            int(self._flops()),
            tuple([read for _, _, read in found]),
            self._written,
            tuple([times for times, _, _ in found]),
            self._size + sum([emitted for _, emitted, _ in found]),
            tuple([emitted for _, emitted, _ in found]),
            tuple([self._groups.get(parameter, {}) for parameter in body.parameters]),
            self._groups[body.root],
            self._use,
        )

    def _flops(self) -> float:
        # Sums of integers below 2²⁴ are exact, so they need no order.
        if self._is_integral and self._total < EXACT:
            return self._total
        total = self._sums[-1] if self._sums else 0.0
        for term in self._terms[len(self._sums) :]:
            if term:
                total = f32(total + term)
            self._sums.append(total)
        return total

    def _of_parameter(self, parameter: Node) -> tuple[float, int, int]:
        # A parameter without users has no utilization, yet it keeps its place among the operands.
        times, emitted = self._times_of(parameter) if parameter in self._groups else (0.0, 0)
        found = self._known[parameter] = times, emitted, _rounded(f32(f32(self._sizes.of(parameter.shape)) * times))
        return found

    def _times_of(self, node: Node) -> tuple[float, int]:
        """How often a node is computed, and emitted: groups of elementwise operations share both."""
        found = self._times.get(node)
        if found is None:
            times, emitted = 0.0, 0
            for group in self._groups[node]:
                times = f32(times + self._use[group]) if times else self._use[group]
                emitted += self._copies[group]
            found = self._times[node] = times, emitted
        return found

    def _add(self, node: Node, operands: Sequence[Node], place: int) -> None:
        """Adds an operation at a place in the order, which no operation reads that is still to be added."""
        times, emitted = self._times_of(node)
        self._size += emitted
        self._operands[node] = operands
        flops = self._operations.of(node).flops
        # A product with one is exact; most operations are computed once.
        cycles = flops if times == _WHOLE or not flops else f32(times * flops)
        self._terms.insert(place, cycles)
        del self._sums[place:]
        self._total += cycles
        self._is_integral = self._is_integral and cycles.is_integer()
        for operand in dict.fromkeys(operands):
            readers = self._readers.get(operand)
            if readers is None:
                self._readers[operand] = [node]
                self._read(operand, node)
                continue
            self._times.pop(operand, None)
            self._known.pop(operand, None)
            among = self._order.place(readers, node)
            readers.insert(among, node)
            if among == len(readers) - 1:
                self._read(operand, node)
                continue
            # What is read before comes first in all sums of the operand.
            for known in (self._groups, self._use, self._copies):
                known.pop(operand, None)
            for reader in readers:
                self._read(operand, reader)

    def _replace(self, parameter: Node, node: Node) -> None:
        """Puts an operation in the place of a parameter."""
        own = self._groups.pop(parameter)
        if parameter in own:
            own = {node if group is parameter else group: None for group in own}
            self._use[node], self._copies[node] = self._use.pop(parameter), self._copies.pop(parameter)
        self._groups[node] = own
        if (times := self._times.pop(parameter, None)) is not None:
            self._times[node] = times
        for reader in self._readers.pop(parameter):
            self._operands[reader] = [node if each is parameter else each for each in self._operands[reader]]
        self._known.pop(parameter, None)
        self._order.replace(parameter, node)

    def _read(self, operand: Node, node: Node) -> None:
        """Adds what an operation uses of an operand to what others use."""
        basic, groups, use = self._operations.of(node), self._groups, self._use
        if basic.hands_groups_on:
            _join(groups, operand, groups[node])
            return
        times, emitted = self._times_of(node)
        for place, other in enumerate(self._operands[node]):
            if other is not operand:
                continue
            share = 0.0 if place == 0 and node in self._updated else basic.utilization[place]
            _join(groups, operand, {operand: None})
            # Rounded up to a whole element: gpu_hlo_cost_analysis.cc does so where a group ends.
            use[operand] = f32(use.get(operand, 0.0) + _whole(f32(times * share), elements_of(operand.shape)))
            self._copies[operand] = self._copies.get(operand, 0) + emitted


def _join(groups: dict[Node, dict[Node, None]], node: Node, more: dict[Node, None]) -> None:
    """Adds groups to those of a node; nodes in the same groups share them, so no dict is changed."""
    known = groups.get(node)
    if known is None:
        groups[node] = more
    elif known is not more and more.keys() - known:
        groups[node] = {**known, **more}


def _results(root: Node) -> list[tuple[Node, ArrayShape]]:
    """Nodes that compute the arrays of a result, with their shapes."""
    if root.opcode == opcodes.TUPLE:
        return [found for operand in root.operands for found in _results(operand)]
    return [(root, array) for array in arrays_of(root.shape)]


def _written_by_updates(root: Node) -> dict[Node, int]:
    """Bytes that results write which are dynamic-update-slices: those of the update."""
    return {
        result: bytes_of(result.operands[1].shape)
        for result, _ in _results(root)
        if result.opcode == opcodes.DYNAMIC_UPDATE_SLICE
    }


def _whole(utilization: float, elements: int) -> float:
    """A utilization rounded up to whole elements."""
    return f32(ceil(f32(utilization * f32(elements))) / elements) if elements else 0.0


def _rounded(value: float) -> int:
    """Nearest integer, halves up (`std::llround`)."""
    return floor(value + 0.5)
