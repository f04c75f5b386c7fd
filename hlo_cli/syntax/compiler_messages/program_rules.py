"""The messages of XLA's parser, of StableHLO, of kernel compilers, and of the runtime, and what they mean."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.syntax.compiler_messages.verifier_rules import SHAPE

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
        r"NCCL operation (?P<call>\w++)[^\n]{0,300}? failed: (?P<why>[^\n.;]{1,200})",
        ErrorRule(
            "collective at run time",
            "The devices of a collective connect through NCCL when the program runs.",
            "{call} failed: {why}.",
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
        r"(?:Core halted unexpectedly|Accelerator device halted prematurely|RuntimeUnexpectedCoreHalt)",
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
            r"array (?:axis|dimension) (?P<dimension>\d++) (?:is )?partitioned (?P<parts>\d++) "
            r"times(?:, but the dimension size is (?P<size>\d++))?+"
        ),
        ErrorRule(
            "sharding of an argument",
            "JAX divides each dimension of an argument into equal parts.",
            "Dimension {dimension} is divided into {parts} parts, but its size {size} is not a multiple of that.",
            "Pad the array, or divide another dimension.",
            is_program=True,
        ),
    ),
    (
        r"can only refer to Auto axes of the mesh",
        ErrorRule(
            "axes of a mesh",
            "A sharding constraint names axes of the type Auto; shardings along Explicit axes are part of the type.",
            "",
            "Use jax.sharding.reshard for Explicit axes, or create the mesh with AxisType.Auto. No HLO is involved.",
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
            r"(?:error: (?:loc\([^)\n]{0,200}\): |\"[^\"\n]{0,300}\": |[\w./\-]{1,200}:\d++:\d++: )"
            r"|(?:loc\([^)\n]{0,200}\)|\"|[\w./\-]{1,200}:\d++:\d++): error: |error: (?='[a-z_]++\.[\w.]++' op ))"
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
