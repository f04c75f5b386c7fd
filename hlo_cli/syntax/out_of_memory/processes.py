"""Processes that the kernel, a container, or a scheduler stopped because they used too much memory."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.out_of_memory import OomAllocation, OomProcess
from hlo_cli.syntax.compiler_files.byte_texts import byte_number
from hlo_cli.syntax.out_of_memory.messages import FoundHead
from hlo_cli.syntax.out_of_memory.squeezed import Squeezed
from hlo_cli.syntax.out_of_memory.tables import Details

_STEP = re.compile(r"(?:StepId=|step)([0-9]{1,12}(?:[._][\w]{1,20}?)??)(?=\.?(?:Some|cgroup|$)|\.[A-Z]|[^\w.])")
_CGROUP_LIMIT = re.compile(r"usage([0-9]{1,16})kB,limit([0-9]{1,16})kB")
_EXIT_CODE = re.compile(r"[Ee]xit ?[Cc]ode:?([0-9]{1,3})")
_KILLED = re.compile(r"line [0-9]{1,6}:\s{1,9}([0-9]{1,9}) Killed\s{1,60}(\S{1,200})")
_USERS = re.compile(r"PID\s{1,20}MEM\(GB\)\s{1,20}COMMAND\s*\n")
_USER = re.compile(r"[ \t]*([0-9]{1,9})[ \t]{1,20}([0-9]{1,9}\.[0-9]{1,6})[ \t]{1,20}([^\n]{1,500})(?:\n|\Z)")
_NEAR: Final = 3000
_LONGEST_REASON: Final = 60


def process_of(found: FoundHead, squeezed: Squeezed) -> OomProcess | None:
    """The process in a message; None for messages of other kinds.

    >>> from hlo_cli.syntax.out_of_memory.messages import found_heads
    >>> from hlo_cli.syntax.out_of_memory.squeezed import squeeze
    >>> text = squeeze("Out of memory: Killed process 7 (python3) total-vm:4kB, anon-rss:2kB, file-rss:1kB")
    >>> process = process_of(found_heads(text)[0], text)
    >>> process.name, process.pid, process.virtual_bytes, process.resident_bytes
    ('python3', 7, 4096, 3072)
    """
    if found.head.kind not in ("linux-oom-killer", "kubernetes", "slurm", "ray", "process"):
        return None
    groups = found.groups
    resident = [size for name in ("anonymous", "file", "shared") if (size := found.size(name)) is not None]
    group = groups.get("memcg", "")
    if "step" in groups and (step := _STEP.match(squeezed.text, found.ends["step"] - len(groups["step"]))):
        group = step[1]
    name, pid = (
        squeezed.words(found.ends["process"] - len(groups["process"]), found.ends["process"])
        if "process" in groups
        else "",
        groups.get("pid"),
    )
    if found.head.kind in ("slurm", "process") and not name:
        begin = squeezed.origin(max(0, found.start - _NEAR))
        if killed := _KILLED.search(squeezed.source, begin, squeezed.end_origin(found.end) + 200):
            pid, name = killed[1], killed[2]
    exit_code = _EXIT_CODE.search(squeezed.text, max(0, found.start - 100), found.end + 100)
    is_container = found.head.kind == "kubernetes"
    process = OomProcess(
        name,
        int(pid) if pid else None,
        found.size("virtual"),
        sum(resident) if resident else found.size("resident"),
        found.size("anonymous"),
        group,
        _reason(found, squeezed),
        int(exit_code[1]) if exit_code and is_container else None,
    )
    return process if process != OomProcess() else None


def _reason(found: FoundHead, squeezed: Squeezed) -> str:
    """The word of the reporter: of the message, or the whole of a sign that is only a word."""
    if reason := found.groups.get("reason"):
        return reason
    if "group" in found.groups:
        return "CONSTRAINT_MEMCG"
    words = squeezed.words(found.start, found.end) if found.head.is_weak else ""
    return words if len(words) <= _LONGEST_REASON else ""


def process_limit(found: FoundHead, squeezed: Squeezed) -> int | None:
    """The limit of the control group in bytes, from the kernel's lines before the message."""
    if found.head.kind != "linux-oom-killer":
        return None
    limits = _CGROUP_LIMIT.search(squeezed.text, max(0, found.start - _NEAR), found.end)
    return int(limits[2]) * 1024 if limits else None


def memory_users(found: FoundHead, details: Details) -> tuple[OomAllocation, ...]:
    """The processes that Ray lists as the largest users of a node's memory, as allocations of kind `process`."""
    if found.head.kind != "ray" or (table := _USERS.search(details.source)) is None:
        return ()
    users = []
    at = table.end()
    while user := _USER.match(details.source, at):
        users.append(OomAllocation(byte_number(f"{user[2]}G"), label=user[3].strip(), kind="process"))
        at = user.end()
    return tuple(users)
