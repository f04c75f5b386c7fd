"""What does a message mean that no rule of one message knows? Causes by the words that systems have for them.

A cause stands for all messages with its words: of schedulers, networks, processes, devices, Python, and frameworks.
They are asked last, the most specific first; a harmless one only if nothing else is in the text. The words alone are no
message: unless a rule `is_certain`, its line reports a failure (`evidence.py`). In the patterns, a space stands for any
white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.syntax.compiler_messages.message_facts import FIRST_ERROR

_NO_HLO: Final = "No HLO is involved."
_REST: Final = r"(?P<why>[^\n]{1,240})"
_HOST: Final = r"(?P<host>(?=[^\s:<]{0,120}[\d.:<])\[?[\w.\-]{1,120}\]?(?:[:<]\d{1,5}>?)?)"


def _cause(
    key: str, rule: str, violated: str, fix: str, *, is_program: bool | None = None, is_certain: bool = False
) -> ErrorRule:
    return ErrorRule(key, rule, violated, fix, is_program=is_program, is_about_hlo=False, is_certain=is_certain)


# --- schedulers and machines ---

# These end programs from outside, so their words are asked before those of what then fails in the program.

_RAY: Final = "Ray reports that a worker process ended; the reason is in the worker's own log."
_RAY_FIX: Final = (
    "Look in /tmp/ray/session_latest/logs of that node for the worker's last lines, and in dmesg for the out-of-memory "
    f"killer, which is the most usual cause. {_NO_HLO}"
)
_CLUSTER: Final = (
    (
        (
            r"task(?:s)?:? ?(?P<task>/job:\S{1,60}/task:\d{1,6}|\d{1,6})[^\n]{0,40} (?:was|were) "
            r"(?P<why>restarted|removed|reset)"
            r"(?: \((?P<more>[^)\n]{1,120})\))?"
        ),
        _cause(  # the service sees another incarnation of the same task
            "restarted process",
            "The coordination service ends a job if one of its processes starts again: the others have state of the "
            "old one.",
            "{task} was {why}[[ ({more})]].",
            "Look in the log of that task for why its first run ended (out-of-memory killer, preemption, an "
            "exception); "
            "start all processes again.",
        ),
    ),
    (
        r"(?P<what>[Cc]onfig key|[Kk]ey|[Nn]ode|[Tt]ask|[Bb]arrier) (?P<key>[\w/.\-:]{1,120}) already exists",
        _cause(  # a second process with one number writes the same key
            "number of a process",
            "Each process of a job has a number of its own, under which it announces itself.",
            "{key} exists already.",
            "Two processes have one process_id, or an old one still runs: look at "
            "jax.distributed.initialize(process_id=…), "
            "SLURM_PROCID, or JOB_COMPLETION_INDEX.",
        ),
    ),
    (
        (
            r"(?P<why>TPU worker process \(index \d{1,6}\) crashed or was preempted|worker (?:process|node)? "
            r"?\(?(?:index )?\d{1,6}\)? "
            r"(?:crashed|was preempted|died)[^\n]{0,80})"
        ),
        _cause(  # the client only sees that the connection ended
            "dead process",
            "The processes of a job depend on each other: if one ends, the others are ended.",
            "{why}.",
            "Look in the log of that worker, in dmesg for the out-of-memory killer, and in the events of the cluster "
            "for a "
            "preemption; the last program that the message names need not be the cause.",
        ),
    ),
    (
        (
            r"(?P<nodes>0/\d{1,6}) nodes are available: (?P<why>[^\n]{1,300}?)"
            r"(?:\. (?:preemption|no new claims)[^\n]*|\.?)(?=\n|$)"
        ),
        _cause(  # FitError of kube-scheduler; what follows `preemption:` repeats the counts
            "scheduling of a pod",
            "Kubernetes starts a pod on a node that has the resources and the labels that the pod requires.",
            "{nodes} nodes fit: {why}.",
            "Compare the pod's limits and its nodeSelector with the nodes (`kubectl describe node`): the type of the "
            f"accelerator, its topology, free devices, taints, and quotas. {_NO_HLO}",
            is_certain=True,
        ),
    ),
    (
        (
            r"JOB (?P<job>\d{1,12})(?:\.\w{1,20})?(?: ON (?P<host>\S{1,80}))? CANCELLED(?: AT (?P<at>\S{1,30}))? DUE "
            r"TO (?P<why>[A-Z ]{3,40}?)(?= \*|\n|$|,)"
        ),
        _cause(  # slurmstepd writes the reason in capitals
            "end of a job by Slurm",
            "Slurm ends a job at its time limit, on preemption, or when a node fails.",
            "job {job} on {host} was ended: {why}.",
            "TIME LIMIT: raise --time, or save checkpoints and submit again. PREEMPTION: use --requeue. NODE FAILURE: "
            f"submit again with --exclude. The program itself did not fail. {_NO_HLO}",
            is_certain=True,
        ),
    ),
    (
        r"srun: error: (?P<host>\S{1,80}): tasks? (?P<tasks_listed>[\d,\-]{1,40}): (?P<why>[^\n]{1,120})",
        _cause(  # srun names the tasks as a list of ranges
            "end of a task in Slurm",
            "If one task of a job step ends with an error, Slurm ends the others.",
            "task {tasks_listed} on {host}: {why}.",
            "Look in the output of that task for its own first error; `sacct -j JOB --format=State,ExitCode,MaxRSS` "
            "has "
            "how each step ended, such as OUT_OF_MEMORY.",
        ),
    ),
    (
        r"slurmstepd: error: (?P<why>Detected \d{1,9} oom[_-]kill event[^\n]{0,160}|Exceeded[^\n]{1,160})",
        _cause(  # of cgroup/v1 and v2; the signs in `oom_kill` differ between releases of Slurm
            "memory of a host",
            "Slurm ends a step that uses more memory of the host than the job asked for.",
            "{why}.",
            f"Raise --mem, or load less at once: fewer loader processes, smaller buffers. {_NO_HLO}",
        ),
    ),
    (
        r"Worker exit type: (?P<kind>\w{1,40})[^\n]{0,40}?Worker exit detail: (?P<why>[^\n.]{1,200})",
        _cause(
            "end of a Ray worker",
            _RAY,
            "{kind}: {why}.",
            _RAY_FIX,
        ),
    ),
    (
        (
            r"(?P<why>(?:ray\.exceptions\.)?(?:RayActorError|ActorDiedError|NodeDiedError|WorkerCrashedError"
            r"|ObjectLostError|OwnerDiedError|RayOutOfMemoryError|OutOfMemoryError: Task was killed)[^\n]{0,240})"
        ),
        _cause(
            "end of a Ray worker",
            _RAY,
            "{why}",
            _RAY_FIX,
        ),
    ),
    (
        (
            r"(?P<why>(?:Failed to pull image|ImagePullBackOff|ErrImagePull|CrashLoopBackOff|CreateContainerConfigError"
            r"|CreateContainerError|RunContainerError|BackoffLimitExceeded|Back-off restarting failed container"
            r"|FailedMount|MountVolume\.\w{1,20} failed)[^\n]{0,240})"
        ),
        _cause(  # reasons of kubelet's events, which are the same in `kubectl get pods`
            "start of a container",
            "Kubernetes pulls an image, mounts volumes, and starts the container again if it ends.",
            "{why}",
            "`kubectl logs POD --previous` has the error of the container that ended, `kubectl describe pod POD` its "
            f"exit code and events. {_NO_HLO}",
        ),
    ),
    (
        (
            r"(?P<why>(?:The node was low on resource|(?:(?:Warning|Normal) |[Rr]eason[:=] ?\"?|\d/\d )"
            r"(?:Evicted|Preempted|Preempting|NodeShutdown|Terminated)\b|TerminationByKubernetes|NodeNotReady"
            r"|[Nn]ode \S{0,60} ?is not ready|(?:[Ii]nstance|VM|[Nn]ode|[Pp]od|[Jj]ob) "
            r"(?:was|is being|will be|has been) (?:preempted|evicted|reclaimed)|[Pp]reempted by \w"
            r"|spot instance (?:termination|interruption|reclaim)"
            r"|(?:due to|received|detected|for) (?:an? |the )?(?:host |planned |scheduled |upcoming )?maintenance "
            r"event)[^\n]{0,240})"
        ),
        _cause(  # events of kubelet, of the node controller, and of preemptible machines
            "end of a node",
            "A cluster takes a node back: for another job, for maintenance, or since it fails.",
            "{why}",
            f"The program did not fail: save checkpoints, and start again from the last one. {_NO_HLO}",
        ),
    ),
    (
        (
            r"(?:ZONE_RESOURCE_POOL_EXHAUSTED|There is no more capacity|does not have enough resources "
            r"available|Quota '"
            r"(?P<quota>\w{1,80})' exceeded|Insufficient capacity|InsufficientInstanceCapacity|STOCKOUT)[^\n]{0,200}"
        ),
        _cause(  # codes of Compute Engine and EC2
            "capacity of a zone",
            "A cloud has a limited number of accelerators in each zone, and a project a quota of them.",
            "no capacity[[ ({quota})]].",
            f"Try another zone, a reservation, a queued resource, or ask for quota. {_NO_HLO}",
        ),
    ),
)

# --- processes ---

# An exit status or a signal says how a process ended, not why: the advice is where the cause is.

_PROCESSES: Final = (
    (
        (
            r"(?:exit(?:ed)?(?: with)?(?: error)? (?:code|status)|exitcode|exit_code|ExitCode|Exit Code|returncode"
            r"|return code)[ :=]{1,12}(?P<exit_status>-?[1-9]\d{0,3})(?![\d.])"
        ),
        _cause(  # the status may be written by a shell, by Python (negative), by Slurm, or by Kubernetes
            "exit of a process",
            "A process that a signal ends has an exit status of 128 plus the signal, or its negative number.",
            "exit status {exit_status}[[: {signal}]].",
            "{signal_fix}",
        ),
    ),
    (
        (
            r"(?:(?:received|by|Signal|signal|due to|caught|with|\*\*\*) ?(?:signal )?:?[ (]{0,3}|^|Fatal Python "
            r"error: )"
            r"(?P<signal_name>SIG(?:SEGV|ABRT|KILL|BUS|ILL|FPE|TERM|HUP|INT|PIPE|XCPU))\b"
        ),
        _cause(
            "signal",
            "A signal ended the process.",
            "{signal}.",
            "{signal_fix}",
        ),
    ),
    (
        (
            r"(?:Fatal Python error: )?(?P<why>Segmentation fault|Bus error|Illegal instruction|Aborted|Floating point "
            r"exception|Killed)(?: \((?P<core>core dumped)\))?(?=\s*$|\n| \()"
        ),
        _cause(
            "signal",
            "A signal ended the process.",
            "{why}[[: {signal}]].",
            "{signal_fix}",
        ),
    ),
    (
        r"DataLoader worker \(pids? (?P<pid>[\d, ]{1,80})\) (?P<why>[^\n]{1,200})",
        _cause(  # torch/utils/data/dataloader.py
            "loader process",
            "A data loader has processes of its own, which need memory of the host and /dev/shm.",
            "process {pid} {why}.",
            f"Enlarge /dev/shm (docker run --shm-size=16g), or use fewer workers. {_NO_HLO}",
        ),
    ),
)

# --- the network and files ---

# The words are those of strerror(3), which all programs of Linux print; the process at the other end comes first.

_RESOURCES: Final = (
    (
        (
            r"(?P<call>\w{3,40}[Cc]onnect\w{0,20}|\b[Cc]onnect(?:ion|ing)?)(?:[: ]{1,2}[Cc]onnect)?"
            rf"(?: to| with| from)?(?: peer| remote)?(?: peer)? {_HOST}[^\n]{{0,60}}?"
            r"(?P<why>refused|failed[^\n]{0,100}|timed out|reset by peer|aborted|unreachable"
            r"|closed(?! cleanly)[^\n]{0,60})"
        ),
        _cause(
            "connection",
            "The processes of a job connect to each other by TCP.",
            "{host}: {why}.",
            "Look in the log of the process at that address first: one that ended, or did not start yet, looks the "
            "same. Then check the interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), the port, and the firewall.",
        ),
    ),
    (
        (
            r"(?P<why>(?:Connection (?:refused|reset by peer|closed by (?:peer|localRank|remote)[^\n]{0,20}|timed "
            r"out|aborted)"
            r"|Software caused connection abort|Socket closed|Broken pipe|No route to host|Network is "
            r"unreachable|Host is "
            r"(?:down|unreachable)|(?:Temporary failure in n|N)ame (?:resolution|or service not\ known)"
            r"|remote process exited or there was a network error|EOF (?:on|from) socket))"
        ),
        _cause(
            "connection",
            "The processes of a job connect to each other by TCP.",
            "{why}.",
            "Look in the logs of the other processes first: one that ended, or did not start yet, looks the same. Then "
            "check host names, ports, and the firewall.",
        ),
    ),
    (
        r"(?:No space left on device|ENOSPC|Disk quota exceeded)(?:[^\n]{0,40}?['\"](?P<path>[^'\"\n]{1,200})['\"])?",
        _cause(  # ENOSPC is also what a full /dev/shm and a full tmpfs give
            "disk",
            "Files need free space.",
            "no space is left[[ for {path}]].",
            "Free space there, or write elsewhere: checkpoints, --xla_dump_to, the compilation cache "
            "(JAX_COMPILATION_CACHE_DIR), /tmp, and /dev/shm fill disks.",
        ),
    ),
    (
        (
            r"(?:Permission denied|EACCES|Read-only file system|Operation not permitted)(?:[^\n]{0,40}?['\"]?"
            r"(?P<path>/[^'\"\s]{1,200}))?"
        ),
        _cause(  # EACCES and EPERM; a device file in a container is the usual one
            "permission",
            "The user of the process needs the right to open the file or device.",
            "{path} cannot be opened.",
            "Compare the owner and the mode (`ls -l`) with the user of the process (`id`); devices need a group such "
            "as "
            "render or video, or `docker run --device`.",
        ),
    ),
    (
        r"Too many open files|EMFILE",
        _cause(  # each process of a loader and each connection has one
            "open files",
            "A process may have a limited number of files and sockets open.",
            "the limit of open files is reached.",
            "Raise it (`ulimit -n 1048576`), or use fewer loader processes and connections.",
        ),
    ),
    (
        (
            r"(?P<library>lib[\w.+\-]{1,80}\.so[\w.]{0,20}): (?:cannot open shared object file|undefined symbol: "
            r"(?P<symbol>\w{1,200})|version `(?P<version>[\w.]{1,40})' not found)"
        ),
        _cause(  # the words of ld.so
            "shared library",
            "A program loads the libraries that it was linked with.",
            "{library} [[has no {symbol}|cannot be loaded]][[; it lacks {version}]].",
            "Install the package that has it, in the version that the program was built with; LD_LIBRARY_PATH may name "
            "an older one first.",
        ),
    ),
    (
        (
            r"(?:FileNotFoundError: \[Errno 2\] No such file or directory|No such file or directory|ENOENT)"
            r"(?:: ?['\"](?P<path>[^'\"\n]{1,300})['\"])?"
        ),
        _cause(  # ENOENT, with the path as Python and as C programs quote it
            "file",
            "A path names a file or folder that exists.",
            "{path} does not exist.",
            "Check the path, the working directory, and whether the folder is mounted in the container.",
        ),
    ),
)

# --- devices ---

# Codes before words: a message often has both, and the words of a code differ between releases.

_DEVICES: Final = (
    (
        (
            r"(?:TensileLibrary|Tensile|rocBLAS|hipBLASLt|MIOpen)[^\n]{0,200}?(?:GPU arch|architecture|device)[ :]{1,4}"
            r"(?P<target>gfx\w{3,6})"
        ),
        _cause(  # rocBLAS has files for the architectures that it was built for
            "architecture of a GPU",
            "rocBLAS has kernels for the architectures that it was built for.",
            "it has none for {target}.",
            "Use a build with {target}, or hide that GPU (HIP_VISIBLE_DEVICES), which is often one inside of the "
            "processor; "
            "HSA_OVERRIDE_GFX_VERSION makes it pass for a similar one, without guarantee.",
        ),
    ),
    (
        (
            r"[Uu]nable to find (?:an?|any) (?:valid )?(?:engine|algorithm|plan)[^\n]{0,120}|No valid engine configs|"
            r"no (?:engine|algorithm) (?:worked|found)"
        ),
        _cause(  # cuDNN's frontend, as PyTorch and XLA print it
            "engine of cuDNN",
            "cuDNN looks for an engine that supports the sizes, types, and layout of a convolution or attention.",
            "it found none that works.",
            "Usually memory for its workspace is missing, or the type or layout is unsupported on this GPU: free "
            "memory, use "
            "another type, or a newer cuDNN.",
        ),
    ),
    (
        r"HSA_STATUS_ERROR_(?P<hsa>\w{4,60})(?:[^\n]{0,400}?Available Free mem : (?P<free>[\d.]{1,12} ?[KMG]?B))?",
        _cause(  # the runtime below HIP
            "error of the ROCm runtime",
            "The runtime of ROCm needs memory, threads, and queues for each process.",
            "{hsa}[[; {free} of the GPU's memory are free]].",
            "OUT_OF_RESOURCES: free memory of the GPU and of the host, or use fewer processes and streams. Others: "
            "look at "
            "dmesg | grep amdgpu.",
        ),
    ),
    (
        r"workspace required: (?P<needed_bytes>\d{1,15}), provided[^\n]{0,60}?size: (?P<given_bytes>\d{1,15})",
        _cause(  # MIOpen goes on with a slower solver
            "workspace of a convolution",
            "A solver of MIOpen needs memory of its own; without it, a slower one is used.",
            "it needs {needed_bytes}, and was given {given_bytes}.",
            "Results do not change. Free memory, or tune once (MIOPEN_FIND_ENFORCE=search_db_update).",
        ),
    ),
    (
        (
            r"(?:[Ss]lice builder|SliceBuilder)[^\n]{0,80}?worker (?P<worker>\d{1,6})[^\n]{0,60}?topology "
            r"(?P<found_topology>[\dx]{3,20})"
            r"[^\n]{0,40}?expected (?P<wanted_topology>[\dx]{3,20})"
        ),
        _cause(  # all hosts of a slice are started with one topology
            "topology of a slice",
            "All hosts of a TPU slice are given the same topology when they start.",
            "worker {worker} has {found_topology}, the slice {wanted_topology}.",
            "Compare TPU_TOPOLOGY, TPU_HOST_BOUNDS, and the node's labels on that worker; a pod of another node pool "
            "in the "
            "job is the usual cause.",
        ),
    ),
    (
        (
            r"(?P<code>(?:CUDA_ERROR_|HIP_ERROR_)[A-Z0-9_]+|(?:cuda|hip)Error[A-Z]\w+|nccl[A-Z][a-z]\w*Error|ncclInvalid\w+"
            r"|ncclRemoteError|ncclSystemError|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS|ROCBLAS|CUFFT)_(?:STATUS_)?[A-Z_]{4,60}"
            r"|(?:cublas|cudnn|hipblas|rocblas|miopen)(?:_s|S)tatus_?\w{4,60})"
        ),
        _cause(  # the part after the prefix is looked up, so that codes of new libraries are known, too
            "code of a device library",
            "CUDA, HIP, and their libraries return a code for each call.",
            "{code}: {meaning}.",
            "{meaning_fix}",
        ),
    ),
    (
        (
            r"(?:CUDA|HIP|ROCm) (?:runtime )?error:? (?:(?P<number>\d{1,4})[:,]? "
            r")?(?P<device_words>[a-z][^\n;(]{4,160}?)(?:\.|$|\n| \()"
        ),
        _cause(  # the words of cudaGetErrorString and hipGetErrorString, as PyTorch prints them
            "error of a device",
            "CUDA and HIP report what failed on the device, often later than it happened.",
            "{device_words}[[: {meaning}]].",
            "{meaning_fix}",
        ),
    ),
    (
        r"unhandled (?P<part>cuda|system) error|NCCL error (?P<code>nccl\w+)",
        _cause(  # the words of ncclGetErrorString
            "collective at run time",
            "NCCL connects the devices of a collective when the program runs.",
            "a call of {part}{code} failed inside of NCCL.",
            "Set NCCL_DEBUG=INFO and read the first warning of any process: memory, peer access, /dev/shm, and the "
            "network are the usual causes.",
        ),
    ),
    (
        (
            r"(?P<why>(?:GPU|Unable to determine the device handle for GPU)[^\n]{0,80}(?:has fallen off the bus|is "
            r"lost)"
            r"|uncorrectable (?:ECC|NVLink) error[^\n]{0,120}|row remap\w{0,12}[^\n]{0,80}(?:fail|pending)[^\n]{0,60})"
        ),
        _cause(
            "fault of a GPU",
            "The driver or the device reports a fault of hardware.",
            "{why}.",
            "Drain the node, look at `nvidia-smi -q` and dmesg, and reset the GPU or reboot; the program is not at "
            "fault.",
        ),
    ),
    (
        r"(?:NVRM: API|Driver/library|kernel driver|driver and library|NVML: )[^\n]{0,60}version mismatch[^\n]{0,120}",
        _cause(  # nvidia-smi and NVML say it in several forms
            "driver",
            "The driver's library and its kernel module have one version.",
            "they differ.",
            "Reboot after an update of the driver, or load the new module (`rmmod nvidia`, `modprobe nvidia`).",
        ),
    ),
    (
        (
            r"(?:peer access is not supported between these two devices|P2P is disabled between|could not enable peer "
            r"access)"
        ),
        _cause(  # cuCtxEnablePeerAccess; ACS of the host bridge is the usual cause
            "peer access",
            "Collectives within a host read the memory of the other GPU directly where the hardware allows it.",
            "two GPUs cannot access each other's memory directly.",
            "NCCL_P2P_DISABLE=1 goes through the host; look at `nvidia-smi topo -m`, and switch off ACS in the "
            "firmware.",
        ),
    ),
    (
        (
            r"(?P<why>(?:Failed to (?:get|query|initialize)|Could not (?:find|open|load)|TPU "
            r"(?:initialization|driver)|No TPU)"
            r"[^\n]{0,60}(?:TPU|libtpu|accel|vfio)[^\n]{0,160})"
        ),
        _cause(  # words of several releases of libtpu and of its users
            "start of the TPU",
            "libtpu opens the chips of the host, and connects the hosts of a slice to each other.",
            "{why}.",
            "Check that no other process has the TPU, that all hosts of the slice run the same program, and that "
            "TPU_WORKER_HOSTNAMES and TPU_WORKER_ID fit (`tpu-info`).",
        ),
    ),
)

# --- programs ---

# Words of Python's own exceptions and of several frameworks; rules of one framework are in the other tables.

_NOT_A_NUMBER: Final = "A value became infinite or not a number."
_NOT_A_NUMBER_FIX: Final = (
    "Run with jax_debug_nans=True (JAX_DEBUG_NANS=1) to find the operation; look at the learning rate, at logarithms "
    "and divisions near 0, and at float16, whose largest value is 65,504 (bfloat16 has the range of float32)."
)

_PROGRAMS: Final = (
    (
        (
            r"cannot contain axis names that are of type (?P<types>[\w ]{2,40})[^\n]{0,200}?axis name: "
            r"?(?P<axis>\w{1,40}) of type: ?"
            r"(?P<type>[\w.]{1,40})"
        ),
        _cause(  # explicit sharding: a type has axes of its own kind only
            "axes of a mesh",
            "A sharding that is part of a type names axes of the type Explicit.",
            "the axis {axis} is {type}.",
            "Create the mesh with axis_types=(AxisType.Explicit, …), or use jax.lax.with_sharding_constraint for "
            "Auto axes.",
            is_program=True,
        ),
    ),
    (
        r"unhashable type: '(?P<type>[\w.]{1,100})'",
        _cause(  # arrays compare element by element, so they have no hash
            "hash of a value",
            "Keys of dicts and caches, and static arguments of jit, are hashable; arrays, lists, and dicts are not.",
            "{type} is not hashable.",
            "Pass arrays as arguments that are not static; use tuples and frozen dataclasses for settings.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:too many|not enough) values to unpack \(expected (?:at least )?(?P<wanted_count>\d{1,6})(?:, got "
            r"(?P<got_count>\d{1,6}))?\)"
        ),
        _cause(  # a function of another release, or a model, returns another number of values
            "unpacking of values",
            "An assignment to several names needs that number of values.",
            "{wanted_count} were expected[[, {got_count} came]].",
            f"Print what the call on that line returns: a function that now returns one value more or less is usual. "
            f"{_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        (
            r"(?P<package>[A-Z]\w{1,40}|[\w\-]{2,40}) is (?:required|not installed)[^\n]{0,100}?pip install "
            r"(?P<install>[\w\-\[\],]{1,60})"
        ),
        _cause(  # optional packages are asked for when they are used
            "missing package",
            "Some functions need packages that are not installed with the library.",
            "{package} is missing.",
            f"pip install {{install}}. {_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        (
            r"[Vv]ersion mismatch[^\n]{0,120}?(?P<found_version>\d+\.\d[\w.]{0,20})[^\n]{0,80}?"
            r"(?P<wanted_version>\d+\.\d[\w.]{0,20})"
            r"|(?:implements|has|provides|uses) "
            r"[^\n]{0,40}?(?P<has_version>\d+\.\d[\w.]{0,20})[^\n]{0,40}?(?:expects?|requires?|needs?)"
            r"[^\n]{0,40}?(?P<needs_version>\d+\.\d[\w.]{0,20})"
        ),
        _cause(  # a plugin, a driver, or a library of another release
            "version",
            "Parts of one program have releases that fit each other.",
            "{found_version}{has_version} meets {wanted_version}{needs_version}.",
            "Install both from one release, such as by pip install -U 'jax[cuda12]' or 'jax[tpu]', and remove older "
            "copies from "
            "the environment (pip list | grep -i jax).",
        ),
    ),
    (
        (
            r"[Ll]ayer \"?(?P<layer>[\w./\-]{1,80})\"? expected (?P<wanted_count>\d{1,6}) variables?, but received "
            r"(?P<got_count>\d{1,6})"
        ),
        _cause(  # a layer that was never called has no variables
            "variables of a layer",
            "A layer is loaded into variables that it made when it was built.",
            "{layer} expects {wanted_count}, the file has {got_count}.",
            "Build the model before loading (call it once on a batch), and load the file of the same architecture "
            "and release.",
            is_program=True,
        ),
    ),
    (
        r"(?P<dropped>\d[\d,]{0,14}) (?:events?|samples?|records?) (?:were |have been )?(?:dropped|lost|truncated)",
        _cause(  # a profiler has buffers of a fixed size
            "truncated recording",
            "A profiler records into buffers of a limited size, and drops what comes later.",
            "{dropped} events are missing, so times and counts of the recording are too low.",
            "Record fewer steps, or fewer details (host_tracer_level=1, python_tracer_level=0).",
        ),
    ),
    (
        (
            r"(?:same device|at least two devices|different devices|is on (?:device )?\S{1,40},? "
            r"(?:but|while|not))[^\n]{0,120}?"
            r"(?P<one>\b(?:cuda|cpu|xla|tpu|gpu|mps|TPU|CPU|GPU|TFRT_CPU)[:_]?\d{0,4})\b[^\n]{0,40}?"
            r"(?P<other>\b(?:cuda|cpu|xla|tpu|gpu|mps|TPU|CPU|GPU|TFRT_CPU)[:_]?\d{0,4})\b"
        ),
        _cause(  # PyTorch and JAX say it of arguments of one operation
            "device of an argument",
            "An operation takes arguments on one device.",
            "one is on {one}, another one on {other}.",
            "Move one of them first (x.to(y.device) in PyTorch, jax.device_put(x, y.sharding) in JAX): an input that "
            "was "
            "loaded, a constant, or a state that was made on another device is the usual one.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?P<rule>Differentiation|Transpose|Batching|MLIR translation|Abstract evaluation|Partial "
            r"evaluation|JVP|vmap) rule "
            r"(?:for|of) (?:primitive )?'?(?P<primitive>[\w.\-]{1,80})'? (?:is )?not (?:yet "
            r")?(?:implemented|found|defined)"
            r"(?: for platform (?P<platform>\w{1,20}))?"
        ),
        _cause(  # jax/_src/interpreters: each transformation has a rule for each primitive
            "rule of a primitive",
            "Each transformation of JAX needs a rule for each primitive in the function.",
            "{primitive} has none for {rule}[[ on {platform}]].",
            "Define one: jax.custom_vjp or custom_jvp for differentiation, jax.custom_batching.custom_vmap for vmap, "
            "mlir.register_lowering for a platform; or leave the call outside of the transformed function.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:[Cc]annot differentiate|grad requires real|differentiat\w{1,8} (?:through|with respect "
            r"to))[^\n]{0,120}?"
            r"(?P<type>\b(?:bool|u?int\d{1,2})\b(?:\[[\d, ]{0,60}\])?)"
        ),
        _cause(  # only numbers with a fraction have a derivative
            "type of a derivative",
            "Derivatives exist with respect to floating-point and complex values.",
            "an argument is {type}.",
            "Leave it out of argnums (eqx.partition, jax.grad(f, argnums=0)), cast it to a float, or set "
            "allow_int=True.",
            is_program=True,
        ),
    ),
    (
        r"Failed to parse (?:int|float|\w{1,12}) literal: (?P<literal>[^\s]{1,60})",
        _cause(  # xla/hlo/parser/hlo_lexer.cc
            "number in HLO text",
            "Whole numbers of HLO have at most 64 bits.",
            "{literal} does not fit.",
            "The text is damaged, or written by hand or by another tool: correct the number.",
            is_program=True,
        ),
    ),
    (
        r"\b(?:only|currently only|just) supports?\b",
        _cause(  # the words that TensorFlow and cuDNN have for it
            "unsupported operation",
            "A library or a backend supports a subset of operations, types, and shapes.",
            "{sentence}",
            "Use the form that the message names as supported, or run the operation on another device or by another "
            "library.",
        ),
    ),
    (
        r"KeyReuseError: (?P<why>[^\n]{1,200})",
        _cause(  # jax.experimental.key_reuse
            "random key",
            "A key of jax.random is used once: the same key gives the same numbers.",
            "{why}.",
            "Split the key before each use (key, sub = jax.random.split(key)), or use jax.random.fold_in(key, step).",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:AttributeError: (?:module '(?P<module>[\w.]{1,80})'|partially initialized module "
            r"'(?P<partial>[\w.]{1,80})'"
            r"[^\n]{0,60}) has no attribute '(?P<name>\w{1,80})'|ImportError: cannot import name "
            r"'(?P<imported>\w{1,80})' from "
            r"'(?P<source>[\w.]{1,80})'|ModuleNotFoundError: No module named '(?P<missing>[\w.]{1,80})')[^\n]{0,200}"
        ),
        _cause(  # Python says the same of a name that was never there
            "version of a package",
            "A package has the names of its own release: they are added, moved, and removed.",
            "[[{module} has no {name}|]][[{partial} has no {name} yet|]][[{source} has no {imported}|]][[{missing} "
            "is not "
            "installed|]].",
            "Install the releases that the program was written for (`pip index versions`, its requirements file), or "
            "use the new name, which the changelog of the package has. A file of your own with the name of a package "
            f"hides it. {_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:TypeError: )(?P<function>[\w.]{1,100}\(\)) (?P<why>(?:got an unexpected keyword|missing \d|takes "
            r"\d|got multiple)"
            r"[^\n]{1,200})"
        ),
        _cause(  # words of CPython's own check of arguments
            "arguments of a function",
            "A function takes the arguments of its own release.",
            "{function} {why}.",
            f"Compare with the signature in the installed release (help(f)); arguments are renamed between releases. "
            f"{_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        r"IndexError: (?P<what>tuple|list|string|range object)(?: assignment)? index out of range",
        _cause(  # words of CPython: a sequence has no dimensions
            "index of a sequence",
            "An index of a Python sequence is less than its length.",
            "a {what} of Python has no element at the index.",
            "The last line of the traceback names it: x.shape[1] where x has one dimension, or an element of "
            f"arguments, axes, or results that are fewer than expected. {_NO_HLO}",
            is_program=True,
        ),
    ),
    (
        (
            r"(?<!tuple.)(?<!list.)(?<!string.)(?<!object.)(?<!assignment.)"
            r"(?:[Ii]ndex|indices|IndexError(?!: (?:tuple|list|string|range object) ))\b:?"
            r"(?: [\w ]{0,20}?(?P<index>-?\d{1,12}))?[^\n]{0,60}? out of "
            r"(?:bounds|range)(?:[^\n]{0,60}?(?:size|with|\[0,) ?(?P<size>\d{1,12}))?"
        ),
        _cause(  # NumPy, PyTorch, and TensorFlow; JAX clamps instead
            "index",
            "An index is within its dimension.",
            "[[index {index}|an index]] is outside of [[a dimension of {size}|its dimension]].",
            "Look for token or label values outside of the table, and for a size that is one too small. Under jit, JAX "
            "clamps indices of reads and drops writes instead; jax.experimental.checkify finds these.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?P<why>(?:[Uu]nexpected key\(s\) in state_dict|[Mm]issing key\(s\) in state_dict"
            r"|\b[Mm]issing keys?\b(?!: (?:\[\]|0\b)|, 0)|\b[Uu]nexpected keys?\b(?!: (?:\[\]|0\b))"
            r"|not found in checkpoint|checkpoint (?:structure|tree|does not)|tree structures? (?:do|does) not match"
            r"|do not have the same structure)[^\n]{0,240})"
        ),
        _cause(  # load_state_dict of PyTorch, from_state_dict of Flax, and tree_map of JAX
            "structure of a tree",
            "A checkpoint, parameters, and a state have the keys of the model that made them.",
            "{why}",
            "Compare the keys of both (jax.tree_util.tree_map(jnp.shape, tree), state_dict().keys()): a renamed "
            "layer, a "
            "wrapper (module., params), or another version of the model or of the optimizer.",
            is_program=True,
        ),
    ),
    (
        r"(?P<why>\b[Ll]oss[ =:]{1,3}[-+]?(?:nan|NaN|inf)\b(?![.\-])[^\n]{0,160})",
        _cause(  # a line of a training loop has it among its other values
            "not a number",
            _NOT_A_NUMBER,
            "{why}.",
            _NOT_A_NUMBER_FIX,
            is_program=True,
            is_certain=True,
        ),
    ),
    (
        (
            r"(?P<why>(?:[Ll]oss is (?:nan|NaN|inf)\b|\b(?:nan|NaN|inf|Inf) (?:loss|gradient|detected|found|values? "
            r"(?:found|detected))\b(?!: ?0| so far)"
            r"|[Nn]on-finite (?:loss|gradient|value)|Gradient overflow|(?:[Rr]educing|[Ll]owering) loss scale)"
            r"[^\n]{0,160})"
        ),
        _cause(  # words of training loops, which no library fixes
            "not a number",
            _NOT_A_NUMBER,
            "{why}.",
            _NOT_A_NUMBER_FIX,
            is_program=True,
        ),
    ),
    (
        (
            r"is not (?:yet )?(?:implemented|supported)|not implemented (?:for|on|yet)|(?:is|are) unsupported"
            r"|[Uu]nsupported (?:op|operation|\w{1,12} "
            r"type|dtype|type|layout|device|platform|shape|format|combination)\b|NotImplementedError: "
        ),
        _cause(  # also of backends whose messages begin with UNIMPLEMENTED
            "unsupported operation",
            "A library or a backend supports a subset of operations, types, and shapes.",
            "{sentence}",
            "Use another type, layout, or operation that computes the same, or a release that has it; the release "
            "notes "
            "of the library name what was added.",
        ),
    ),
    (
        (
            r"(?:has been|was|were|is) (?:removed|deleted) (?:in|from|since|as of)|(?:is|are|was) deprecated|will be "
            r"removed"
            r"|DeprecationWarning|FutureWarning"
        ),
        _cause(  # words of the warnings module and of release notes in messages
            "removed or deprecated name",
            "A release announces that a name goes away, and removes it some releases later.",
            "{sentence}",
            "Use the new name that the message gives, or keep the release that has the old one. The results do not "
            "change until it is removed.",
            is_program=True,
        ),
    ),
    (
        (
            r"(?:requires?|needs?|expects?|depends on) (?P<package>[A-Za-z][\w\-]{1,40}) ?(?P<wanted_release>"
            r"(?:[<>=!~]=?|version) ?[\d.]{1,20}\w*)[^\n]{0,60}?(?:but|found|installed|got|have|you)[^\n]{0,60}?"
            r"(?P<found_release>\d\w{0,9}(?:[.+\-]\w{1,20}){0,6})"
        ),
        _cause(  # Python says the same of a name that was never there
            "version of a package",
            "Packages need releases of others that fit.",
            "{package} {wanted_release} is needed, {found_release} is installed.",
            f"Install releases that fit in one command (pip install -U 'jax[cuda12]' PACKAGE), in a fresh "
            f"environment. {_NO_HLO}",
        ),
    ),
)

# --- time ---

# Last of the causes: a time limit follows from another failure, whose words are often in the same text.

_TIMES: Final = (
    (
        (
            r"timed out|\b[Tt]imeout\b(?! ?[=:(]? ?\d|\.\w)|[Dd]eadline [Ee]xceeded|DEADLINE_EXCEEDED|did not respond"
            r"|\w(?:Timeout|TimedOut)\w*: |\b(?:no|missed|missing|lost|without) heartbeats?\b"
            r"|\bheartbeats? (?:timeout|failed|lost|missed)"
        ),
        _cause(  # absl's DEADLINE_EXCEEDED, Gloo, NCCL's watchdog, and gRPC
            "time limit",
            "Another process, or the network, did not answer in time.",
            "{sentence}",
            f"{FIRST_ERROR} A process that failed, is slow (compiling, loading, a checkpoint), or runs another program "
            f"never "
            "comes: `hlo diff HOST0/ HOST1/ …` names a host whose program differs.",
        ),
    ),
    (
        (
            r"(?P<why>(?:another task died|tasks? (?:died|failed|crashed)|peer (?:died|failed)|rank "
            r"(?P<rank>\d{1,6})[^\n]{0,40}"
            r"(?:failed|died|exited|crashed|aborted)|ChildFailedError|process (?P<process>\d{1,7}) "
            r"(?:died|exited|crashed|failed|was "
            r"killed|terminated))[^\n]{0,200})"
        ),
        _cause(  # torchrun, the coordination service, and MPI
            "dead process",
            "The processes of a job depend on each other: if one ends, the others are ended.",
            "{why}.",
            FIRST_ERROR,
        ),
    ),
)

# --- warnings that change nothing ---

# Logs begin with them, and people take them for the cause; so they count only if nothing else is in the text.

_HARMLESS_FIX: Final = "Nothing needs to be done: results do not change."

HARMLESS: Final = (
    (
        (
            r"Unexpectedly high number of iterations in HLO passes, exiting fixed point loop after (?P<limit>\d{1,6}) "
            r"iterations"
            r"(?: in (?P<pipeline>[\w\-]{1,80}))?"
        ),
        _cause(  # xla/hlo/pass/hlo_pass_fix.h
            "passes that do not come to rest",
            "XLA repeats a pipeline of passes until none changes the module, up to a limit.",
            "{pipeline} was ended after {limit} iterations.",
            "The program is right; compiling takes longer, and two passes may undo each other. A small dump helps "
            "XLA's "
            "developers: XLA_FLAGS=--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*",
        ),
    ),
    (
        r"Skipping the delay kernel, measurement accuracy will be reduced",
        _cause(  # xla/stream_executor/gpu/gpu_timer.cc
            "autotuning time",
            "Autotuning measures each candidate of a kernel after a kernel that delays the stream.",
            "the delay was omitted, so times are less accurate.",
            "It is harmless for results; autotuning may choose a slower candidate. A busy GPU or a profiler is the "
            "usual "
            "cause.",
        ),
    ),
    (
        r"Unable to register (?P<what>cuFFT|cuDNN|cuBLAS|\w+) factory|computation placer already registered",
        _cause(  # TensorFlow and jaxlib have copies of the same registries
            "registration",
            "Two libraries in one process (TensorFlow and jaxlib, or two copies) register the same functions.",
            "the second registration[[ of {what}]] is ignored.",
            _HARMLESS_FIX,
        ),
    ),
    (
        r"All log messages before absl::InitializeLog\(\) (?:is|are) called are written to STDERR",
        _cause(  # absl::InitializeLog is called late by JAX and TensorFlow
            "log", "The log starts before its settings are read.", "lines go to standard error.", _HARMLESS_FIX
        ),
    ),
    (
        r"This TensorFlow binary is optimized[^\n]{0,200}|rebuild TensorFlow with the appropriate compiler flags",
        _cause(  # tensorflow/core/platform/cpu_feature_guard.cc
            "build of TensorFlow",
            "TensorFlow lists instructions of the processor for which it was not compiled.",
            "the processor has more instructions than the build uses.",
            _HARMLESS_FIX,
        ),
    ),
    (
        (
            r"successful NUMA node read from SysFS had negative value \(-1\)[^\n]{0,80}|TF-TRT Warning: Could not "
            r"find TensorRT"
            r"|could not open file to read NUMA node[^\n]{0,120}"
        ),
        _cause(  # printed on each start
            "start of TensorFlow", "TensorFlow looks for NUMA nodes and TensorRT.", "it found none.", _HARMLESS_FIX
        ),
    ),
    (
        r"Could not find cuda drivers on your machine, GPU will not be used|No GPU/TPU found, falling back to CPU",
        _cause(  # written by TensorFlow and old releases of JAX
            "platform",
            "A framework looks for a GPU or TPU when it starts.",
            "none was found, so programs run on the CPU.",
            "Without a GPU in this machine nothing needs to be done; with one, install its driver and the build of the "
            "framework for it (jax[cuda12]).",
        ),
    ),
    (
        r"os\.fork\(\) was called\. os\.fork\(\) is incompatible with multithreaded code",
        _cause(  # jax/_src/xla_bridge.py
            "fork",
            "JAX has threads, and a fork copies only one of them, so the child may hang at a lock.",
            "a process was forked after JAX had started.",
            "Start processes by spawn or forkserver (multiprocessing.set_start_method('spawn')), or before JAX is "
            "used.",
        ),
    ),
    (
        r"Transparent hugepages are not enabled",
        _cause(  # libtpu's start
            "huge pages",
            "libtpu pins memory of the host, which is faster with huge pages.",
            "they are switched off, so starting and transfers may be slow.",
            "Set them as root: echo always > /sys/kernel/mm/transparent_hugepage/enabled. Results do not change.",
        ),
    ),
)

"""Warnings that change nothing but times."""

_CHECKS: Final = (
    (
        r"Check failed: (?P<check>[^\n]{1,600})",
        _cause(  # LOG(FATAL) and CHECK of absl and of c10: the process ends, whatever asked for the work
            "failed check",
            "Native code checks what it relies on, and ends the process where that does not hold: a bug of the library "
            "that the file belongs to, or of what it was given, such as libraries of different releases.",
            "[[{file}: ]]{check_words}[[, in {frame}]].",
            "{check_fix}",
        ),
    ),
)
"""Checks without a rule of their own."""

CAUSES: Final = (*_CLUSTER, *_DEVICES, *_PROCESSES, *_PROGRAMS, *_RESOURCES, *_TIMES, *_CHECKS, *HARMLESS)
"""Patterns of messages and their rules, for texts in which no rule of one message is found; the first group counts."""
