"""What do errors mean that JAX, Pallas, PyTorch/XLA, and TensorFlow raise before or after HLO is compiled?

The rules are those of jax/_src (stages.py, xla_bridge.py, pallas/mosaic/lowering.py), torch_xla, tf2xla, and of the
services around a program; in the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_TYPE: Final = r"(?:ShapedArray\()?\w++\[[^\]\n]{0,200}\]"
_LONG: Final = r"[^~]{0,400}?"
"""What stands between two parts of a message; it has line breaks."""

FRAMEWORK_RULES: Final = (
    # --- calls of compiled functions ---
    (
        (
            rf"Argument '(?P<name>[^'\n]{{1,200}})' compiled with (?P<expected>{_TYPE}) and called with "
            rf"(?P<actual>{_TYPE})"
        ),
        ErrorRule(
            "argument of a compiled function",
            "What jit(f).lower(x).compile() returns takes only the types that it was lowered for.",
            "{name} is {actual}, compiled for {expected}.",
            "Pass an array of that type, or call jit(f) itself, which compiles once for each new type.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            rf"Function compiled with input pytree does not match the input pytree it was called with\.{_LONG}"
            r"\* at (?P<path>[^,\n]{1,200}), (?P<why>[^\n]{1,400})"
        ),
        ErrorRule(
            "structure of the arguments",
            "A compiled function takes arguments of the structure (pytree) that it was lowered for.",
            "{path}: {why}.",
            "Pass the same containers with the same keys, or call jit(f) itself, which compiles once for each "
            "structure.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            rf"(?P<loop>scan|while_loop|fori_loop) body function carry input and carry output must have equal "
            rf"types{_LONG}"
            rf"[Tt]he input carry (?P<name>[^\n]{{1,120}}?) has type (?P<expected>{_TYPE}) but the corresponding "
            "output "
            rf"carry component has type (?P<actual>{_TYPE})"
        ),
        ErrorRule(
            "carry of a loop",
            "The body of a loop returns its carry with the types that it gets: HLO has one type for both.",
            "{name} of {loop} is {expected}, the body returns {actual}.",
            "Cast it in the body, as in c.astype(x.dtype), or begin with the type that the body returns.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"dot_general requires contracting dimensions to have the same shape, got \((?P<left>[\d, "
            r"]{1,100}?),?\) and "
            r"\((?P<right>[\d, ]{1,100}?),?\)"
        ),
        ErrorRule(
            "dimensions of a dot",
            "A dot sums over one dimension of each operand, and both have the same size.",
            "The summed dimension has {left} elements in the left operand and {right} in the right one.",
            "Transpose one operand (x @ y.T), or name the dimensions with jnp.einsum. No HLO exists yet.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"Could not find memory addressable by device (?P<device>\w++)\. Device \w++ can address the "
            "following memory "
            r"kinds: (?P<kinds>[^.\n]{1,200})\. Got memory kind: (?P<kind>\w++)"
        ),
        ErrorRule(
            "memory kind",
            "A memory kind is one that the platform has.",
            "{kind} is not one of {device}, which has {kinds}.",
            "Name one of these in memory_kind: device is HBM or GPU memory, pinned_host the memory of the host.",
            is_program=True,
            is_about_hlo=False,
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
            is_about_hlo=False,
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
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"(?:Attempted boolean conversion of traced array with shape|Abstract tracer value encountered where "
            "concrete "
            r"value is expected: traced array with shape|The [\w.]{1,60}\(\) method was called on traced array "
            "with shape) "
            rf"(?P<shape>{_TYPE})(?:{_LONG}while tracing the function (?P<function>\S++) at (?P<place>\S++))?"
            rf"(?:{_LONG}depends on the values? of the arguments? (?P<argument>[\w.\[\]', ]{{1,200}}?)\.(?=\s|$))?"
        ),
        ErrorRule(
            "value of a traced array",
            "While jit traces a function, its arrays have shapes and types but no values. No HLO exists yet.",
            "{function} ({place}) uses the value of {shape}, which depends on {argument}.",
            "Use jnp.where or jax.lax.cond for a choice, jax.lax.while_loop for a loop, or name the argument in "
            "static_argnums if it is a Python value that rarely changes.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"compiling computation that requires (?P<needed>\d++) logical devices, but only (?P<given>\d++) XLA "
            "devices "
            r"are available"
        ),
        ErrorRule(
            "number of devices",
            "pmap runs one part of the mapped axis on each device of a process.",
            "The mapped axis needs {needed} devices, and {given} are available.",
            "Reshape the axis to (devices, rest) and vmap over the rest, or use jit with a NamedSharding, which "
            "divides it.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    # --- kernels ---
    (
        (
            r"last two dimensions of your block shape are divisible by 8 and 128 respectively, or be equal to the "
            rf"respective dimensions of the overall array\.{_LONG}Block spec for (?P<name>\S++) in pallas_call "
            r"(?P<kernel>\S++)(?: at (?P<place>\S++))? has block shape (?P<block>\([^)\n]{1,400}\)), array shape "
            r"(?P<array>\([^)\n]{1,400}\))"
        ),
        ErrorRule(
            "block of a Pallas kernel",
            "The last two dimensions of a block are multiples of 8 and 128, or those of the whole array.",
            "{kernel} has blocks {block} of {name}, which is {array}.",
            "Round the last dimension of the block up to a multiple of 128 and the one before to a multiple of "
            "8, or take "
            "the whole dimension.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        r"exceeds available shared memory: smem_bytes=(?P<used>\d++) > (?:max_smem_bytes=)?(?P<limit>\d++)",
        ErrorRule(
            "size of a Pallas kernel",
            "A kernel fits in the shared memory of a multiprocessor.",
            "The kernel needs {used} bytes of {limit}.",
            "Use smaller blocks or fewer pipeline stages (max_concurrent_steps).",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    # --- TensorFlow and PyTorch/XLA ---
    (
        (
            r"Detected unsupported operations when trying to compile graph (?P<graph>\w++)(?:\[[^\]\n]{0,400}\])?+ on "
            rf"(?P<device>XLA_\w++): (?P<op>\w++) \((?:{_LONG}OpKernel was found, but attributes didn't match\) "
            r"Requested Attributes: [^\n]{0,400}?\bT(?:out)?=DT_(?P<type>\w++))?"
        ),
        ErrorRule(
            "operation without an XLA kernel",
            "TensorFlow compiles a function with jit_compile=True only if every operation has a kernel for XLA. No HLO "
            "exists yet, so a dump does not help.",
            "{op} {type} has none on {device}.",
            "Take {op} out of the compiled function, or replace it. Operations on strings, and those whose result size "
            "depends on data (tf.unique, tf.boolean_mask), have no such kernel.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"The operator (?P<op>[\w:.]{1,200}) is not currently supported on the XLA backend and will fall back to "
            "run on the CPU"
        ),
        ErrorRule(
            "operation without a lowering",
            "PyTorch/XLA runs an operation that it cannot lower on the CPU: it ends the graph, copies the "
            "arguments to the "
            "host, and the result back.",
            "{op} runs on the CPU.",
            "Replace {op} with operations of fixed result sizes, or move it out of the training step. "
            "torch_xla.debug.metrics.metrics_report() counts such operations.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    # --- devices, drivers, and other processes ---
    (
        r"The TPU is already in use by (?:another )?process with pid (?P<pid>\d++)",
        ErrorRule(
            "device in use",
            "One process at a time can use the TPU chips of a host.",
            "Process {pid} has the TPU.",
            "End process {pid}, or set JAX_PLATFORMS=cpu in this one; a notebook kernel keeps the TPU until it is "
            "restarted.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"An? (?P<maker>NVIDIA|Google|AMD) (?P<device>GPU|TPU) may be present on this machine, but (?:a |either a )"
            r"(?P<needed>[^~]{1,120}?) is not installed\. Falling back to (?P<platform>\w++)"
        ),
        ErrorRule(
            "platform",
            "JAX uses the platforms whose plugins are installed.",
            "No plugin for the {device} is installed, so programs run on {platform}.",
            "Install jax[cuda12] for NVIDIA GPUs or jax[tpu] for TPUs, of the same version as jax.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"NVIDIA driver's CUDA version is (?P<driver>[\d.]++) which is older than the (?:PTX compiler|ptxas "
            "CUDA) version "
            r"\(?(?P<compiler>\d++\.\d++(?:\.\d++)?)"
        ),
        ErrorRule(
            "driver",
            "The driver translates PTX only up to its own CUDA version.",
            "The driver has CUDA {driver}, the compiler of PTX {compiler}: XLA does not compile in parallel, so "
            "compiling "
            "takes longer.",
            "Update the driver, or install NVIDIA's CUDA forward compatibility package. Results do not change.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"Difference at (?P<index>\d++): (?P<found>[-+\w.]{1,40}), expected (?P<expected>[-+\w.]{1,40})"
            rf"(?:{_LONG}Results do not match the reference)?"
        ),
        ErrorRule(
            "autotuning comparison",
            "Autotuning compares each configuration of a kernel with a reference, and drops those that differ.",
            "Element {index} is {found}, the reference has {expected}.",
            "One configuration is dropped, the program stays right. If all are, or results look wrong, dump the "
            "module and "
            "compare with --xla_gpu_autotune_level=0.",
        ),
    ),
    (
        r"following tasks are unhealthy \(stopped sending heartbeats\):(?P<tasks>(?: /job:\S++){1,64})",
        ErrorRule(
            "dead process",
            "All processes of a job send heartbeats; if one stops, the others end too.",
            "No heartbeat from {tasks}.",
            "The cause is in the log of that process: an exception, the out-of-memory killer, or preemption. "
            "This log shows "
            "only what followed.",
            is_about_hlo=False,
        ),
    ),
    (
        r"Megascale detects a hang that is likely caused by (?P<why>[^\n.]{1,300})",
        ErrorRule(
            "hang between slices",
            "All slices run the same programs in the same order.",
            "{why}.",
            "Set XLA_FLAGS=--xla_dump_to=DIR on each host and run `hlo diff HOST0/ HOST1/ …`: it names the host whose "
            "program differs.",
            is_about_hlo=False,
        ),
    ),
)
"""Patterns of messages and their rules, before those of XLA."""
