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


LOOP: Final = Rule("loop", "{producer} is computed where {consumer} reads it", fuses=True)
OUTPUT: Final = Rule("output", "{consumer} is added to the product while it is made", fuses=True)
VECTOR_DOT: Final = Rule("vector-dot", "the other operand of {consumer} is a vector that fits the cache", fuses=True)
SIBLINGS: Final = Rule("siblings", "{producer} and {consumer} read the same, and one kernel makes both", fuses=True)

NOT_FUSIBLE: Final = Rule("not-fusible", "{producer} does more than give a value, or is run as it stands")
CONSUMER_NOT_FUSIBLE: Final = Rule("consumer-not-fusible", "{consumer} is never part of a fusion")
LIBRARY: Final = Rule("library", "{consumer} is a call of a library, or what one applies")
CONSTANT_ARRAY: Final = Rule("constant-array", "{producer} is an array that lies in memory anyway")
FUSED_WITH_PRODUCT: Final = Rule("fused-with-product", "{producer} is kept for the product that it is added to")
NOT_A_LOOP: Final = Rule("not-a-loop", "{producer} is not computed element by element")
CONCATENATE: Final = Rule("concatenate", "a concatenate of many operands, or along the fastest dimension, stays alone")
EXPENSIVE_REUSE: Final = Rule(
    "expensive-reuse", "{producer} is expensive and {consumer} reads its elements more than once"
)
ROOT: Final = Rule("root", "{producer} is the result of the computation")
EXPENSIVE_COPY: Final = Rule("expensive-copy", "{producer} is expensive, has other users and would be computed twice")
NO_COPIES: Final = Rule("no-copies", "{producer} has other users, and nothing may be computed twice")
IN_PLACE_TWICE: Final = Rule("in-place-twice", "{consumer} overwrites an operand that it also reads elsewhere")
IN_PLACE: Final = Rule("in-place", "{consumer} overwrites what {producer} would still have to read elsewhere")
REDUCES: Final = Rule("reduces", "{consumer} holds six reduces already")
CONSTANT: Final = Rule("constant", "a constant starts no fusion: it joins one that is there")
FUSION_PRODUCER: Final = Rule("fusion-producer", "{producer} is a fusion, which is never fused into its user")
CODE_SIZE: Final = Rule("code-size", "{producer} would be written out too often in {consumer}")
NO_LOOP_FUSION: Final = Rule("no-loop-fusion", "{consumer} does not loop over elements of its operands")
ON_SOME_PATHS: Final = Rule(
    "on-some-paths", "{producer} cannot join all its users, and would have to be read and computed again"
)
OVERWRITTEN: Final = Rule(
    "overwritten", "what {producer} reads is overwritten, in the order of the schedule, before {consumer} runs"
)
SEVERAL_RESULTS: Final = Rule(
    "several-results", "kernels of several results are made only where xla_cpu_use_multi_output_fusion is on"
)
BY_WAY_OF_OTHERS: Final = Rule(
    "by-way-of-others", "{consumer} needs {producer} by way of others, which would be too late"
)
ALIASED: Final = Rule("aliased", "{producer} writes its result over an operand, and stays a kernel of its own")
WRITTEN_OVER: Final = Rule("written-over", "{consumer} writes its result over {producer}, which must lie in memory")
READ_BESIDE: Final = Rule("read-beside", "{consumer} overwrites what {producer} reads")
TAKEN_WHOLE: Final = Rule("taken-whole", "the results of one of them are used as a tuple, not one by one")
OTHER_SHAPES: Final = Rule("other-shapes", "one loop makes all results of a kernel, and their shapes differ")
NOT_SIDE_BY_SIDE: Final = Rule("not-side-by-side", "one of them is not computed element by element")

ALL: Final = (
    *(LOOP, OUTPUT, VECTOR_DOT, SIBLINGS),
    *(NOT_FUSIBLE, CONSUMER_NOT_FUSIBLE, ON_SOME_PATHS, LIBRARY, CONSTANT_ARRAY, FUSED_WITH_PRODUCT, NOT_A_LOOP),
    *(CONCATENATE, EXPENSIVE_REUSE, ROOT, EXPENSIVE_COPY, NO_COPIES, IN_PLACE_TWICE, IN_PLACE, REDUCES, CONSTANT),
    *(FUSION_PRODUCER, CODE_SIZE, NO_LOOP_FUSION, OVERWRITTEN),
    *(
        SEVERAL_RESULTS,
        BY_WAY_OF_OTHERS,
        ALIASED,
        WRITTEN_OVER,
        READ_BESIDE,
        TAKEN_WHOLE,
        OTHER_SHAPES,
        NOT_SIDE_BY_SIDE,
    ),
)
"""All rules."""


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
