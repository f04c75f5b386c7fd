"""Rules that decide whether a producer–consumer pair is fused.

Mirrors the decisions of `ShouldFuse` in xla/service/cpu/cpu_instruction_fusion.cc and
xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """Named rule with a message template for producer and consumer; `fuses` if the pair is fused.

    >>> EXPENSIVE_REUSE.explain("tanh", "broadcast")
    'tanh is expensive and broadcast reads its elements more than once'
    """

    name: str
    template: str
    fuses: bool = False

    def explain(self, producer: str, consumer: str) -> str:
        """Message of the rule for two names."""
        return self.template.format(producer=producer, consumer=consumer)


LOOP: Final = Rule("loop", "{producer} can be fused into the loop of {consumer}", fuses=True)
OUTPUT_FUSION: Final = Rule("output-fusion", "{consumer} can be fused into the output of the matmul", fuses=True)
VECTOR_DOT: Final = Rule("vector-dot", "the other operand of {consumer} is a vector that fits in cache", fuses=True)
SIBLINGS: Final = Rule(
    "siblings", "{producer} and {consumer} have common operands and can form a multi-output fusion", fuses=True
)

PRODUCER_NOT_FUSIBLE: Final = Rule(
    "producer-not-fusible", "{producer} cannot be part of a fusion because of its opcode or side effects"
)
CONSUMER_NOT_FUSIBLE: Final = Rule(
    "consumer-not-fusible", "{consumer} cannot be part of a fusion because of its opcode or side effects"
)
LIBRARY_CALL: Final = Rule("library-call", "{consumer} is a library call or custom kernel (kCustom)")
CONSTANT_ARRAY: Final = Rule("constant-array", "{producer} is a constant array, which is in memory anyway")
RESERVED_FOR_DOT: Final = Rule("reserved-for-dot", "{producer} is reserved for output fusion with a matmul")
NOT_ELEMENTWISE: Final = Rule("not-elementwise", "{producer} is not elementwise")
CONCATENATE: Final = Rule("concatenate", "concatenates with many operands, or along the minor dimension, are not fused")
EXPENSIVE_REUSE: Final = Rule(
    "expensive-reuse", "{producer} is expensive and {consumer} reads its elements more than once"
)
ROOT: Final = Rule("root", "{producer} is the root of the computation")
EXPENSIVE_DUPLICATION: Final = Rule(
    "expensive-duplication", "{producer} is expensive and has other users, so it would be computed twice"
)
NO_DUPLICATION: Final = Rule("no-duplication", "{producer} has other users and duplication is disabled")
IN_PLACE_READS_OPERAND: Final = Rule(
    "in-place-reads-operand", "{consumer} updates an operand in place and also reads it"
)
IN_PLACE: Final = Rule("in-place", "{consumer} overwrites in place a buffer that {producer} still reads")
TOO_MANY_REDUCES: Final = Rule("too-many-reduces", "{consumer} already contains at least six reduces")
CONSTANT: Final = Rule("constant", "constants are only added to existing fusions")
FUSION_PRODUCER: Final = Rule("fusion-producer", "{producer} is already a fusion")
CODE_SIZE: Final = Rule("code-size", "the code of {producer} would be duplicated too often in {consumer}")
NO_LOOP_FUSION: Final = Rule("no-loop-fusion", "{consumer} does not support loop fusion")
NOT_ON_ALL_PATHS: Final = Rule(
    "not-on-all-paths", "{producer} cannot be fused into all of its users, so it would be computed again"
)
OVERWRITTEN: Final = Rule("overwritten", "an operand of {producer} is overwritten before {consumer} runs")
MULTI_OUTPUT_DISABLED: Final = Rule(
    "multi-output-disabled", "multi-output fusion requires xla_cpu_use_multi_output_fusion"
)
INDIRECT_DEPENDENCY: Final = Rule(
    "indirect-dependency",
    "{consumer} also depends on {producer} through other instructions, so fusing would create a cycle",
)
ALIASED: Final = Rule("aliased", "{producer} updates an operand in place")
OVERWRITTEN_BY_CONSUMER: Final = Rule(
    "overwritten-by-consumer", "{consumer} overwrites {producer} in place, so {producer} must be in memory"
)
SIBLING_OVERWRITES_OPERAND: Final = Rule("sibling-overwrites-operand", "{consumer} overwrites an operand of {producer}")
USED_AS_TUPLE: Final = Rule("used-as-tuple", "the result of one of them is used as a tuple")
SHAPE_MISMATCH: Final = Rule("shape-mismatch", "their shapes differ, and a multi-output fusion needs equal shapes")
SIBLINGS_NOT_ELEMENTWISE: Final = Rule("siblings-not-elementwise", "one of them is not elementwise")

PAIR_RULES: Final = (
    *(LOOP, OUTPUT_FUSION, VECTOR_DOT),
    *(PRODUCER_NOT_FUSIBLE, CONSUMER_NOT_FUSIBLE, NOT_ON_ALL_PATHS),
    *(LIBRARY_CALL, CONSTANT_ARRAY, RESERVED_FOR_DOT, NOT_ELEMENTWISE, CONCATENATE),
    *(EXPENSIVE_REUSE, ROOT, EXPENSIVE_DUPLICATION, NO_DUPLICATION, IN_PLACE_READS_OPERAND, IN_PLACE),
    *(TOO_MANY_REDUCES, CONSTANT, FUSION_PRODUCER, CODE_SIZE, NO_LOOP_FUSION),
)
"""Rules of the fusion pass for a producer and a consumer; those that allow the fusion come first."""

ALL: Final = (
    *PAIR_RULES,
    *(SIBLINGS, OVERWRITTEN, MULTI_OUTPUT_DISABLED, INDIRECT_DEPENDENCY, ALIASED, OVERWRITTEN_BY_CONSUMER),
    *(SIBLING_OVERWRITES_OPERAND, USED_AS_TUPLE, SHAPE_MISMATCH, SIBLINGS_NOT_ELEMENTWISE),
)
"""All rules, with those of a new order and of multi-output fusions."""


@dataclass(frozen=True, slots=True)
class FusionRules:
    """Options of the fusion passes; the defaults are those of jaxlib 0.10.2.

    - `may_duplicate` is off, and `multi_output` on, with XLA's `xla_cpu_use_multi_output_fusion`.
    - `guard_softmax` materializes the operand of a softmax, and `wrap_transpose` wraps lone transposes, as newer
      releases.
    - `wrap` wraps lone operations that are compiled as loops in fusions.
    """

    may_duplicate: bool = True
    multi_output: bool = False
    guard_softmax: bool = False
    wrap: bool = True
    wrap_transpose: bool = False


SHIPPED: Final = FusionRules()
"""Rules of jaxlib 0.10.2."""
