"""Which rule an error of a compiler or its runtime reports as violated, and where it was raised."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import CompilerError, ErrorRule
from hlo_cli.ir.operations import is_known
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.compiler_messages.call_errors import CALL_RULES
from hlo_cli.syntax.compiler_messages.causes import CAUSES, HARMLESS
from hlo_cli.syntax.compiler_messages.evidence import is_report
from hlo_cli.syntax.compiler_messages.framework_errors import FRAMEWORK_RULES
from hlo_cli.syntax.compiler_messages.library_errors import LIBRARY_RULES
from hlo_cli.syntax.compiler_messages.message_facts import (
    check_in_words,
    comparison_of,
    sentence_of,
    telling_line,
)
from hlo_cli.syntax.compiler_messages.message_families import FoundMessage, family_messages
from hlo_cli.syntax.compiler_messages.message_values import computed_fields
from hlo_cli.syntax.compiler_messages.native_errors import NATIVE_RULES
from hlo_cli.syntax.compiler_messages.python_errors import PYTHON_RULES
from hlo_cli.syntax.compiler_messages.runtime_errors import RUNTIME_RULES
from hlo_cli.syntax.compiler_messages.tracing_errors import TRACING_RULES

# --- rules of the verifier ---
# The messages of XLA's verifier, shape inference, and parser, and the rules that they report.
#
# Mirrors xla/service/hlo_verifier.cc, xla/service/shape_inference.cc, xla/hlo/ir/hlo_instruction.cc, and
# xla/hlo/parser/hlo_parser.cc. In the patterns, a space stands for any white space.


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
            r"(?<!\w)(?P<opcode>\w++) instruction shouldn't change layout memory space from (?P<from>\w++) "
            r"to (?P<to>\w++):"
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
            is_about_hlo=False,
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


# --- rules of shape inference ---
# The messages of XLA's shape inference by family; the sentence of the message has the numbers.
#
# Mirrors xla/service/shape_inference.cc and the callers' checks of xla/service/hlo_verifier.cc.


_FAMILIES: Final = (
    (
        r"Cannot concatenate arrays|Concatenate expects all operands",
        "concatenate",
        "Concatenated arrays have one type and equal sizes in all other dimensions.",
    ),
    (
        (
            r"A dimension number is (?:out of range|not unique) in Dot|[Cc]ontracting dimension sizes"
            r"|[Bb]atch dimension sizes|Must specify the same number of (?:contracting|batch) dimensions"
        ),
        "dot",
        "The contracting and the batch dimensions of a dot are paired, each pair of equal size.",
    ),
    (
        (
            r"Expected (?:LHS feature dimension|input batch dimension|output feature dimension)"
            r"|A dimension number is out of range in convolution|Convolution arguments must have"
        ),
        "convolution",
        "The input features of a convolution are the kernel's input features times feature_group_count.",
    ),
    (
        r"Reduction function (?:must|'s)|Reduction function's|Reducer ",
        "reducer",
        "A reducer takes two values for each input, of the type of its initial value, and returns one of that type.",
    ),
    (
        r"Transpose dimensions \[|dims and permutation must have equal sizes",
        opcodes.TRANSPOSE,
        "The dimensions of a transpose name every dimension of the operand once.",
    ),
    (
        (
            r"[Ll]imit index|Negative start index to slice|Slice (?:limit|start)|Dynamic (?:update )?slice "
            r"(?:start|size|update)"
            r"|Negative slice size"
        ),
        "slice",
        "A slice is within its operand: 0 ≤ start ≤ limit ≤ size in every dimension.",
    ),
    (
        r"Broadcast dimension|Broadcast requires|Size of broadcast dimension",
        "broadcast",
        "A broadcast lists the result dimension of each operand dimension; their sizes are equal.",
    ),
    (
        (
            r"Gather op |Slice size at index|Offset dimension \d++ in gather|Output window dimensions in gather"
            r"|Invalid \w++ set in gather op|in gather op"
        ),
        "gather",
        "The slice sizes of a gather fit its operand, and its dimension lists are sorted, unique, and in range.",
    ),
    (
        (
            r"Scatter op |Scatter index leaf|Bounds of the (?:scatter|window) dimensions of updates|Invalid scatter_"
            r"|Invalid \w++ set in scatter op"
        ),
        "scatter",
        "The updates of a scatter have the sizes of its indices and windows, which fit its operand.",
    ),
    (
        r"Operands to select|Select's pred operand",
        "select",
        "A select takes a pred and two values of one shape; the pred is a scalar or has their sizes.",
    ),
    (
        r"While (?:body|condition|loop|init|instruction)[^\n]{0,60} (?:must|expected)",
        "loop",
        "The body and condition of a while have one parameter, and the condition returns pred[].",
    ),
    (
        r"Operand \S{1,200} shape does not match parameter|Shape mismatch between parameter number",
        "call",
        "Each operand of a call, fusion, or branch has the shape of the parameter that it becomes.",
    ),
    (
        r"Async (?:done|update|start) requires|Defining op of Async|has no matching async|Orphan async",
        "async operation",
        "Every async start has one done, and only updates and the done take its result.",
    ),
    (
        r"Expected element type in shape to be|Expected array argument for|Arguments? to \w++ must be",
        "element type",
        "Each opcode takes only some element types.",
    ),
    (
        r"AllToAll split dimension size|ReduceScatter operand scatter dimension size",
        "collective",
        "The size of the divided dimension is a multiple of the number of devices in a group.",
    ),
    (
        r"Bitcast cannot have different",
        "bitcast",
        "A bitcast keeps the bytes and the memory space of its operand.",
    ),
    (
        r"Expected aliased input|Trying to set up alias|must be the same as the shape and memory space",
        "input_output_alias",
        "An aliased argument and result have the same size, shape, and memory space.",
    ),
    (
        r"Cannot infer shape for",
        "operands",
        "The shapes of the operands and the attributes fit each other.",
    ),
)

SHAPE_RULES: Final = (
    (
        (
            rf"Cannot infer shape for (?P<opcode>[\w\-]++) operation: (?P<left>{SHAPE}) <\w++> (?P<right>{SHAPE})\.? "
            r"(?P<why>[^\n]{0,300})"
        ),
        ErrorRule(
            "operands", "The shapes of the operands and the attributes fit each other.", "{left} and {right}: {why}"
        ),
    ),
    *((rf"(?P<why>(?:{start})[^\n]{{0,400}})", ErrorRule(key, rule, "{why}")) for start, key, rule in _FAMILIES),
)
"""Patterns of messages and their rules, after those of the verifier."""


# --- rules of parsers, kernels, and runtimes ---
# The messages of XLA's parser, of StableHLO, of kernel compilers, and of the runtime, and what they mean.


_MLIR_PLACE: Final = (  # compilers and checkers of languages write places in the same form, before other words
    r"(?<![\w./\-])(?![\w./\-]{1,200}\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|m|rs|go|java|js|jsx|ts|tsx|swift|kt|scala|py"
    r"|pyi|tex|proto|ya?ml|sh|md|css)"
    r":\d++:\d++:(?: error:)? (?!'[a-z_]++\.))[\w./\-]{1,200}:\d++:\d++"
)
PROGRAM_RULES: Final = (
    (
        r"was parsing (?P<row>\d++):(?P<column>\d++): error: instruction does not exist: (?P<name>\S++)",
        ErrorRule(
            "undefined name",
            "An operand names an instruction above it in the same computation.",
            "Line {row}, column {column}: {name} is not defined above.",
            is_program=True,
        ),
    ),
    (
        r"was parsing (?P<row>\d++):(?P<column>\d++): error: instruction already exists: (?P<name>\S++)",
        ErrorRule(
            "duplicate name",
            "The name of an instruction is unique in its computation.",
            "Line {row}, column {column}: {name} is defined a second time.",
            is_program=True,
        ),
    ),
    (
        r"was parsing (?P<row>\d++):(?P<column>\d++): error: expects opcode but sees: (?P<name>[^\s,]++)",
        ErrorRule(
            "unknown opcode",
            "After the shape follows an opcode that this release of XLA knows.",
            "Line {row}, column {column}: {name} is not an opcode.",
            "An opcode of a newer release is unknown to an older one.",
            is_program=True,
        ),
    ),
    (
        (
            r"was parsing (?P<row>\d++):(?P<column>\d++): error: Dimensions size is (?P<rank>\d++), but minor to "
            r"major size is (?P<listed>\d++)"
        ),
        ErrorRule(
            "layout",
            "The layout lists every dimension once.",
            "Line {row}, column {column}: the shape has {rank} dimensions, the layout lists {listed}.",
            is_program=True,
        ),
    ),
    (
        (
            r"was parsing (?P<row>\d++):(?P<column>\d++): error: (?!cannot parse as an instruction name)"
            r"(?P<why>[^\n]{1,300})"
        ),
        ErrorRule(
            "syntax", "The text follows the grammar of HLO.", "Line {row}, column {column}: {why}.", is_program=True
        ),
    ),
    (
        r"No such compile option: '(?P<option>\w++)'",
        ErrorRule(
            "compile option",
            "A compile option is one that this release and platform knows.",
            "{option} is unknown.",
            "Flags of libtpu go into LIBTPU_INIT_ARGS, those of XLA into XLA_FLAGS; names change with releases.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"XLA layout does not match MLIR layout for an operand of shape "
            rf"(?P<shape>{SHAPE}): expected (?P<expected>\{{[^}}\n]{{1,200}}\}}), got (?P<found>\{{[^}}\n]{{1,200}}\}})"
        ),
        ErrorRule(
            "layout of a kernel operand",
            "XLA passes each operand of a Mosaic kernel in the layout that the kernel was compiled for.",
            "For {shape} the kernel expects {expected} and gets {found}.",
            "Give the operand the same tiles: keep two or more dimensions, or reshape it before the call; a framework "
            "that calls the kernel has to set its operand layouts.",
        ),
    ),
    (
        (
            r"Mosaic failed to compile TPU kernel(?: with [^\n:]{0,300})?+: (?P<why>[^\n]{1,400})"
            r"(?:\s*+The MLIR operation involved: (?P<operation_text>[^\n]{1,600}))?+"
        ),
        ErrorRule(
            "Mosaic kernel",
            "Mosaic compiles Pallas kernels for TPU; it supports a subset of operations, types, and shapes.",
            "{why}",
            "Rewrite the operation in the kernel, such as by a cast to f32 or a shape whose last dimensions are "
            "multiples of 8 and 128, or use a newer libtpu.",
            is_program=True,
        ),
    ),
    (
        r"uses too much shared data \(0x(?P<used>[0-9a-f]{1,16}) bytes, 0x(?P<limit>[0-9a-f]{1,16}) max\)",
        ErrorRule(
            "shared memory of a kernel",
            "A kernel fits in the shared memory of a multiprocessor.",
            "The kernel needs 0x{used} bytes of 0x{limit}.",
            "A fusion is too large; use a newer XLA, or find the fusion of this name in the dump.",
            is_program=False,
        ),
    ),
    (
        (
            r"NCCL operation (?P<call>\w++)[^\n]{0,300}? failed: (?P<why>[^\n.;(]{1,200})(?:\([^)\n]{0,80}\))?"
            r"(?:[\s\S]{0,20}?Last NCCL warning\(error\) log entry \(may be unrelated\) "
            r"'(?P<entry>[^\n]{1,200}?)'\.?(?=\s|$))?"
        ),
        ErrorRule(
            "collective at run time",
            "The devices of a collective connect through NCCL when the program runs.",
            "{call} failed: {why}; its last warning: {entry}.",
            "This is not an error of the program. Set NCCL_DEBUG=INFO and look at the first warning of any process: "
            "usually the network, the driver, or another process that has failed.",
        ),
    ),
    (
        r"Semaphore (?P<semaphore>\([^)\n]{1,80}\)) has a nonzero value upon exit",
        ErrorRule(
            "semaphores of a kernel",
            "When a Mosaic kernel ends, all its semaphores are zero.",
            "The semaphore {semaphore} is not zero.",
            "Wait for every DMA that the kernel starts, and pair every signal with a wait.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:Core halted unexpectedly: INTERNAL: )?Accelerator device halted prematurely[\s\S]{0,200}?Node "
            r"(?P<node>\d++) halted unexpectedly at tag:pc "
            r"(?P<core>\w++:\d++)[\s\S]{0,80}?: (?P<why>[\s\S]{0,300}?)(?:\. )?HLO: (?P<name>[^;\s]{1,200}); HLO "
            r"computation: "
            r"(?P<computation>[^\s]{1,200})"
        ),
        ErrorRule(
            "halted device",
            "A TPU core stops if a check in the program fails, such as an access outside of memory.",
            "{core} of node {node} stopped in {name} of {computation} ({why}).",
            "Find the instruction that the message names in a dump, and look at kernels of your own first.",
        ),
    ),
    (
        (
            r"(?:Core halted unexpectedly|Accelerator device halted prematurely|RuntimeUnexpectedCoreHalt"
            r"|program continuator has halted unexpectedly)"
        ),
        ErrorRule(
            "halted device",
            "A TPU core stops if a check in the program fails, such as an access outside of memory.",
            "",
            "Find the instruction that the message names in a dump, and look at kernels of your own first.",
        ),
    ),
    (
        r"algorithm_idx_ >= 0",
        ErrorRule(
            "matmul algorithm",
            "Autotuning selects one of the algorithms that cuBLASLt offers.",
            "The number of the selected algorithm is not in the list.",
            "Delete stored autotuning results, or set --xla_gpu_autotune_level=0 to compare.",
            is_program=False,
        ),
    ),
    (
        r"Autotuning failed for HLO|All configs failed during profiling",
        ErrorRule(
            "autotuning",
            "Autotuning needs one configuration of a kernel that compiles and computes the right values.",
            "",
            "Set --xla_gpu_autotune_level=0 to compare, and dump the module to see the fusion.",
            is_program=False,
        ),
    ),
    (
        r"Can not propagate dim orders and requirements",
        ErrorRule(
            "Triton fusion",
            "In a Triton matmul fusion, the dimension orders of all instructions can be derived from the dot.",
            "",
            "Set --xla_gpu_enable_triton_gemm=false to avoid such fusions.",
            is_program=False,
        ),
    ),
    (
        (
            r"While rewriting computation to not contain X64 element types, XLA encountered an HLO for which this "
            rf"rewriting is not implemented: %?(?P<name>[\w.\-]++) = (?P<shape>{SHAPE}) (?P<opcode>[a-z][\w\-]*+)\("
            r"(?:[^\n]{0,2000}?custom_call_target=\"(?P<target>[^\"\n]{1,200})\")?"
        ),
        ErrorRule(
            "64-bit types",
            "TPUs have no 64-bit arithmetic: XLA rewrites f64, s64, and u64 into pairs of 32-bit values, which some "
            "opcodes and custom calls do not allow.",
            "{name}, a {opcode} {target}, gives {shape}.",
            "Cast its operands to 32 bits, leave jax_enable_x64 off, or compute it on the CPU.",
            is_program=True,
        ),
    ),
    (
        r"UNIMPLEMENTED: (?P<why>[^\n]{1,400})",
        ErrorRule(
            "unsupported operation",
            "Each backend implements a subset of HLO; earlier passes rewrite what it lacks where they can.",
            "{why}",
            "Use a newer release, or write the operation in another way, such as in another type or layout.",
        ),
    ),
    (
        (
            rf"(?:error: (?:loc\([^)\n]{{0,200}}\): |\"[^\"\n]{{0,300}}\": |{_MLIR_PLACE}: )"
            rf"|(?:loc\([^)\n]{{0,200}}\)|\"|{_MLIR_PLACE}): error: |error: (?='[a-z_]++\.[\w.]++' op ))"
            r"(?:'(?P<operation>[a-z_]++\.[\w.]++)' op )?+(?!was parsing|expects opcode|custom "
            r"call)(?P<why>[^\n]{3,400})"
        ),
        ErrorRule(
            "StableHLO or MLIR",
            "An operation of StableHLO or another MLIR dialect follows the rules of that dialect.",
            "{operation} {why}",
            "Correct the program that is lowered; HLO does not exist at this point.",
            is_program=True,
        ),
    ),
)
"""Patterns of messages and their rules, after those of the verifier."""


# --- the messages ---
# Reader of error messages of XLA and the compilers next to it: status, place, check, and the rule that is violated.
#
# Mirrors xla/status_macros.cc (RET_CHECK), absl/status, and the context and pass names that
# xla/hlo/pass/hlo_pass_pipeline.cc and xla/service/hlo_verifier.cc add.


_STATUS: Final = lazy_regex(
    r"\b(?:(INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND|UNKNOWN|ABORTED|UNAVAILABLE"
    r"|OUT_OF_RANGE|DEADLINE_EXCEEDED|CANCEL{1,2}ED|ALREADY_EXISTS|PERMISSION_DENIED|DATA_LOSS|RESOURCE_EXHAUSTED)"
    r"|(Internal|Invalid ?[Aa]rgument|Unimplemented|Failed ?[Pp]recondition|Not ?[Ff]ound|Unknown))(?= ?: )"
)
_CODE: Final = lazy_regex(r"\(code=([0-9]{1,2})\)")
_CODES: Final = {"2": "UNKNOWN", "3": "INVALID_ARGUMENT", "5": "NOT_FOUND", "9": "FAILED_PRECONDITION"} | {
    "11": "OUT_OF_RANGE", "12": "UNIMPLEMENTED", "13": "INTERNAL", "14": "UNAVAILABLE"
}  # fmt: skip
_CONTEXT: Final = lazy_regex(r"during context \[([^\]\n]{1,200}+)\]")
_NO_CONTEXT: Final = "Unknown"
"""What XLA prints in the place of a context that it does not have."""
_FAILED_AFTER: Final = lazy_regex(r"Failed after ([\w\-.]++)")
_RAISED: Final = lazy_regex(r"(?:RET_CHECK failure \(|\b)([\w./\-]{1,200}\.(?:cc|h|cu)):([0-9]++)(?:\)|\])")
_CHECK: Final = lazy_regex(r"(?:RET_CHECK failure \([^)\n]{1,300}\)|Check failed:) ([^\n]{1,600})")
_EXCEPTION: Final = lazy_regex(
    r"^[ \t]*+(?:E   )?+(?:\*\* \()?+[\w.]{0,120}?(?:Error|Exception|NotFound|(?<=\.)Exception)\b\)?+:? [^\n]{1,2000}",
    re.MULTILINE,
)
_FRAME: Final = lazy_regex(r"^[ \t]*+File \"([^\"\n]{1,400}+)\", line ([0-9]{1,7}+)", re.MULTILINE)
_LIBRARIES: Final = ("site-packages", "dist-packages", "<frozen", "/lib/python")
_MARK: Final = re.compile(
    r"INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND|UNKNOWN:|Check failed|RET_CHECK|rror\b"
    r"|Expected |must |disallowed|Unbounded|halted|Halted|No such"
)
_WINDOW: Final = 1 << 14  # a message of the verifier with its instruction and the stack below it
_LEAD: Final = 1 << 12  # the traceback and the log lines before the first mark
_MOST_ERRORS: Final = 10  # the first errors cause the rest; a log that repeats one has thousands
_MOST_TRIED: Final = 1000  # a log has thousands of lines with a word such as `heartbeat` that report no failure
_BEFORE: Final = 2000  # the context of a status, such as `Context: hlo verifier`, is written within some lines of it


def parse_compiler_errors(text: str) -> tuple[CompilerError, ...]:
    """The errors in a text, each distinct one once: those with a known rule first, or else the most telling line.

    >>> [found] = parse_compiler_errors("INVALID_ARGUMENT: Binary op with incompatible shapes: f32[2,3] and f32[3,2].")
    >>> found.status, found.rule.key, found.fields["left"]
    ('INVALID_ARGUMENT', 'operand shapes', 'f32[2,3]')
    >>> [found] = parse_compiler_errors("E] INTERNAL: RET_CHECK failure (xla/a/b.cc:7) x < 3 too many\\nStack:")
    >>> found.raised_at, found.condition
    ('xla/a/b.cc:7', 'x < 3 too many')
    """
    text = essential_text(text)
    breaks = [match.start() for match in re.finditer(r"\n", text)]
    errors = dict[tuple[str, tuple[str, ...]], CompilerError]()
    for rule, start, end, fields in list(_matches(text)) or _general(text):
        fields |= computed_fields(fields)
        error = _error(text, rule, start, end, fields, breaks)
        if check := fields.get("check"):
            fields |= _check_fields(check, error.raised_at, text[end : end + _BEFORE])
        fields["sentence"] = sentence_of(error.message)
        fields["comparison"] = comparison_of(fields.get("why", "") or fields["sentence"])
        place = (fields.get("row", ""), fields.get("column", ""))
        key = ("syntax", place) if any(place) else (rule.key, tuple(fields.values()))
        errors.setdefault(key, error)
    return tuple(errors.values()) or tuple(_unknown(text, breaks))


_FRAMES: Final = lazy_regex(
    r"^[ \t]*+@?[ \t]*+(?:0x[0-9a-f]{4,16}[ \t]++)?(?:\d{1,9}[ "
    "\t]++)?(?P<frame>(?:xla|mlir|llvm|jax|torch_xla|tsl|stream_executor|tensorflow)::[^\n]{1,300})",
    re.MULTILINE,
)
_NO_FRAMES: Final = ("log_internal", "LogMessage", "CurrentStackTrace", "tsl::errors", "tsl::Status")
_VISITED: Final = lazy_regex(r"::(?:Handle|Emit|Process)(?P<opcode>[A-Z][A-Za-z]{2,30})(?:Thunk)?\(")
_NO_PASS: Final = lazy_regex(
    r"emitter|partitioner|util|_instructions?$|^hlo_(?:computation|module)|^(?:shape|literal)|assignment|analysis"
    r"|thunk|compiler|client|executor|stream|allocator|rendezvous"
)
"""Parts of the names of XLA's files that are no passes."""


def _check_fields(check: str, raised_at: str, stack: str) -> dict[str, str]:
    """What a failed check found in words, the file and the first frame of the stack, and what to do about it."""
    file = raised_at.rpartition("/")[2].partition(":")[0]
    frames = [match["frame"].strip() for match in _FRAMES.finditer(stack)]
    frames = [each for each in frames if not any(part in each for part in _NO_FRAMES)]
    visited = (
        re.sub(r"(?<=[a-z])(?=[A-Z])", "-", match[1]).lower() for each in frames for match in _VISITED.finditer(each)
    )
    opcode = next(filter(is_known, visited), "")
    fix = []
    stem = file.rpartition(".")[0]
    if "torch_xla" in raised_at:
        fix.append(
            "Use torch_xla and torch of one release; XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1 give the line of the program."
        )
    elif stem and _is_of_xla(raised_at, frames) and not _NO_PASS.search(stem) and not file.endswith(".h"):
        fix.append(f"If {file} is a pass, XLA_FLAGS=--xla_disable_hlo_passes={stem.replace('_', '-')} leaves it out.")
    fix.append("Try a newer release, and the releases that belong together (jax, jaxlib, plugin).")
    if opcode:
        fix.append(
            f"It was handling {'an' if opcode[0] in 'aeiou' else 'a'} {opcode}: look for unusual ones in the dump."
        )
    return {
        "check_words": check_in_words(check),
        "file": file,
        "frame": frames[0].partition("(")[0] if frames else "",
        "check_fix": " ".join(fix),
    }


def _is_of_xla(raised_at: str, frames: list[str]) -> bool:
    """Whether a file is one of XLA's compiler, by its folder or the frames below it; a bare name may be any."""
    if "/" in raised_at:
        return "xla/" in raised_at and "xla/pjrt" not in raised_at and "torch_xla" not in raised_at
    return not frames or any(each.startswith("xla::") for each in frames)


def essential_text(text: str) -> str:
    """The text around its first and last message; of the rest of a long text, only the line breaks remain.

    >>> essential_text("a\\n" * 50_000 + "Check failed: x").strip()[-15:]
    'Check failed: x'
    """
    if len(text) <= 2 * _WINDOW:
        return text
    first = _MARK.search(text)
    start = max(0, (first.start() if first else 0) - _LEAD)
    last = _last_mark(text, start)
    end = min(len(text), start + _WINDOW)
    tail = max(end, last - _LEAD)
    parts = (_breaks(text[:start]), text[start:end], _breaks(text[end:tail]), text[tail : tail + _WINDOW])
    return "".join(parts)


def _last_mark(text: str, start: int) -> int:
    """The offset of the last mark, looked for in pieces from the end; `start` if there is none after it."""
    for index in range(len(text) - _WINDOW, start, -_WINDOW):
        starts = [match.start() for match in _MARK.finditer(text, index, index + _WINDOW)]
        if starts:
            return starts[-1]
    return start


def _breaks(text: str) -> str:
    return "\n" * text.count("\n")


def _found(rule: ErrorRule, match: re.Match[str]) -> FoundMessage:
    fields = {name: " ".join(value.split()) for name, value in match.groupdict(default="").items()}
    return rule, match.start(), match.end(), fields


def _matches(text: str) -> Iterator[FoundMessage]:
    """The messages with a rule, in the order of the text; of overlapping ones the first rule."""
    taken = list[re.Match[str]]()
    ordered = list[tuple[int, ErrorRule, re.Match[str]]]()
    for pattern, rule in _rules():
        for match in islice(pattern.finditer(text), _MOST_ERRORS):
            if not any(other.start() < match.end() and match.start() < other.end() for other in taken):
                taken.append(match)
                ordered.append((match.start(), rule, match))
    general = {"unsupported operation", "StableHLO or MLIR", "Mosaic kernel", "syntax", "halted device"}
    is_special = any(rule.key not in general for _, rule, _ in ordered)
    for _, rule, match in sorted(ordered, key=lambda entry: entry[0]):
        if not (is_special and rule.key in general):
            yield _found(rule, match)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], ErrorRule], ...]:
    return tuple(
        (re.compile(_spaced(pattern)), rule)
        for pattern, rule in (
            *CALL_RULES,  # some are special cases of those of tracing
            *NATIVE_RULES,
            *TRACING_RULES,
            *FRAMEWORK_RULES,
            *RUNTIME_RULES,  # before those of calls: an error of a device is quoted in that of a call
            *PYTHON_RULES,
            *LIBRARY_RULES,
            *VERIFIER_RULES,
            *SHAPE_RULES,
            *PROGRAM_RULES,
        )
    )


def _general(text: str) -> list[FoundMessage]:
    """The message by a cause, or else by its family; a cause that many messages have comes after their families."""
    causes = list(_causes(text))
    if causes and causes[0][0].key not in ("removed or deprecated name", "unsupported operation"):
        return causes
    return family_messages(text, _exceptions(text), has_cause=bool(causes)) or causes


def _causes(text: str) -> Iterator[FoundMessage]:
    """The first message of each cause, in the order of the causes: the most specific first."""
    seen = set[str]()
    harmless = {rule for _, rule in HARMLESS}
    for pattern, rule in _cause_patterns():
        is_certain = rule.is_certain or rule in harmless
        matches = islice(pattern.finditer(text), _MOST_TRIED)
        match = next(
            (each for each in matches if is_report(text, each.start(), each.end(), is_certain=is_certain)), None
        )
        if match is not None and rule.key not in seen:
            seen.add(rule.key)
            yield _found(rule, match)


@cache
def _cause_patterns() -> tuple[tuple[re.Pattern[str], ErrorRule], ...]:
    return tuple((re.compile(_spaced(pattern), re.MULTILINE), rule) for pattern, rule in CAUSES)


def _spaced(pattern: str) -> str:
    r"""The pattern with any white space in place of each space outside of brackets; a space with ? may be missing.

    >>> _spaced("a b ?[c d]")
    'a\\s++b\\s*+[c d]'
    """
    parts = re.split(r"(\[(?:\\.|[^\]\\])*+\])", pattern)
    return "".join(
        part if index % 2 else part.replace(" ?", r"\s*+").replace(" ", r"\s++") for index, part in enumerate(parts)
    )


def _exceptions(text: str) -> list[int]:
    """Where the lines of a text begin that are exceptions without a status, the last first."""
    return [match.start() for match in _EXCEPTION.finditer(text) if not _STATUS.search(match[0])][::-1]


def _unknown(text: str, breaks: list[int]) -> Iterator[CompilerError]:
    """The error without a rule: the last exception of a traceback, else the first line with a status or a check."""
    exceptions = list(_EXCEPTION.finditer(text))
    with_status = [match for match in exceptions if _STATUS.search(match[0])]
    chosen = with_status or exceptions
    match = chosen[-1] if chosen else _CHECK.search(text) or _STATUS.search(text)
    if match is not None:
        yield _error(text, None, match.start(), match.end(), {}, breaks)
    elif line := telling_line(text):
        start = text.index(line)
        yield _error(text, None, start, start + len(line), {}, breaks)
    elif end := len(text.rstrip()):
        yield _error(text, None, text.rfind("\n", 0, end) + 1, end, {}, breaks)


def _error(
    text: str, rule: ErrorRule | None, start: int, end: int, fields: dict[str, str], breaks: list[int]
) -> CompilerError:
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    if rule is None and text.endswith(":", 0, line_end):  # the next line has the message
        line_end = max(line_end, text.find("\n", line_end + 1))
    around = text[max(0, start - _BEFORE) : line_end]
    status = _last(_STATUS, around)
    checked = _CHECK.search(text, line_start, line_end)
    failed = _FAILED_AFTER.search(text, start, min(len(text), end + _BEFORE))
    context = _last(_CONTEXT, around)
    raised = _RAISED.search(text, line_start, line_end)
    return CompilerError(
        rule,
        " ".join(text[line_start:line_end].split()),
        fields,
        bisect(breaks, start) + 1,
        status=_code(status, around),
        context=context[1] if context and context[1] != _NO_CONTEXT else "",
        failed_after=failed[1].rstrip(".") if failed else "",
        raised_at=f"{raised[1].removeprefix('external/xla/')}:{raised[2]}" if raised else "",
        condition=_condition(" ".join(checked[1].split())) if checked else "",
        user_line=user_line(text),
    )


def _condition(text: str) -> str:
    """The check, without the sentence after it where brackets tell its end.

    >>> _condition("!(a != b) Reshape must not move"), _condition("a == b (1 vs. 2)")
    ('!(a != b)', 'a == b (1 vs. 2)')
    """
    start = text.find("(")
    if start not in (0, 1) or (start == 1 and text[0] != "!"):
        return text
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and not depth:
            return text[: index + 1] if text[index + 1 : index + 3].lstrip()[:1].isupper() else text
    return text


def _code(status: re.Match[str] | None, around: str) -> str:
    if status is not None:
        return status[1] or status[2].upper().replace(" ", "_").replace("INVALIDARGUMENT", "INVALID_ARGUMENT")
    code = _last(_CODE, around)
    return _CODES.get(code[1], "") if code else ""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def user_line(text: str) -> str:
    """The last line of a traceback that is not in a library."""
    frames = [match for match in _FRAME.finditer(text) if not any(part in match[1] for part in _LIBRARIES)]
    return f"{frames[-1][1]}:{frames[-1][2]}" if frames else ""
