"""What do failures in native code mean: halts, allocators, plugins, and kernels, and what their hosts print about them?

The messages are those of libtpu, XLA, Mosaic, PyTorch/XLA, tcmalloc, TensorFlow, and of servers and trainers on top. In
the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_SIZES: Final = r"\([\d, ?]{0,200}\)"
_NO_HLO: Final = "No HLO is involved."


def _rule(
    key: str, rule: str, violated: str, fix: str, *, is_program: bool | None = None, is_about_hlo: bool = False
) -> ErrorRule:
    return ErrorRule(key, rule, violated, fix, is_program=is_program, is_about_hlo=is_about_hlo)


_HALT_FIX: Final = (
    "Look in /tmp/tpu_logs of all hosts for the first halt: those of other chips follow it. Then run with a "
    "newer libtpu; "
    "if it stays, dump the program (XLA_FLAGS=--xla_dump_to=DIR) and look for custom kernels with `hlo parse "
    "DIR --where "
    "'opcode == custom-call'`."
)

_DIES: Final = "The processes of a job watch each other; if one ends, the others end too."
_DEAD_LOG: Final = (
    "The cause is in the log of that process: an exception, the out-of-memory killer, or preemption. This log shows "
    "only "
    "what followed."
)
_MISSING_LOG: Final = (
    "Look in the logs of the missing processes: they were not started, crashed, or do not reach the coordinator's "
    "address. Compare num_processes of jax.distributed.initialize with the number that was started."
)
_RANK_LOG: Final = (
    "Look in the log of the named rank for its first error: one that failed, is slow, or took another branch never "
    "comes."
)

NATIVE_RULES: Final = (
    # --- TPUs ---
    (
        (
            r"(?:(?P<core>\d{1,3}x\d{1,3}x\d{1,3}_\w{2,6}): )?(?:\*\*\* )?Halt is unexpected, all pending programs "
            "will fail"
        ),
        _rule(  # real_program_continuator.cc of libtpu
            "halted device",
            "A TPU core halts if its program does what the hardware refuses: an access outside of memory, or a wait "
            "that never ends. All programs in its queue fail.",
            "[[Core {core}|A core]] halted outside of any program that could report why.",
            _HALT_FIX,
            is_about_hlo=True,
        ),
    ),
    (
        r"[Hh]ost command (?P<number>\d{1,12}) triggered but no handler was registered(?:, run id: (?P<run>\d{1,12}))?",
        _rule(  # host callbacks before 2023 were host commands
            "host callback",
            "A program on a TPU calls the host by a number, for which the host registers a handler.",
            "Command {number}[[ of run {run}]] has no handler in this process.",
            "The callback is of another version of jaxlib than libtpu, or the program was loaded from a cache: update "
            "both (pip install -U 'jax[tpu]'), clear the compilation cache, or avoid the callback.",
        ),
    ),
    (
        (
            r"(?:open\((?P<device>/dev/(?:vfio/|accel)\w{0,8})\): (?P<why>Operation not permitted|Permission denied"
            r"|No such file or directory)"
            r"|(?<!busy;[ ])Couldn't open (?:iommu group|device:?) (?P<group>/dev/\S{1,40}?)[;.]?(?=\s|$))"
        ),
        _rule(  # a device that is busy has a rule of its own, which names how to find its owner
            "device of the TPU",
            "libtpu opens each chip of the host as a device of the kernel: /dev/accel* or /dev/vfio/*.",
            "{device}{group} cannot be opened[[: {why}]].",
            "`ls -l /dev/accel* /dev/vfio/*` shows what exists and whose it is: run as that group or as root, start a "
            "container with --privileged (or --device), and end the process that has it (`sudo lsof -w DEVICE`). "
            "Without any, the machine has no TPU: JAX_PLATFORMS=cpu.",
        ),
    ),
    (
        (
            r"Could not find SliceBuilder port (?P<port>\d{1,5}) in any of the (?P<count>\d{1,4}) ports provided in "
            r"`tpu_process_addresses`=\"(?P<addresses>[^\"\n]{0,200})\""
        ),
        _rule(  # written at each start on one host, where nothing connects
            "hosts of a TPU slice",
            "The hosts of a slice connect through the ports that TPU_PROCESS_ADDRESSES lists.",
            "Port {port} is not one of the {count} in '{addresses}'.",
            "On one host it is harmless: only a server of metrics does not start. On several, set "
            "TPU_PROCESS_ADDRESSES to host:port of each process, and TPU_PROCESS_PORT to that of this one.",
        ),
    ),
    (
        r"GetChip\(i\)->location\(\)\.index_on_host\(\) == i \((?P<found>\d{1,4}) vs\. (?P<wanted>\d{1,4})\)",
        _rule(  # the driver lists the chips of a host in the order of their place on the board
            "chips of a host",
            "libtpu numbers the chips of a host in the order in which the driver lists them.",
            "The chip in place {wanted} has the number {found}: a chip before it is missing or listed twice.",
            "Compare TPU_VISIBLE_CHIPS and the devices that a container gets (`ls /dev/accel* /dev/vfio/*`) with all "
            "chips of the machine; if all are there, the machine is faulty: create it anew.",
        ),
    ),
    (
        (
            r"(?:Failed to get global TPU topology|No accelerator found on this host|No ba16c7433 device found"
            r"|No TPU (?:devices?|chips?) (?:were )?found)(?P<rest>)"
        ),
        _rule(  # the name is that of the first TPU that the driver was for
            "chips of a host",
            "libtpu looks for the chips of the host at its start.",
            "It found none.",
            "`ls /dev/accel* /dev/vfio/*` shows whether the machine and the container have any; another process that "
            "has them hides them, too. A machine without a TPU runs with JAX_PLATFORMS=cpu (PJRT_DEVICE=CPU for "
            "PyTorch/XLA).",
        ),
    ),
    (
        r"Failed to establish SliceBuilder grpc channel to (?P<host>[\w.\-]{1,120}(?::\d{1,5})?)",
        _rule(  # the hosts of a slice find each other before any program runs
            "hosts of a TPU slice",
            "All hosts of a slice connect to each other when the TPU starts.",
            "{host} cannot be reached.",
            "Start the program on all hosts of the slice (gcloud … --worker=all), with equal libtpu. For one host "
            "alone, set TPU_CHIPS_PER_HOST_BOUNDS, TPU_HOST_BOUNDS=1,1,1, and TPU_WORKER_ID=0; look at the "
            "firewall for "
            "ports 8470 to 8479.",
        ),
    ),
    (
        r"unexpected worker hostname '(?P<host>[^'\n]{0,120})' from env var (?P<variable>\w{1,60})",
        _rule(  # libtpu's start; a proxy name or a port is refused, too
            "hosts of a TPU slice",
            "TPU_WORKER_HOSTNAMES lists the hosts of the slice, as names or addresses without ports, with "
            "commas between.",
            "{variable} has '{host}'.",
            "Unset {variable} if the slice has one host (or set TPU_WORKER_HOSTNAMES=localhost with "
            "TPU_WORKER_ID=0 in a "
            "newer libtpu); else list all hosts.",
        ),
    ),
    # --- XLA ---
    (
        (
            r"layout minor_to_major field contains (?P<count>\d{1,3}) elements, but shape is rank (?P<rank>\d{1,3})"
            r"(?:[\s\S]{0,40}?element_type: (?P<type>\w{1,20})(?P<dimensions>(?: dimensions: \d{1,12}){1,12}))?"
        ),
        _rule(  # layout_util.cc; the shape is printed as a proto
            "layout",
            "A layout names each dimension of its shape once.",
            "The layout has {count} dimensions, the shape {rank}[[: {type} {sizes_of_proto}]].",
            "The layout was lost on the way from the framework to the compiler: use jax and jaxlib (and libtpu) of one "
            "release, and clear the compilation cache.",
            is_about_hlo=True,
        ),
    ),
    (
        (
            r"Expected comparison type (?P<wanted>\w{1,20} or \w{1,20})\.? actual: (?P<found>\w{1,20}) operand: "
            r"(?P<shape>\w{1,20}\[[\d,]{0,100}\])"
        ),
        _rule(
            "comparison",
            "The type of a comparison fits its operands: FLOAT or TOTALORDER for floating point, SIGNED and UNSIGNED "
            "for integers.",
            "{shape} is compared as {found}.",
            "The framework and the runtime are of different releases: use jax and jaxlib (or the TPU runtime) of one "
            "release.",
            is_about_hlo=True,
        ),
    ),
    (
        (
            r"This probably indicates a bug in the HLO -> LLVM IR lowering[\s\S]{0,200}?name containing: "
            r"\*?(?P<module>[\w.\-]{1,120}?)\.?\*"
        ),
        _rule(  # xla/service/llvm_ir; LLVM's own verifier rejected the code
            "code generation",
            "XLA checks the code that it makes for LLVM.",
            "The code of {module} is invalid: a bug of XLA.",
            "Set XLA_FLAGS=--xla_dump_to=DIR and attach *{module}*: `hlo lint DIR` finds invalid HLO; newer "
            "releases and "
            "other flags (--xla_backend_optimization_level=1) may avoid it.",
            is_about_hlo=True,
        ),
    ),
    (
        (
            r"byte size of input/output arguments \((?P<arguments_bytes>\d{1,18})\) exceeds the base limit "
            r"\((?P<limit_bytes>\d{1,18})\)"
        ),
        _rule(  # gpu_hlo_schedule.cc; the scheduler then works with no room at all
            "memory of the arguments",
            "The scheduler of XLA:GPU gives temporaries what the arguments and results leave of the memory.",
            "Arguments and results need {arguments_bytes}, of {limit_bytes} that XLA may use.",
            "Shard or shrink the arguments, donate those that are replaced (donate_argnums), or raise "
            "XLA_PYTHON_CLIENT_MEM_FRACTION.",
            is_about_hlo=True,
        ),
    ),
    (
        r"Garbage collection: deallocate free memory regions",
        _rule(  # bfc_allocator.cc: a pool that may grow has several regions, and one array fits in one of them only
            "memory of the device",
            "An allocator returns whole free regions and reserves a larger one, if its memory is in too small pieces.",
            "memory is nearly full, or in small pieces.",
            "It is only slow unless an error follows: use smaller batches, free arrays, or reserve the memory at once "
            "(in JAX, XLA_PYTHON_CLIENT_PREALLOCATE=true; in TensorFlow, no TF_FORCE_GPU_ALLOW_GROWTH).",
        ),
    ),
    (
        (
            r"SubAllocator must return memory aligned to at least (?P<wanted>\d{1,9}) bytes, got "
            r"(?P<found>0x[0-9a-f]{1,16})"
        ),
        _rule(  # bfc_allocator.cc
            "alignment of an allocation",
            "Allocators of devices return addresses that are multiples of an alignment.",
            "{found} is not a multiple of {wanted}.",
            "This is a bug of the plugin or the runtime, not of the program: use another release, or another allocator "
            "(XLA_PYTHON_CLIENT_ALLOCATOR=platform on GPUs).",
        ),
    ),
    (
        r"tcmalloc: large alloc (?P<size_bytes>\d{1,20}) bytes(?: == (?P<result>\(nil\)|0x[0-9a-f]{1,16}))?",
        _rule(  # a size above any host's memory is a damaged number
            "memory of the host",
            "tcmalloc reports allocations of a gigabyte and more.",
            "one allocation of {size_bytes}[[ returned {result}]].",
            "(nil) means that it failed: no host has that much. A size of hundreds of terabytes is a damaged "
            "number, such "
            "as from libraries of different releases: install jax, jaxlib, and libtpu of one release. Without "
            "(nil), it "
            "is only a report.",
        ),
    ),
    # --- kernels ---
    (
        r"Mosaic kernels cannot be automatically partitioned",
        _rule(  # tpu_custom_call.py of JAX
            "partitioned kernel",
            "The partitioner divides HLO; it does not look into kernels.",
            "A Pallas (Mosaic) kernel is in a program for several devices, outside of shard_map.",
            "Call the kernel within jax.shard_map, with in_specs that say which part each device has; or give its "
            "custom_partitioning.",
            is_program=True,
        ),
    ),
    (
        r"Body failed to verify: \"func\.func\"\(\)[^\n]{0,800}?sym_name = \"(?P<name>[\w.$\-]{1,120})\"",
        _rule(  # jax/_src/pallas/mosaic/lowering.py prints the module that its verifier rejects
            "Mosaic kernel",
            "Pallas lowers the body of a kernel to MLIR, which is checked.",
            "The body of {name} does not pass: an operation in it has a type that Mosaic lacks, such as a "
            "vector without "
            "dimensions.",
            "Scalars are in SMEM: read single elements there, or keep at least one dimension (x_ref[...] in place of "
            "x_ref[0]). The line after the module names the operation.",
            is_program=True,
        ),
    ),
    (
        r"Only copies transferring a number of bytes divisible by the warpgroup size are supported",
        _rule(  # jax/experimental/mosaic/gpu/launch_context.py
            "copy in a Mosaic GPU kernel",
            "Mosaic GPU copies between memories by a warpgroup of 128 threads.",
            "The bytes of a block are not a multiple of 128.",
            "Use blocks of at least 128 bytes and multiples of it, or the Triton backend of Pallas.",
            is_program=True,
        ),
    ),
    (
        (
            r"memref<(?P<block>[^ ,<>\n]{1,80})[^\n]{0,200}?> must have a number of elements that is a "
            r"multiple of (?P<multiple>\d{1,9})"
        ),
        _rule(  # fragmented_array.py of Mosaic GPU
            "block of a Mosaic GPU kernel",
            "A warpgroup of 128 threads loads the elements of a block evenly.",
            "The block {block}[[ of {elements} elements|]] is not a multiple of {multiple}.",
            "Use blocks with a multiple of {multiple} elements.",
            is_program=True,
        ),
    ),
    (
        r"Autotuning cache miss for (?P<operation>\w{1,80})\([\s\S]{0,2000}? on (?P<device>[\w .\-]{1,60}?) with key",
        _rule(  # tokamax; the heuristic configuration is used
            "autotuning",
            "Kernels of tokamax have configurations that are measured once for a device and its shapes.",
            "{operation} on {device} has none for these shapes, so a default is used: slower, not wrong.",
            "Run tokamax.autotune on the function once and keep its result, or set the configuration of the kernel. "
            f"{_NO_HLO}",
        ),
    ),
    # --- PyTorch/XLA ---
    (
        r"(?:\$?PJRT_DEVICE is not set|Missing XLA configuration)",
        _rule(  # runtime.cc of torch_xla; its releases before 2.0 had XRT, whose settings are other ones
            "platform",
            "PyTorch/XLA runs on the platform that PJRT_DEVICE names.",
            "No platform is named.",
            "Set PJRT_DEVICE to TPU, CUDA, or CPU before torch_xla is imported; XRT_TPU_CONFIG was for releases "
            "before 2.0.",
        ),
    ),
    (
        (
            r"(?:Runtime is already initialized\. Do not use the XLA runtime before calling xmp\.spawn"
            r"|!g_computation_client_initialized)"
        ),
        _rule(  # torch_xla/_internal/pjrt.py, torch_xla/csrc/runtime/runtime.cc
            "start of the runtime",
            "Each process of torch_xla.launch (xmp.spawn) starts the runtime itself, so the parent must not have one.",
            "The runtime runs already in this process.",
            "Move what uses a device (xm.xla_device(), tensors.to(device), xm.get_ordinal(), printing a tensor) into "
            "the function that is spawned; in a notebook, restart the kernel.",
        ),
    ),
    (
        r"Expecting scope to be empty but it is (?P<scope>[\w.\-/]{1,120})",
        _rule(  # torch_xla/csrc/ir.cpp checks it when a graph ends
            "named scope",
            "A graph ends outside of all named scopes (xp.Trace), so that its operations have their names.",
            "The graph ends within {scope}.",
            "Call torch_xla.sync() (xm.mark_step()) and read values (.item(), print) outside of `with xp.Trace(...)`.",
        ),
    ),
    (
        r"Bad StatusOr access: (?P<status>[A-Z_]{4,30}): Error code: (?P<code>\d{1,3})\b",
        _rule(  # a plugin may return a PJRT_Error without a text
            "error of a plugin",
            "A PJRT plugin returns a code with a text; PyTorch/XLA shows both.",
            "The plugin returned code {code} ({status}) without a text.",
            "The plugin's own log above has the reason: memory and unsupported operations are usual. Set "
            "TF_CPP_MIN_LOG_LEVEL=0 and the plugin's log level, and run the failing step alone.",
        ),
    ),
    (
        r"(?:Check failed: xtensor\b[\s\S]{0,2000}?)?Input tensor is not an XLA tensor: (?P<type>[\w.]{1,60})",
        _rule(  # bridge.cpp of torch_xla
            "device of a tensor",
            "The operands of an operation are on one device.",
            "An operand is a {type} on the CPU, where another is on the XLA device.",
            "Move it: x.to(device) with device = torch_xla.device(); look for inputs, masks, and constants that "
            "are made "
            "within the model.",
            is_program=True,
        ),
    ),
    (
        (
            r"Error while lowering: \[[^\]\n]{0,80}\] (?P<operation>[\w:]{1,80}), location=(?P<place>[^,\n]{1,200})"
            r"(?:[^\n]{0,200}?type=(?P<type>\w{1,20}))?[\s\S]{0,400}?Check failed: (?P<why>[^\n]{1,200})"
        ),
        _rule(  # the operation is named by PyTorch/XLA's own IR
            "lowering of an operation",
            "PyTorch/XLA lowers each operation to HLO; checks compare its types and sizes.",
            "{operation}[[ to {type}]] at {place}: {why}.",
            "XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1 give the line of the program in place of `No Python Frames`; cast the "
            "operand before it, or use a newer torch_xla.",
        ),
    ),
    # --- servers and trainers ---
    (
        (
            r"Engine core initialization failed\. See root cause above(?:\. Failed core proc\(s\): "
            r"(?P<processes>\{[^}\n]{0,200}\}))?"
        ),
        _rule(  # vLLM's server only sees that its engine ended
            "start of an engine",
            "vLLM runs the model in processes of its own, and reports only that they ended.",
            "The engine ended before it was ready[[ ({processes})]]; the cause is above this line.",
            "Search the log upwards for the first ERROR of EngineCore: usually memory (--gpu-memory-utilization, "
            "--max-model-len), a device that another process holds, or a model that is not supported.",
        ),
    ),
    (
        r"Run out of shards on host (?P<host>\d{1,9}), shard (?P<shard>\d{1,12}) is not available",
        _rule(  # MaxText's pipeline of Hugging Face data sets
            "end of the data",
            "Each host reads its own part of the files; all end when one has no more.",
            "Host {host} asked for shard {shard}, which does not exist.",
            "Use more or smaller files than hosts, a longer data set, or repeat it (num_epoch); hosts that stop at "
            f"different steps leave the others waiting in a collective. {_NO_HLO}",
        ),
    ),
    (
        (
            rf"Cannot feed value of shape (?P<stored>{_SIZES}) for Tensor "
            rf"u?['\"]?(?P<name>[\w:./\-]{{1,120}})['\"]?, which has "
            rf"shape ['\"]?(?P<wanted>{_SIZES})"
        ),
        _rule(  # feeds of TensorFlow 1; a ? takes any size
            "input of a graph",
            "A placeholder takes arrays of its shape; ? takes any size.",
            "{name} takes {wanted}, and got {stored}.",
            "Print the shape of the batch: (0,) is an empty list, so the data set found no file or no row.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:Could not find a version that satisfies the requirement|No matching distribution found for) "
            r"(?P<package>[\w.\[\],=<>!~\-]{1,120})(?: \(from versions: (?P<versions>[^)\n]{1,2000})\))?"
        ),
        _rule(  # pip names the package twice, in two lines
            "package",
            "pip installs what is built for the release of Python, the system, and the processor.",
            "no {package} was found for this Python[[ (its versions: {versions})]].",
            "Compare `python --version` and the processor (`uname -m`) with the files of the package's page; "
            "wheels for "
            f"accelerators often need an index of their own (--find-links, --extra-index-url). {_NO_HLO}",
        ),
    ),
    # --- jobs of several processes ---
    # --- jobs with several processes: the coordination service ---
    (
        r"Stopping coordination service as heartbeat has timed out for (?P<tasks>/job:\S{1,80}/task:\d{1,6})",
        _rule(  # coordination_service.cc: without connections to the clients, it cannot tell them
            "dead process",
            _DIES,
            "{missing} sent no heartbeat in time, so the service ends the job.",
            _DEAD_LOG,
        ),
    ),
    (
        (
            r"Waiting for (?P<pending>\d{1,9})/(?P<all>\d{1,9}) tasks to connect\."
            r"(?:[\s\S]{0,200}?Example stragglers:(?P<tasks>(?:\s*/job:\S{1,80}/task:\d{1,6}){1,64}))?"
        ),
        _rule(  # coordination_service.cc; it is no error yet
            "start of a job with several processes",
            "A job starts when all its processes have connected to the coordination service.",
            "{pending} of {all} are not connected[[: {missing}]].",
            _MISSING_LOG,
        ),
    ),
    (
        (
            r"waited too long for some tasks to show up\.?"
            r"(?:[\s\S]{0,60}?Timed out task names:(?P<tasks>(?:\s*/job:\S{1,80}/task:\d{1,6}){1,64}))?"
        ),
        _rule(  # the client's words before 2024
            "start of a job with several processes",
            "A job starts when all its processes have connected to the coordination service.",
            "[[{missing} did not come|some processes did not come]].",
            _MISSING_LOG,
        ),
    ),
    (
        (
            r"(?P<announced>(?:Getting local topologies failed: )?(?:[\s\S]{0,20}?GetKeyValue\(\) timed out with key: "
            r"\S{0,80}?local_topology/\w{1,40}/\d{1,9} and duration: [\w.]{1,20}){1,256})"
        ),
        _rule(  # xla/pjrt/distributed/topology_util.cc: each process announces its devices under its number
            "start of a job with several processes",
            "Each process announces its devices in the coordination service, and reads those of all others.",
            "{missing} did not announce devices.",
            "Look in the logs of these processes: they crashed, were not started, or are slow to start their devices. "
            "Compare num_processes of jax.distributed.initialize with the number that was started.",
        ),
    ),
    (
        (
            r"GetKeyValue\(\) timed out with key: \S{0,80}?(?P<what>global_topology|nccl|clique"
            r"|unique_id)\S{0,200} and "
            r"duration: (?P<limit>[\w.]{1,20})"
        ),
        _rule(  # process 0 builds the global topology; rank 0 of a clique writes the id of its communicator
            "start of a job with several processes",
            "The first process gathers what all announce (devices, NCCL identifiers) and writes it for the others.",
            "The first process wrote no {what} within {limit}.",
            "Look in the log of process 0 (of the group's first rank for NCCL): it failed, runs "
            "another program, or is blocked by another process.",
        ),
    ),
    (
        (
            r"(?:Coordination service has stopped\. (?P<call>\w{1,40})\(\)(?: from task: (?P<tasks>/job:\S{1,80}))?"
            r"|Barrier failed because service is shutting down\. Barrier_id: (?P<barrier>\S{1,200})"
            r"|Barrier (?P<late>\S{1,200}) requested after coordination service has shut down)"
        ),
        _rule(  # coordination_service.cc: its process ended first
            "end of a job with several processes",
            "The coordination service runs in process 0, and ends with it.",
            "It had ended[[ when {missing} called]][[ {call}]][[ before all processes reached {barrier}]]"
            "[[ when {late} was asked for]].",
            "Look in the log of process 0: an exception, or an end before the others were done. "
            "jax.experimental.multihost_utils.sync_global_devices('end') at the end of the program lets all end "
            "together.",
        ),
    ),
    (
        (
            r"Barrier \((?P<barrier>\S{1,200}?)(?:::(?P<number>\d{1,9}))?\) is (?:invoked|cancel{1,2}ed) by "
            r"(?:the )?task, but the service thinks it is the (?P<service>\d{1,9})-th instance"
        ),
        _rule(  # FailBarrierWithCounterMismatch
            "barrier",
            "All processes of a job reach the same barriers in the same order.",
            "A process is at number {number} of {barrier}, the others are at {service}.",
            "One process restarted, or passed a barrier more or fewer times than the others: look for a loop or a "
            "branch whose length differs between processes, such as the number of batches.",
        ),
    ),
    # --- jobs with several processes: torch.distributed ---
    (
        (r"Ranks? (?P<ranks>\d{1,9}(?:, \d{1,9}){0,1000}) failed to pass monitoredBarrier in (?P<limit>\d{1,12}) ms"),
        _rule(  # ProcessGroupGloo.cpp; rank 0 collects the others
            "barrier",
            "All processes of a job reach a barrier, or it times out.",
            "missing after {limit} ms: rank {ranks}.",
            f"{_RANK_LOG} The connection that is named after it is only how rank 0 noticed.",
        ),
    ),
    (
        (
            r"Rank (?P<rank>\d{1,9}) successfully reached monitoredBarrier, but received errors while waiting "
            r"(?:for send/recv from|to be unblocked by) rank (?P<other>\d{1,9})"
        ),
        _rule(
            "barrier",
            "All processes of a job reach a barrier, or it times out.",
            "Rank {rank} was there, rank {other} did not answer.",
            _RANK_LOG,
        ),
    ),
    (
        (
            r"Timed out after (?P<limit>\d{1,9}) seconds waiting for clients\. (?P<here>\d{1,9})/(?P<all>\d{1,9}) "
            r"clients "
            r"joined"
        ),
        _rule(  # TCPStore.cpp
            "start of a job with several processes",
            "The processes of torch.distributed meet in the store of rank 0.",
            "{here} of {all} came within {limit} s.",
            "Compare world_size with the number of processes that were started, and look in the logs of those that "
            "are missing: MASTER_ADDR, MASTER_PORT, and the firewall if they wait, an exception if they ended.",
        ),
    ),
    (
        (
            r"NCCL communicator was aborted on rank (?P<rank>\d{1,9})\.(?: Original reason for failure was: "
            r"(?P<why>[^\n]{1,200}?))?(?=\n|$)"
        ),
        _rule(  # NCCLUtils.hpp; the watchdog aborts what hangs or has an error
            "collective at run time",
            "The watchdog of torch.distributed ends the communicators of a process when a collective fails or hangs.",
            "the communicators of rank {rank} were ended[[: {why}]].",
            f"{_RANK_LOG} NCCL_DEBUG=INFO names the call that failed.",
        ),
    ),
    (
        (
            r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,9}) is running collective: "
            r"CollectiveFingerPrint\((?:SequenceNumber=(?P<number>\d{1,18}), )?OpType=(?P<one>\w{1,40})"
            r"(?:, TensorShape=(?P<shape>\[[\d, ]{0,200}\]))?[\s\S]{0,300}?but Rank (?P<other_rank>\d{1,9}) is running "
            r"collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<other_number>\d{1,18}), )?OpType="
            r"(?P<other>\w{1,40})(?:, TensorShape=(?P<other_shape>\[[\d, ]{0,200}\]))?"
        ),
        _rule(  # ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL
            "different collectives",
            "All ranks of a group run the same collectives in the same order, with equal shapes and types.",
            "rank {rank} runs {one}[[ {shape}]][[ (number {number})]], rank {other_rank} runs {other}"
            "[[ {other_shape}]][[ (number {other_number})]].",
            "Look for a branch, a loop length, or an uneven last batch that differs between the two ranks.",
        ),
    ),
    (
        r"wait timeout after (?P<limit>\d{1,12})ms, keys: (?P<key>/\S{1,200})",
        _rule(  # TCPStore.cpp; the key of a group is <group>/<sequence>//cuda//<first rank>
            "start of a group of processes",
            "The first rank of a group writes the identifier of its communicator into the store, where the others read "
            "for it.",
            "{key} was not written within {limit} ms.",
            "The first rank of that group (the last number of the key) failed, is slow, or made another group: look in "
            "its log. All ranks call new_group and the first collective of a group in the same order.",
        ),
    ),
    (
        r"(?:\[(?:PG [^\]\n]{1,80} )?Rank (?P<rank>\d{1,9})\] )?(?:\[[^\]\n]{1,60}\] )?Heartbeat monitor timed out!",
        _rule(  # ProcessGroupNCCL.cpp: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC
            "collective at run time",
            "A monitor ends a process of torch.distributed whose watchdog itself is blocked: in a call of "
            "CUDA or "
            "NCCL, or for the lock of Python.",
            "the watchdog[[ of rank {rank}]] stopped.",
            "Look for the collective that timed out before it, in this log and in those of the other ranks; "
            "`py-spy dump` of the next run shows what holds the lock. TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC gives it "
            "longer.",
        ),
    ),
    # --- collectives of GPUs ---
    (
        (
            r"(?:Error while creating shared memory segment (?P<file>/dev/shm/\S{1,80}) \(size "
            r"(?P<size_bytes>\d{1,18})\)"
            r"|failed to extend (?P<other_file>/dev/shm/\S{1,80}) to (?P<needed_bytes>\d{1,18}) bytes)"
        ),
        _rule(  # misc/shmutils.cc of NCCL
            "files in /dev/shm",
            "NCCL connects the GPUs of a host through files in /dev/shm; a container has 64 MB of it by default.",
            "[[{size_bytes} for {file}]][[{needed_bytes} for {other_file}]] did not fit.",
            "Enlarge it: docker run --shm-size=1g (or --ipc=host), in Kubernetes an emptyDir with medium: Memory; "
            "remove "
            "files /dev/shm/nccl-* that an ended job left. NCCL_SHM_DISABLE=1 does without, but is slower.",
        ),
    ),
    (
        r"NCCL WARN socket\w{1,40}: exceeded retries \((?P<count>\d{1,9})\)",
        _rule(  # misc/socket.cc of NCCL
            "connection",
            "NCCL connects the ranks of a communicator by TCP before it chooses a transport.",
            "this rank gave up after {count} attempts to connect to another one.",
            "The other rank ended, or its address is not reachable: read the log of every rank, and name the network "
            "by NCCL_SOCKET_IFNAME if a host has several.",
        ),
    ),
    (
        r"process group has NOT been destroyed before we destruct ProcessGroupNCCL",
        _rule(  # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
            "end of a process group",
            "PyTorch warns if a process ends with an open process group.",
            "this process ended without destroy_process_group().",
            "Harmless if the program is done: call torch.distributed.destroy_process_group() at its end. After an "
            "exception it only follows: look for the error above.",
        ),
    ),
    (
        r"NCCL WARN Cuda failure (?:\d{1,4} )?'(?P<why>[^'\n]{1,120})'",
        _rule(  # checks.h of NCCL
            "collective at run time",
            "NCCL allocates memory of its own on each GPU, outside of the pool of the framework.",
            "A call of CUDA failed inside of NCCL: {why}.",
            "If memory is full, leave more of it: XLA_PYTHON_CLIENT_MEM_FRACTION=0.85, or another process has the GPU "
            "(nvidia-smi). For other errors, look at the first one of any rank, which the others follow.",
        ),
    ),
    # --- jobs with several processes, other words ---
    (
        (
            r"(?P<task>/job:\S{1,60}/task:\d{1,6}|[Tt]ask \S{1,60}) unexpectedly tried to connect with a different "
            r"incarnation"
        ),
        _rule(  # coordination_service.cc; a loader that spawns imports the program again
            "restarted process",
            "The coordination service ends a job if one of its processes starts again: the others have state of "
            "the old "
            "one.",
            "{task} started again.",
            "Look in its log for why the first run ended: an exception, the out-of-memory killer, a preemption, "
            "or a loader "
            "process that imports the main program (guard it by `if __name__ == '__main__'`).",
        ),
    ),
    (
        (
            r"Barrier timed out\. (?:Barrier_id|Id): (?P<barrier>[^\s]{1,200}?)\.? Timed out task names:?\s*"
            r"(?P<tasks>(?:/job:\S{1,80}/task:\d{1,6}\s*){1,64})"
        ),
        _rule(  # the tasks are listed one a line, in no order
            "barrier of a job",
            "All processes of a job come to a barrier, within a time limit.",
            "{missing} did not come to {barrier}.",
            "Look in the logs of those tasks: they were not started, ended, or are slow. At the start "
            "(PjRT_Client_Connect, RegisterTask), compare num_processes with the processes that run; "
            "initialization_timeout gives them longer.",
        ),
    ),
    (
        (
            r"cluster registration failed\.[\s\S]{0,400}?timeout is currently set to: (?P<limit>[\dhms.]{1,20}?)\.?\s"
            r"(?:[\s\S]{0,200}?Id: (?P<barrier>[^\s]{1,120}?)\.(?= ))?"
        ),
        _rule(  # the limit is initialization_timeout
            "start of a job with several processes",
            "The coordination service waits until all processes of the job have registered.",
            "Some did not within {limit}[[ ({barrier})]].",
            "Count the processes that run (one a host, or one a GPU) and compare with num_processes; the ones that are "
            "missing were not scheduled, crashed before, or cannot reach the coordinator's address.",
        ),
    ),
    # --- checkpoints and data ---
    (
        (
            r"available devices are different from the devices used to save the checkpoint[\s\S]{0,200}?"
            r"Original=\[(?P<saved>[^\]\n]{1,4000})\], current available=\[(?P<here>[^\]\n]{1,4000})\]"
        ),
        _rule(  # sharding.py of Orbax
            "devices of a checkpoint",
            "Orbax restores arrays with the shardings that they were saved with, unless others are given.",
            "It was saved on other devices than this job has ({here}).",
            "Pass a target tree of jax.ShapeDtypeStruct(shape, dtype, sharding=…) for the devices of this job, or "
            "restore_type=np.ndarray.",
            is_program=True,
        ),
    ),
    (
        (
            r"[Bb]atch (?:dimension|size) should be shardable among the devices in batch axis, got "
            r"(?P<devices>\d{1,9}) "
            r"devices and batch (?P<size>\d{1,9})"
        ),
        _rule(  # MaxText and T5X check it before the mesh is used
            "batch of a mesh",
            "The batch is divided among the devices of its axis.",
            "A batch of {size} does not divide among {devices} devices.",
            "Change the batch or the sizes of the mesh, so that the batch is a multiple.",
            is_program=True,
        ),
    ),
    # --- starts ---
    (
        (
            r"Failed to get TPU metadata \([\w\-]{1,40}\) from instance metadata for variable (?P<variable>\w{1,80})"
            r"(?:: (?P<why>[^\n;]{1,200}))?"
        ),
        _rule(  # gcp_metadata_utils.cc; each variable is tried up to 30 times
            "metadata of a TPU",
            "libtpu reads from the metadata server of Google Cloud which slice the machine belongs to.",
            "The server has no {variable}[[: {why}]].",
            "On a machine without a TPU, set JAX_PLATFORMS=cpu, or TPU_SKIP_MDS_QUERY=1, which also makes the "
            "start fast; "
            "on one with a TPU, set {variable} and TPU_ACCELERATOR_TYPE yourself.",
        ),
    ),
    (
        (
            r"PJRT C API plugin version (?P<plugin>[\d.]{1,12}) is too old for framework version "
            r"(?P<framework>[\d.]{1,12})"
            r"(?:; minimum supported is (?P<least>[\d.]{1,12}))?"
        ),
        _rule(  # the window is that of PJRT's C interface
            "version of a plugin",
            "A plugin and jaxlib speak one version of the PJRT interface, within 12 weeks.",
            "The plugin has {plugin}, the framework {framework}[[, which needs {least}]].",
            "Install the plugin of this jaxlib's release, such as by pip install -U 'jax[tpu]' or 'jax[cuda12]'.",
        ),
    ),
    (
        r"(?:Profiler session already active|Another profiling session active)",
        _rule(  # profiler_lock.cc of tsl
            "profiler",
            "One trace is recorded at a time in a process.",
            "a trace is being recorded already.",
            "Stop it first (jax.profiler.stop_trace()); a server (start_server) and a trainer may both record. "
            f"{_NO_HLO}",
        ),
    ),
    (
        r"Cannot find key: (?P<key>sm_\d{2,4}|gfx\w{3,8}|[\w.\-]{2,40})(?=\s|$|\.)",
        _rule(  # the tables are protos in XLA's source
            "device without an entry",
            "Tables of measured times have an entry for each kind of device.",
            "{key} has none.",
            "Leave the option out that uses the table, such as --xla_gpu_collect_cost_model_stats or "
            "--xla_gpu_analytical_latency_estimator_options, or use a newer XLA.",
        ),
    ),
    (
        r"compiled using NumPy 1\.x cannot be run in\s+NumPy (?P<version>[\d.]{3,12})",
        _rule(  # NumPy prints it when such a module is imported
            "version of NumPy",
            "Modules with native code run with the major version of NumPy that they were built for.",
            "a module is built for NumPy 1, and NumPy {version} is installed.",
            f"Install the release of that module for NumPy 2, or pip install 'numpy<2'. {_NO_HLO}",
        ),
    ),
    (
        r"Required bindings for `(?P<target>[\w.]{1,120})` not provided in config: (?P<names>\[[^\]\n]{1,300}\])",
        _rule(  # gin/config.py
            "gin configuration",
            "gin gives arguments to functions from its configuration files.",
            "{target} has no value for {names}.",
            f"Add a line {{target}}.NAME = VALUE, or pass --gin.{{target}}.NAME=VALUE. {_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        r"(?:You are trying to access|Access to model \S{1,120} is restricted|Cannot access) a? ?gated repo",
        _rule(  # huggingface_hub answers with status 401 or 403
            "model files",
            "Hugging Face gives files of some models only to accounts that were granted access.",
            "the account of this machine has no access.",
            f"Ask for it on the model's page, then log in: `hf auth login`, or HF_TOKEN=…. {_NO_HLO}",
        ),
    ),
    # --- messages that change nothing ---
    (
        r"(?P<what>Fallback to op-by-op mode because (?P<why>[^\n]{1,120}))",
        _rule(  # graph_launch.cc
            "command buffer",
            "XLA:GPU records programs as CUDA graphs, which start faster than single kernels.",
            "one is run kernel by kernel, because {why}.",
            "Nothing needs to be done: results do not change. A newer XLA has other command buffers; "
            "--xla_gpu_enable_command_buffer= switches them off.",
        ),
    ),
    (
        r"Not creating XLA devices, tf_xla_enable_xla_devices not set",
        _rule(  # xla_cpu_device.cc
            "start of TensorFlow",
            "Devices named XLA_GPU were the first way to use XLA in TensorFlow.",
            "they are not created.",
            "Nothing needs to be done: jit_compile=True and TF_XLA_FLAGS=--tf_xla_auto_jit=2 work without them.",
        ),
    ),
    (
        r"Couldn't find sharding info under RestoreArgs",
        _rule(  # type_handlers.py of Orbax
            "shardings of a checkpoint",
            "Orbax takes the shardings to restore with from the call, or else from a file of the checkpoint.",
            "the call gave none.",
            "Nothing needs to be done on the same devices; on others, pass restore_args "
            "(checkpoint_utils.construct_restore_args).",
        ),
    ),
)
"""Patterns of messages and their rules."""
