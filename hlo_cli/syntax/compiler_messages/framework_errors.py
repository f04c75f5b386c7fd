"""What do errors mean that JAX, Pallas, PyTorch/XLA, and TensorFlow raise before or after HLO is compiled?

The rules are those of jax/_src (stages.py, xla_bridge.py, pallas/mosaic/lowering.py), torch_xla, tf2xla, and of the
services around a program; in the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_TYPE: Final = r"(?:ShapedArray\()?\w++\[[^\]\n]{0,200}\]"
_LONG: Final = r"[\s\S]{0,400}?"
"""What stands between two parts of a message; it has line breaks."""

FRAMEWORK_RULES: Final = (
    # --- calls of compiled functions ---
    (
        (
            rf"Argument '(?P<name>[^\n]{{1,200}}?)' compiled with (?P<expected>{_TYPE}) and called with "
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
            r"Axes mentioned in `?manual_axis_type`? field of ShapedArray should be of type `?Manual`?\. Got "
            r"[^\n]{0,400}? "
            r"with axis: (?P<axis>\w{1,60}) of type (?:AxisType\.)?(?P<kind>\w{1,20})"
        ),
        ErrorRule(  # a sharding of the mesh outside of shard_map meets an array inside of it
            "axes of a mesh",
            "Inside of shard_map, the axes that it maps are Manual, also in the shardings that are used there.",
            "axis {axis} is mapped by shard_map, and {kind} in the mesh of the sharding.",
            "Pass the PartitionSpec alone, without the mapped axes, or use jax.sharding.get_abstract_mesh() for "
            "the mesh; "
            "along mapped axes, each device has its own part already.",
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
        (
            r"can only refer to Auto axes of the mesh(?:\. Got spec=(?P<spec>P(?:artitionSpec)?\([^\n]{0,200}?\)) and "
            r"mesh=\w{0,12}Mesh\((?P<mesh_axes>[^\n]{1,400}?), axis_types=\((?P<axis_types>[\w, .]{1,400})\))?"
        ),
        ErrorRule(
            "axes of a mesh",
            "A sharding constraint names axes of the type Auto; shardings along Explicit axes are part of the type.",
            "[[{spec} names {explicit}|the spec names an axis that is not Auto]].",
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
            "Dimension {dimension} is divided into {parts} parts, but its size[[ {size}]] is not a multiple of that.",
            "Pad the array, or divide another dimension.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"(?:Attempted boolean conversion of traced array with shape|Abstract tracer value encountered where "
            "concrete "
            r"value is expected: traced array with shape|The (?:[\w.]{1,60} conversion method )?[\w.]{1,60}\(\) "
            r"(?:method )?was called on traced array "
            "with shape) "
            rf"(?P<shape>{_TYPE})(?:{_LONG}while tracing the function (?P<function>\S++) at (?P<place>\S++))?"
            rf"(?:{_LONG}depends on the values? of the arguments? (?P<argument>[\w.\[\]', ]{{1,200}}?)\.(?=\s|$))?"
        ),
        ErrorRule(
            "value of a traced array",
            "While jit traces a function, its arrays have shapes and types but no values. No HLO exists yet.",
            "[[{function} ({place})|The program]] uses the value of {shape}[[, which depends on {argument}]].",
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
            r"(?P<kernel>\S++)(?: at (?P<place>\S++))? has block shape "
            r"(?P<block>\((?:[^()\n]|\([^()\n]{1,100}\)){1,400}\)), array shape "
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
        r"exceeds available shared memory: smem_bytes=(?P<used>\d{1,18}+) > (?:max_smem_bytes=)?(?P<limit>\d{1,18}+)",
        ErrorRule(
            "size of a Pallas kernel",
            "A kernel fits in the shared memory of a multiprocessor.",
            "The kernel needs {used} bytes of {limit}.",
            "Use smaller blocks or fewer pipeline stages (max_concurrent_steps).",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"dot_general requires (?:equal|the same) batch dimension(?:s| sizes)?[^\n]{0,60}?got "
            r"(?P<left>\([\d, ]{1,100}\)) and (?P<right>\([\d, ]{1,100}\))(?: with batch dimensions "
            r"(?P<left_batch>[\d(), ]{1,20}?) and (?P<right_batch>[\d(), ]{1,20}?)(?=\.|\s|$))?"
        ),
        ErrorRule(
            "batch dimensions of a dot",
            "A dot pairs the batch dimensions of its operands, and both of a pair have the same size.",
            "the operands are {left} and {right}[[, batch dimensions {left_batch} and {right_batch}]].",
            "Pass arrays with equal batch sizes, or name the dimensions with jnp.einsum. No HLO exists yet.",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
    # --- TensorFlow and PyTorch/XLA ---
    (
        (
            r"Detected at node '?(?P<op>[\w./\-]{1,200})'? defined at \(most recent call last\):[\s\S]{0,8000}?"
            r"\nNode: '[^'\n]{1,200}'\s{1,8}(?P<why>[^\n]{1,400})"
        ),
        ErrorRule(
            "operation of TensorFlow",
            "A node of the graph failed; the lines between are where the model made it.",
            "{op}: {why}[[ ({comparison})]].",
            "Look at the shapes and types of its inputs, such as by model.summary() or tf.print(tf.shape(x)).",
            is_program=True,
            is_about_hlo=False,
        ),
    ),
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
            "{op}[[ {type}]] has none on {device}.",
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
            r"(?P<needed>[\s\S]{1,120}?) is not installed\. Falling back to (?P<platform>\w++)"
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
    (
        (
            r"Barrier timed out\. Id: (?P<barrier>[^\s]{1,200}?)\.?\s[\s\S]{0,400}?"
            r"# of tasks that reached the barrier: (?P<reached>\d++)/(?P<all>\d++)\."
            r"(?: The first task at the barrier: (?P<first>[^\s]{1,200}?)\.?(?=\s))?"
            r"(?: Some timed out task names:\s*(?P<tasks>(?:\s*/job:\S++){1,64}))?"
        ),
        ErrorRule(
            "barrier",
            "All processes of a job reach a barrier, or it times out.",
            "{reached} of {all} tasks reached {barrier}[[; missing are {missing}]].",
            "Look in the logs of the missing tasks: one that failed, is slow, or took another branch never comes. "
            "`hlo diff HOST0/ HOST1/ …` names a host whose program differs.",
            is_about_hlo=False,
        ),
    ),
    (
        r"An unexpected peer shows up in the launch group with a different launch id than the current group leader",
        ErrorRule(
            "launch group",
            "The cores of a slice start the same program at the same time.",
            "One core started another program than the others.",
            "Set XLA_FLAGS=--xla_dump_to=DIR on every host and run `hlo diff HOST0/ HOST1/ …`: it names the host, the "
            "module, and the instruction that differ. If none does, a host ran another number of steps.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"ptxas[^\n]{0,200}? fatal : (?:Unsupported (?P<unknown>\.version [\d.]++); current version is "
            r"'(?P<found>[\d.]{1,10})'|Value '(?P<target>sm_\w{1,8})' is not defined for option 'gpu-name')"
        ),
        ErrorRule(
            "version of ptxas",
            "ptxas of the CUDA toolkit translates PTX of its own version and older ones, for the GPUs that it knows.",
            "This ptxas does not know {unknown}{target}[[; its version of PTX is {found}]].",
            "Put the ptxas of a newer CUDA first in PATH, or install the nvidia-cuda-nvcc wheel of jax[cuda12]. XLA "
            "may "
            "use the driver's compiler instead, which is right but slower.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"(?:Unable to initialize backend '(?P<backend>\w++)': [^\n]{0,60}?)?Mismatched PJRT plugin PJRT API "
            r"version "
            r"\((?P<plugin>[\d.]{1,12})\) and framework PJRT API version \(?(?P<framework>\d{1,4}\.\d{1,4})"
        ),
        ErrorRule(
            "version of a plugin",
            "A PJRT plugin and jaxlib have the same version of the PJRT interface, or near ones.",
            "The plugin[[ {backend}]] has {plugin}, jaxlib has {framework}.",
            "Install the plugin of the version of jax (jax[cuda12], jax[tpu]), or the older jax that the plugin names.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"Unable to initialize backend '(?P<backend>\w++)': (?:[A-Z_]{4,30}: "
            r")?+(?P<why>[^\n]{1,300}?)\.?(?=\s*(?:\((?:set|you may) |\n|$))"
        ),
        ErrorRule(
            "platform",
            "JAX starts each platform whose plugin is installed, or those of JAX_PLATFORMS.",
            "{backend} did not start: {why}.",
            "Check that the device is visible (nvidia-smi, tpu-info, CUDA_VISIBLE_DEVICES) and that the driver runs; "
            "JAX_PLATFORMS=cpu leaves the platform out.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"NET/IB\s*:? Got completion from peer (?P<peer>[^\s<]{1,80})(?:<\d++>)? with (?:status|error)[= ]"
            r"(?:\w{0,40}\()?(?P<status>\d++)[^\n]{0,300}?(?:hca (?P<card>\w++)|$)"
        ),
        ErrorRule(
            "network of a collective",
            "NCCL sends between hosts by InfiniBand or RoCE; status 12 is that retries were exhausted, 4 and 10 are "
            "refused accesses of memory.",
            "The transfer with {peer}[[ by {card}]] ended with status {status}.",
            "This is not an error of the program. Look at the log of that peer first, as a process that ended looks "
            "the "
            "same; then at the cable, the switch, NCCL_IB_HCA, and NCCL_IB_GID_INDEX.",
            is_about_hlo=False,
        ),
    ),
    (
        (
            r"(?:\[(?P<module>[\w.\-]{1,200})\] )?LatencyHidingScheduler current memory usage: "
            r"(?P<used_bytes>\d{1,18}+) bytes"
            r"(?:, does not fit in (?:initial )?limit: (?P<limit_bytes>\d{1,18}+))?"
            r"(?:\. Setting the new limit to (?P<next_bytes>\d{1,18}+))?"
        ),
        ErrorRule(
            "memory of a schedule",
            "The scheduler overlaps collectives with compute, which keeps more arrays live; if that does not fit, it "
            "schedules again with a limit that is 10% lower.",
            "[[{module}|The schedule]] needs {used_bytes}[[, the limit is {limit_bytes}]].",
            "Compile time grows with each trial. `hlo memspace DUMP` shows the peak, `hlo schedule DUMP --reorder "
            "memory` "
            "an order that needs less.",
            is_program=True,
        ),
    ),
    (
        (
            r"byte size of input/output arguments \((?P<used_bytes>\d{1,18}+)\) exceeds the base limit "
            r"\((?P<limit_bytes>\d{1,18}+)\)"
        ),
        ErrorRule(
            "memory for arguments",
            "Arguments and results fit in the memory of the device, as they exist during the whole program.",
            "Arguments and results need {used_bytes}, device memory has {limit_bytes}.",
            "Shard the arguments, or pass fewer at once.",
            is_program=True,
        ),
    ),
    (
        (
            r"Allocator \((?P<allocator>\w++)\) ran out of memory trying to allocate (?P<size>[\d.]++[KMGT]?i?B)"
            r"[\s\S]{0,120}?The caller indicates that this is not a failure"
        ),
        ErrorRule(
            "allocation that was refused",
            "Autotuning and the libraries of the GPU try a smaller workspace when the memory for a large one is "
            "missing.",
            "{allocator} had no {size} for a workspace; it is not a failure.",
            "Kernels may be slower than with more memory: free some, or use a smaller batch.",
            is_about_hlo=False,
        ),
    ),
    (
        r"Duplicate GPU detected : rank (?P<one>\d++) and rank (?P<other>\d++) both on CUDA device (?P<device>\w++)",
        ErrorRule(
            "devices of a collective",
            "Each rank of an NCCL communicator has a GPU of its own.",
            "Ranks {one} and {other} are both on the GPU at bus {device}.",
            "Set CUDA_VISIBLE_DEVICES or the local device ids by rank, such as torch.cuda.set_device(local_rank).",
            is_about_hlo=False,
        ),
    ),
    (
        r"Delay kernel timed out: measured time has sub-optimal accuracy",
        ErrorRule(
            "autotuning time",
            "Autotuning measures each candidate of a kernel between two events, after a kernel that delays the stream.",
            "One measurement also has the time of its launch.",
            "It is harmless for results; autotuning may choose a slower candidate. A busy host or GPU is the usual "
            "cause.",
            is_about_hlo=False,
        ),
    ),
    (
        r"Results do not match the reference\. This is likely a bug/unexpected loss of precision",
        ErrorRule(
            "autotuning comparison",
            "Autotuning compares each candidate of a kernel with a reference, and drops those that differ.",
            "A candidate differs from the reference, and is dropped.",
            "The program stays right. With low-precision dots, raise the precision of the dot, or "
            "--xla_gpu_autotune_gemm_rtol; to compare, set --xla_gpu_autotune_level=0.",
        ),
    ),
    (
        (
            r"Memory access fault by (?P<device>GPU node-\d++)[^\n]{0,80}? on address (?P<address>0x[0-9a-f]{1,16})\. "
            r"Reason: (?P<why>[^\n.]{1,120})"
        ),
        ErrorRule(
            "memory access of a kernel",
            "A kernel reads and writes within its buffers.",
            "A kernel on {device} accessed {address}: {why}.",
            "Set AMD_SERIALIZE_KERNEL=3 to find the kernel, and look at kernels of your own and at gathers first.",
        ),
    ),
    (
        (
            r"Failed to create cuFFT batched plan with scratch allocator(?:\s*rank: (?P<rank>\d++))?(?:, batch: "
            r"(?P<batch>\d++))?"
            r"(?:, elem_count: (?P<sizes_of_fft>[\dx]{1,80}))?"
        ),
        ErrorRule(
            "FFT on the GPU",
            "An FFT needs memory of its own for its plan, besides the memory of the program.",
            "No plan[[ for {sizes_of_fft} elements]][[, batch {batch}]].",
            "Usually memory is full: set XLA_PYTHON_CLIENT_MEM_FRACTION below 0.75, or transform fewer at once.",
            is_program=True,
        ),
    ),
)
"""Patterns of messages and their rules, before those of XLA."""
