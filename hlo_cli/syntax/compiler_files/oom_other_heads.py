"""Out-of-memory messages that are not XLA's: other frameworks, the kernel, containers, and schedulers; weak signs."""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.compiler_files.oom_heads import Head

_TORCH_OLD: Final = (
    r"\(GPU (?P<device>[0-9]{1,4}); (?P<capacity><BYTES>) total capacity; (?P<in_use><BYTES>) already allocated; "
    r"(?P<limit><BYTES>) (?:bytes)? free; (?P<reserved><BYTES>) reserved"
)
_TORCH_NEW: Final = (
    r"GPU (?P<device2>[0-9]{1,4}) has a total capacity of (?P<capacity2><BYTES>) of which "
    r"(?P<limit2><BYTES>) (?:bytes)? is free"
)

OTHER_HEADS: Final = (
    Head(
        "pytorch",
        "run",
        "gpu",
        rf"out of memory\. (?:Tried to allocate (?P<used><BYTES>) \.? (?:{_TORCH_OLD}|{_TORCH_NEW})?)?",
        meaning="free",
        before="(?:CUDA|HIP|XPU)",
        needs_before=True,
    ),
    Head(
        "pytorch",
        "run",
        "gpu",
        r"MPS backend out of memory (?:\(MPS allocated: (?P<in_use><BYTES>), other allocations: (?P<other><BYTES>), "
        r"max allowed: (?P<limit><BYTES>)\))? \.? (?:Tried to allocate (?P<used><BYTES>))?",
        meaning="capacity",
    ),
    Head(
        "pytorch",
        "run",
        "cpu",
        r"DefaultCPUAllocator: (?:can.?t allocate|not enough) memory: you tried to allocate (?P<used><NUMBER>) bytes",
        "host",
    ),
    Head(
        "tensorflow",
        "run",
        None,
        r"OOM when allocating tensor with shape \[(?P<dimensions>[0-9, ]{0,200})\]"
        r"(?:and type (?P<type>u?int[0-9]{1,2}|bfloat16|float|half|double|bool|complex64|complex128"
        r"|[a-z0-9_]{1,12}?(?=on/))"
        r"(?:on (?P<place>/job:[\w/:]{1,200}?) (?:by allocator (?P<device>\w{1,12}_bfc|\w{1,40}))?(?=[^\w/:]|\Z))?)?",
    ),
    Head(
        "linux-oom-killer",
        "run",
        "cpu",
        r"Kill(?:ed)? process (?P<pid>[0-9]{1,9}) "
        r"\((?P<process>[^\n]{1,40}?)\),? (?:UID:? [0-9]{1,9},?)? (?:score [0-9]{1,5} or sacrifice child)?"
        r"(?:total-vm:(?P<virtual>[0-9,]{1,20})kB, anon-rss:(?P<anonymous>[0-9,]{1,20})kB"
        r", file-rss:(?P<file>[0-9,]{1,20})kB"
        r"(?:, shmem-rss:(?P<shared>[0-9,]{1,20})kB)?)?",
        "host",
        "limit",
        before="(?:(?P<group>Memory cgroup)? [Oo]ut of memory:)",
    ),
    Head(
        "linux-oom-killer",
        "run",
        "cpu",
        r"oom-kill: constraint=(?P<reason>CONSTRAINT_[A-Z_]{1,30}),"
        r"(?:[^\n]{0,1200}?task_memcg=(?P<memcg>[^,\n]{0,600}))?"
        r"(?:[^\n]{0,400}?task=(?P<process>[^,\n]{1,60}),pid=(?P<pid>[0-9]{1,9}))?",
        "host",
        "limit",
    ),
    Head(
        "slurm",
        "run",
        "cpu",
        r"Detected (?P<events>[0-9]{1,9}) oom[-_]kill event (?:\(s\)|s)? in (?P<step>(?:StepId=|step))",
        "host",
    ),
    Head("slurm", "run", "cpu", r"(?:Exceeded (?:job|step) memory limit|State: OUT_OF_MEMORY)", "host", is_weak=True),
    Head(
        "ray",
        "run",
        "cpu",
        r"Memory on the node (?:[^\n]{0,600}?name=(?P<process>[^,\n]{1,200}),pid=(?P<pid>[0-9]{1,9}),"
        r"memory used=(?P<resident><BYTES>))?[^\n]{0,300}? was (?:running was)? "
        r"(?P<used><BYTES>)/(?P<capacity><BYTES>) "
        r"\([0-9.]{1,12}\)(?:, which exceeds the memory usage threshold of (?P<threshold>[0-9](?:\.[0-9]{1,6})?))?",
        "host",
        "capacity",
    ),
    Head(
        "ray",
        "run",
        "cpu",
        r"Workers (?:\(tasks/actors\))? killed due to memory pressure",
        "host",
        is_weak=True,
    ),
    Head("ray", "run", "cpu", r"Task was killed due to the node running low on memory", "host", is_weak=True),
    Head(
        "ray",
        "run",
        "cpu",
        r"of the memory on node [\w.-]{1,80}? is used \((?P<used><BYTES>)/(?P<limit><BYTES>)\)",
        "host",
        "capacity",
    ),
    Head("kubernetes", "run", "cpu", r"OOMKilled", "host", is_weak=True),
    Head(
        "kubernetes",
        "run",
        "cpu",
        r"OOM killed \(container exceeded memory limit\)|Container was OOM killed",
        "host",
        is_weak=True,
    ),
    Head("process", "run", "cpu", r"Unable to allocate (?P<used><BYTES>) for an array with shape", "host"),
    Head("process", "run", "cpu", r"std::bad_alloc", "host", is_weak=True),
    Head("process", "run", "cpu", r"MemoryError(?=:|\Z)", "host", is_weak=True),
)
"""Messages of other programs."""

WEAK_HEADS: Final = (
    Head("tpu-hbm", "compile", "tpu", r"CompileTimeHbmOom", "hbm", "capacity", is_weak=True),
    Head("tpu-vmem-scoped", "compile", "tpu", r"CompileTimeScopedVmemOom", "vmem", "limit", is_weak=True),
    Head("tpu-sparse-core", "compile", "tpu", r"CompileTimeSparseCoreAllocationFailure", "SparseCore", is_weak=True),
    Head("tpu-load", "load", "tpu", r"RuntimeProgramAllocationFailure", "hbm", "reservable", is_weak=True),
    Head("tpu-buffer", "run", "tpu", r"RuntimeBufferAllocationFailure", "hbm", "free", is_weak=True),
    Head("linux-oom-killer", "run", "cpu", r"invoked oom-killer", "host", is_weak=True),
    Head("process", "run", "cpu", r"line [0-9]{1,6}: (?P<pid>[0-9]{1,9}) (?P<reason>Killed)", "host", is_weak=True),
    Head("gpu-driver", "run", "gpu", r"CUDA_ERROR_OUT_OF_MEMORY|HIP_ERROR_OutOfMemory", is_weak=True),
    Head("gpu-buffer-assignment", "run", "gpu", r"BufferAssignment OOM Debugging", is_weak=True),
    Head("gpu-allocator", "run", "gpu", r"RESOURCE_EXHAUSTED: failed to allocate memory", is_weak=True),
    Head("device", "run", None, r"(?:RESOURCE_EXHAUSTED|Resource exhausted): [Oo]ut of memory", is_weak=True),
)
"""Signs of a failure whose message is missing or was retold; they count if the text has no message."""
