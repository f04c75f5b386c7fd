"""What do errors mean of devices, drivers, code generators, and the network below a program, when it starts or runs?

The messages are those of PJRT plugins and libtpu, of xla/backends/gpu, ptxas, LLVM, and Triton, of Gloo and Megascale,
and of the coordination service (xla/tsl/distributed_runtime); in the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule


def _rule(key: str, rule: str, violated: str, fix: str, *, is_about_hlo: bool = False) -> ErrorRule:
    """A rule of the system below a program."""
    return ErrorRule(key, rule, violated, fix, is_about_hlo=is_about_hlo)


_ONE_PROCESS: Final = "One process at a time can use the TPU chips of a host."
_FREE_TPU: Final = (
    "Find it with `sudo lsof -w /dev/accel* /dev/vfio/*` and end it; a notebook kernel keeps the TPU until it is "
    "restarted."
)
_OTHER_LOGS: Final = "The cause is in the log of that process: an exception, the out-of-memory killer, or preemption."
_FIRST_ERROR: Final = "This log shows only what followed: the first error of any process is the cause."
_DIES: Final = "The processes of a job watch each other; if one ends, the others end too."
_SAME_VERSION: Final = (
    "Install the same version of jax, jaxlib, and the plugins, such as by pip install -U 'jax[cuda12]'."
)
_NETWORK: Final = (
    "Look in the log of that host first, as a process that ended looks the same; then at the network and the firewall."
)

RUNTIME_RULES: Final = (
    # the first match at a place counts, so causes come before what follows from them
    # --- devices and drivers ---
    (
        (
            r"open\((?P<device>/dev/(?:vfio/|accel)\w{1,8})\): (?P<why>Device or resource busy|Permission denied|No "
            r"such file or directory)"
        ),
        _rule("device in use", _ONE_PROCESS, "{device} cannot be opened: {why}.", _FREE_TPU),
    ),
    (
        r"(?:Aborted|ABORTED|Not found|NOT_FOUND): Session (?P<session>[0-9a-f]{6,32}) is not found",
        _rule(  # tensorflow/core/distributed_runtime/master.cc; PyTorch/XLA ran on it up to 2.0 (XRT)
            "session of a TPU server",
            "The older runtime of PyTorch/XLA (XRT) and TensorFlow run programs in a session of a server on the host.",
            "the server no longer knows session {session}.",
            "The server was restarted or preempted, or ran out of host memory: look in its log and in the kernel's "
            "(dmesg) for the process that ended first. PJRT_DEVICE=TPU uses the runtime without a server.",
        ),
    ),
    (
        (
            r"libtpu(?:\.so)? (?:is )?already in use by another process(?: probably owned by another "
            r"user)?|(?:accessing|acquire) libtpu multi-process lockfile"
        ),
        _rule(
            "device in use",
            _ONE_PROCESS,
            "Another process has the TPU, or one that ended left /tmp/libtpu_lockfile.",
            f"{_FREE_TPU} Without such a process, remove /tmp/libtpu_lockfile.",
        ),
    ),
    (
        (
            r"(?:FAILED_PRECONDITION: |INTERNAL: )?(?P<why>No visible (?:GPU|TPU|CUDA) devices|no supported devices "
            r"found for platform \w++|CUDA_ERROR_NO_DEVICE[^\n]{0,80}?)(?=\.|\n|$)"
        ),
        _rule(
            "visible devices",
            "A platform starts if its driver shows at least one device to the process.",
            "{why}.",
            (
                "Look at nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, run with --gpus all; on a cluster, "
                "ask for GPUs."
            ),
        ),
    ),
    (
        r"Unable to load (?P<library>cu\w{2,12}|CUDA|nvrtc)\. Is it installed\?",
        _rule(
            "CUDA libraries",
            "The CUDA plugin loads the libraries of NVIDIA's wheels, or those on LD_LIBRARY_PATH.",
            "{library} cannot be loaded.",
            (
                "Install jax[cuda12] (or jax[cuda12-local] with a CUDA of your own), and unset LD_LIBRARY_PATH: it "
                "may name other versions."
            ),
        ),
    ),
    (
        r"DNN library initialization failed",
        _rule(
            # the status has no cause: it is in the lines above
            "start of cuDNN",
            "cuDNN gets memory of its own when it starts.",
            "cuDNN did not start.",
            "The lines above have the cause: usually memory that is full (set "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.7, or look in "
            "nvidia-smi for another process), or a cuDNN older than the one XLA was compiled with.",
        ),
    ),
    (
        (
            r"Failed to determine best cudnn convolution algorithm for:|All algorithms tried for convolution|No "
            r"valid (?:engine|config) (?:configs? )?found for convolution"
        ),
        _rule(
            "convolution algorithm",
            "Autotuning runs each algorithm of cuDNN for a convolution, and needs one that works.",
            "No algorithm of cuDNN ran.",
            (
                "Usually memory for their workspace is missing: set XLA_PYTHON_CLIENT_MEM_FRACTION below 0.75. Else "
                "compare with "
                "--xla_gpu_strict_conv_algorithm_picker=false or --xla_gpu_autotune_level=0, and check the version "
                "of cuDNN."
            ),
            is_about_hlo=True,
        ),
    ),
    # --- code generators ---
    (
        (
            r"(?:libdevice not found at (?P<path>\S{1,200}?)|Can't find libdevice directory "
            r"(?P<folder>\S{1,200}?))\.?(?=\s|$)"
        ),
        _rule(
            "mathematical functions on the GPU",
            "XLA links mathematical functions from libdevice.10.bc, a file of the CUDA toolkit.",
            "libdevice is not at {path}{folder}.",
            (
                "Set XLA_FLAGS=--xla_gpu_cuda_data_dir=DIR, the folder that has nvvm/libdevice, or install "
                "nvidia-cuda-nvcc."
            ),
        ),
    ),
    (
        r"Couldn't find a suitable version of ptxas(?:\. Supported versions are (?P<versions>[\d.]{1,10}\d))?",
        _rule(
            "translation of PTX",
            "XLA translates PTX by ptxas of the CUDA toolkit, or by the driver.",
            "No usable ptxas was found[[; it needs {versions} or above]].",
            "Install the nvidia-cuda-nvcc wheel of jax[cuda12], or put the ptxas of a newer CUDA first in PATH.",
        ),
    ),
    (
        (
            r"ptxas error\s*: (?![^\n]{0,300}uses too much shared data)"
            r"(?P<why>Entry function '(?P<kernel>[\w.$]{1,200})'[^\n]{0,300}"
            r"|[^\n]{1,300})"
        ),
        _rule(
            "code of a kernel",
            "ptxas translates PTX into the code of a GPU, and refuses what does not fit it.",
            "{why}",
            "Find the kernel in a dump (its name is that of an instruction with _ for each dot). "
            "--xla_gpu_enable_triton_gemm=false avoids kernels of Triton.",
            is_about_hlo=True,
        ),
    ),
    (
        r"LLVM ERROR: (?P<why>[^\n]{1,300})",
        _rule(
            "code generation",
            "LLVM translates the code of XLA and Triton; an error there ends the process.",
            "{why}",
            "This is a bug of the compiler, or an instruction that the device lacks: use a newer release, or "
            "avoid the kernel, "
            "such as by --xla_gpu_enable_triton_gemm=false.",
            is_about_hlo=True,
        ),
    ),
    (
        (
            r"CompilationError: at (?P<line>\d{1,6}+):(?P<column>\d{1,6}+):"
            r"(?:(?!\nAssertionError|\n\w{1,40}Error)[\s\S]){0,4000}?"
            r"\n(?P<why>(?:AssertionError|\w{1,40}Error)\(?[^\n]{1,400})"
        ),
        _rule(
            "Triton kernel",
            "Triton compiles a kernel of its own language; the place is within the kernel.",
            "Line {line}, column {column}: {why}",
            "Correct the kernel or its block sizes; no HLO is involved.",
        ),
    ),
    # --- StableHLO ---
    (
        (
            r"error: '(?P<operation>\w{1,20}\.[\w.]{1,60})' op inferred type\(s\) '(?P<inferred>[^\n]{1,300}?)' "
            r"are incompatible "
            r"with return type\(s\) of operation '(?P<given>[^\n]{1,300}?)'(?=\s|$)"
        ),
        _rule(
            "result of a StableHLO operation",
            "The result of an operation has the type that follows from its operands and attributes.",
            "{operation} gives {inferred}, the text has {given}.",
            "Correct the result type, or the attributes that it follows from; HLO does not exist at this point.",
        ),
    ),
    # --- the network and other processes ---
    (
        (
            r"Gloo (?P<operation>[\w\-]{1,30})(?: \w{1,20})? failed: (?:\[[^\]\n]{1,200}\] )?(?P<why>Connection "
            r"closed by peer|Read "
            r"timeout|Write timeout|Connection reset by peer|Timed out waiting (?P<limit>\d{1,12}+)ms for "
            r"(?P<direction>\w++) "
            r"operation to complete|[^\n\[]{1,200})(?: (?P<peer>\[[^\]\n]{1,60}\](?::\d{2,5})?))?"
        ),
        _rule(
            # Gloo names the peer of its socket, not its rank
            "collective between CPUs",
            "Gloo runs the collectives between processes on CPUs, over TCP.",
            "{operation}: {why}[[ ({peer})]].",
            _NETWORK,
        ),
    ),
    (
        (
            r"(?:(?:tasks have crashed\. Use the task logs to debug[^:\n]{0,40}: "
            r")?+(?P<tasks>(?:/job:\S{1,80}/task:\d{1,6}[, ]{0,2}){1,64}) (?:heartbeat timeout|has (?:been "
            r"preempted|disconnected|failed))"
            r"|tasks have crashed\. Use the task logs to debug(?: the crash)?:?)"
        ),
        _rule("dead process", _DIES, "[[{missing} ended|a process ended]].", f"{_OTHER_LOGS} {_FIRST_ERROR}"),
    ),
    (
        (
            r"JAX distributed service detected fatal errors[\s\S]{0,400}?absl::Status: (?P<status>[A-Z_]{4,30}): "
            r"(?P<why>[^\n]{1,200})(?:[\s\S]{0,200}?RPC: \S{0,80}/(?P<call>\w{1,60}))?"
        ),
        _rule(
            "job with several processes",
            _DIES,
            "This process ended: {status}, {why}[[, in the call {call}]].",
            "RegisterTask or a deadline at the start means that not all processes came: check num_processes, the "
            "address "
            f"of the coordinator, and process ids. {_FIRST_ERROR}",
        ),
    ),
    (
        (
            r"[Mm]ega[Ss]cale:? (?P<why>[^\n]{0,200}?(?:[Tt]imed "
            r"out|timeout|[Dd]eadline|failed|[Ee]rror|unreachable)[^\n]{0,200}?)\.?(?=\n|$)"
        ),
        _rule(
            "network between slices",
            "All slices run the same programs in the same order, and send to each other over the hosts' network.",
            "{why}.",
            f"{_NETWORK} If every host runs, set XLA_FLAGS=--xla_dump_to=DIR and run `hlo diff HOST0/ HOST1/ …`.",
        ),
    ),
    # --- versions ---
    (
        (
            r"jaxlib version (?P<lib>\d[\w.]{0,30}) is newer than and incompatible with jax version "
            r"(?P<jax>\d[\w.]{0,30}?)"
            r"(?=\.?(?:\s|$))"
        ),
        _rule(
            "version of jaxlib",
            "jaxlib is of the version of jax, or older down to the one that jax names.",
            "jaxlib is {lib}, jax {jax}.",
            _SAME_VERSION,
        ),
    ),
    (
        (
            r"jaxlib is version (?P<lib>\d[\w.]{0,30}), but this version of jax requires version >= "
            r"(?P<least>\d[\w.]{0,30}?)(?=\.?(?:\s|$))"
        ),
        _rule(
            "version of jaxlib",
            "jaxlib is of the version of jax, or older down to the one that jax names.",
            "jaxlib is {lib}, and jax needs {least} or newer.",
            _SAME_VERSION,
        ),
    ),
    (
        (
            r"JAX plugin (?P<plugin>\w{1,60}) version (?P<found>\d[\w.]{0,30}) is installed, but it is not "
            r"compatible with the "
            r"installed jaxlib version (?P<lib>\d[\w.]{0,30}?)(?=[,\s])"
        ),
        _rule(
            # JAX falls back to the CPU after this warning, so the program is slow in place of failing
            "version of a plugin",
            "A plugin is used only with the jaxlib of its own version.",
            "{plugin} is {found}, jaxlib is {lib}: the plugin is not used.",
            _SAME_VERSION,
        ),
    ),
    (
        (
            r"jaxlib was built using (?P<what>\w{2,10}) instructions, which your CPU and/or operating system do "
            r"not support"
        ),
        _rule(
            "instructions of the CPU",
            "Releases of jaxlib need the instructions that they were built with.",
            "This CPU has no {what}.",
            "On a Mac, use a Python for arm64 in place of one for x86; in a virtual machine, pass on the "
            "features of the "
            "CPU; else build jaxlib from source.",
        ),
    ),
    # --- devices that fail ---
    (
        (
            r"NVRM: Xid \(PCI:(?P<bus>[\w:.]{4,20})\): (?P<code>\d{1,4}+)(?:, "
            r"pid='?(?P<pid>\d{1,9}|<unknown>)'?)?(?:, name=(?P<name>[^,\n]{1,40}))?(?:, "
            r"(?P<why>[^\n]{1,200}?))?\.?(?=\n|$)"
        ),
        _rule(
            # the numbers are of NVIDIA's list of Xid errors
            "fault of a GPU",
            "The driver of NVIDIA reports faults of GPUs as Xid numbers in the log of the kernel.",
            "Xid {code} of the GPU at {bus}[[: {why}]][[ (process {pid})]].",
            "48, 63, 64, 79, 94, and 95 are faults of the device: drain and reset it. 13, 31, and 43 usually "
            "follow an access "
            "outside of memory of a kernel.",
        ),
    ),
    (
        (
            r"operation (?P<call>gpu\w{2,40}|cu\w{2,40}|hip\w{2,40})\([^\n]{0,80}\) failed: "
            r"(?P<why>[^\n]{1,200}?)\.?(?=\n|$)"
        ),
        _rule(
            "library of the GPU",
            "Libraries of the GPU take memory of their own when they start.",
            "{call} failed: {why}.",
            "Usually memory is full: set XLA_PYTHON_CLIENT_MEM_FRACTION below 0.75. Else unset "
            "LD_LIBRARY_PATH, which may name "
            "another version of the library.",
        ),
    ),
    (
        r"failed with error CUPTI could not be loaded or symbol could not be found",
        _rule(
            # the warning comes once a process, also where nobody asked for a trace
            "profiler of the GPU",
            "Traces of GPUs need CUPTI, a library of the CUDA toolkit.",
            "CUPTI is not found, so a trace has no kernels.",
            (
                "Install nvidia-cuda-cupti of jax[cuda12], or add extras/CUPTI/lib64 to LD_LIBRARY_PATH. The "
                "program is not affected."
            ),
        ),
    ),
    (
        r"Collective operation timed out: (?P<name>[\w.\-]{1,200}) after (?P<limit>\d{1,9}+)s",
        _rule(
            "collective at run time",
            "All devices of a group come to a collective.",
            "{name} was not complete after {limit} s.",
            f"{_OTHER_LOGS} Compare the programs of the hosts by `hlo diff HOST0/ HOST1/ …`.",
            is_about_hlo=True,
        ),
    ),
    (
        r"(?P<side>Source|Target) (?P<device>\d{1,9}+) appears more than once in instruction's source-target pairs",
        _rule(
            "pairs of a collective-permute",
            "Each device is a source at most once, and a target at most once.",
            "Device {device} is a {side} twice.",
            "Send in rounds, one permutation each, or use all-gather to send one value to many.",
            is_about_hlo=True,
        ),
    ),
    (
        (
            r"Pallas (?P<platform>TPU|GPU) lowering currently (?P<why>[^\n.]{1,160})\. Block spec for "
            r"(?P<name>\S{1,80}) in pallas_call "
            r"(?P<kernel>\S{1,100})(?: at (?P<place>\S{1,200}))? has block shape (?P<block>\([^)\n]{0,200}\)) "
            r"and array shape "
            r"(?P<array>\([^)\n]{0,200}\))"
        ),
        _rule(
            "block of a Pallas kernel",
            "A backend of Pallas supports some shapes of blocks.",
            "The lowering for {platform} {why}: {kernel} has blocks {block} of {name}, which is {array}.",
            "Give the block a dimension for each of the array, or keep scalars in SMEM.",
        ),
    ),
    (
        (
            r"requires (?P<needed>\d{1,9}+) (?:logical )?devices, but only (?P<given>\d{1,9}+) (?:XLA "
            r")?devices are available"
        ),
        _rule(
            # pmap has a rule of its own, whose message names the mapped axis
            "number of devices",
            "A program runs on as many devices as it has replicas times partitions.",
            "{needed} devices are needed, and {given} are available.",
            "Compile for fewer, or start all processes of the job first (jax.distributed.initialize).",
        ),
    ),
    (
        (
            r"(?P<function>\w{1,40}) (?P<what>in_axes|out_axes|in_specs|out_specs)(?: specification)? must be "
            r"a tree prefix of the "
            r"corresponding value, got specification (?P<found>[^\n]{1,200}?) for value tree "
            r"(?P<tree>PyTreeDef\([^\n]{1,200}\))"
        ),
        _rule(
            "axes of a transformation",
            "The axes are given once for all arguments, or once for each.",
            "{what} of {function} is {found}, the arguments are {tree}.",
            "Give one entry for each argument, None for those that are not mapped.",
        ),
    ),
    (
        (
            r"node was low on resource: memory\. Threshold quantity: (?P<limit>\w{1,20}), available: "
            r"(?P<free>\w{1,20})(?:\. Container (?P<name>[\w\-]{1,80}) was using (?P<used>\w{1,20}))?"
        ),
        _rule(
            "memory of the host",
            "Kubernetes ends a pod when its node has less memory than a threshold.",
            "The node had {free} left[[, and {name} used {used}]].",
            "Request as much memory as the process uses: parameters that are loaded on the host, input pipelines, and "
            "checkpoints.",
        ),
    ),
    # --- calls of compiled programs ---
    (
        (
            r"Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal "
            r"function, but at "
            r"output(?P<place>\S{1,60}) the bwd rule produced an output of type (?P<found>\w{1,20}\[[^\]\n]{0,100}\]) "
            r"corresponding to an input of type (?P<wanted>\w{1,20}\[[^\]\n]{0,100}\])"
        ),
        _rule(
            "custom gradient",
            "The bwd function of a custom_vjp returns a cotangent of the type of each argument.",
            "Output {place} of bwd is {found}, the argument {wanted}.",
            "Sum over dimensions that were broadcast, and cast to the argument's type.",
        ),
    ),
    (
        (
            r"reshape is not supported\. Please specify the sharding of the output via the `\w++` argument of "
            r"[\w.]{1,60}\. Got "
            r"operand type: (?P<type>\w{1,20}\[[^\]\n]{0,200}\]), new sizes: (?P<to>\([\d, ]{0,200}\))"
        ),
        _rule(
            "sharding of a result",
            "On a mesh with Explicit axes, a reshape keeps the parts of a divided dimension together.",
            "{type} to {to} does not.",
            (
                "Name the result's sharding, as in jax.lax.reshape(x, sizes, out_sharding=P('x', None)), or reshard "
                "it first."
            ),
        ),
    ),
    (
        (
            r"Length of slice indices must match number of operand dimensions \((?P<count>\d{1,3}+) vs "
            r"(?P<shape>\([\d, ]{0,200}\))\)"
        ),
        _rule(
            "arguments of a call",
            "A dynamic slice has one start for each dimension of its array.",
            "{count} starts are given for {shape}.",
            "Give a start for each dimension, 0 for those that are taken whole.",
        ),
    ),
    (
        r"Jitted function has (?:invalid )?argnames (?P<names>\{[^}\n]{1,200}\}) in static_argnames",
        _rule(
            "arguments of a call",
            "static_argnames names arguments of the function itself.",
            "{names} of static_argnames are not arguments of the function.",
            "Compare with the signature; those that a wrapper takes as **kwargs are not its own.",
        ),
    ),
    (
        (
            r"invalid PRNG key data: expected key_data to have ndim, shape, and dtype attributes\. Got "
            r"(?P<key>[^\n]{1,80})"
        ),
        _rule(
            "arguments of a call",
            "Random functions take a key of jax.random.key or jax.random.PRNGKey.",
            "the key is {key}, not a key.",
            "Create it by jax.random.key(seed), and compare the order of the arguments: the key is the first.",
        ),
    ),
    (
        r"\(shapes (?P<wanted>\([\d, ]{0,200}\)), (?P<stored>\([\d, ]{0,200}\)) mismatch\)",
        _rule(
            "comparison of arrays",
            "Arrays that are compared have one shape.",
            "The result is {wanted}, the expected array {stored}[[: {difference}]].",
            "Nothing was compared: transpose, squeeze, or slice one of them first.",
        ),
    ),
)
"""Patterns of messages and their rules."""
