"""What the thread of a program did, by the events of its host: compiling, launching, reading input, or other work.

A profiler records functions of Python (`$train.py:12 step`), annotations of the user (`load batch`), and what the
runtime does (`PjitFunction(step)`). The innermost one whose name says what it is decides; whatever runs inside of a
compilation belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from hlo_cli.analysis.profile.event_columns import HOST, line_times, nested_order
from hlo_cli.analysis.profile.profile import WORKS, HostWork, Intervals, Work, union
from hlo_cli.ir.traces.trace import ABSENT, Line, Trace, distinct_of

MOST_EVENTS: Final = 300_000
"""The longest events of a thread that are looked at: a second of processor time."""
_LONG_PART: Final = 500
"""An event that no name explains counts if it takes this part of a step: shorter ones are no cause; chosen."""

_COPY: Final = "copy"  # of an array to a device: input, unless a launch does it for its arguments
_COPIES: Final = "H2D"  # H2D Dispatch, of a thread of PjRt
COPIES_WORDS: Final = "copies to the device"
_EAGER: Final = r"\$(?:array_methods|ufunc_api|ufuncs)\.py:|\$dispatch\.py:\d+ apply_primitive"
"""Python of JAX around each operation that runs alone, such as `x + 1` outside of jit."""
_EAGER_WORDS: Final = "operations outside of jit"
_NAMED: Final[tuple[tuple[str, Work | Literal["copy"]], ...]] = (
    # Events of the runtime and of JAX's own annotations: xla/pjrt, jaxlib/pjit.cc, jax/_src/{compiler,profiler}.py.
    (r"backend_compile|::Compile\b|::RunBackend\b|XlaCompile|PjRt\w*Compile|CompileAndLoad", "compiling"),
    # Python of JAX that traces and lowers a function, which only a call that was not compiled yet does.
    (
        r"\$(?:pjit|partial_eval|mlir|pxla|stages|compiler)\.py:\d+ \w*(?:trace_to_|lower|jaxpr|compil|infer_params)",
        "compiling",
    ),
    (r"\$gc collect|PythonRefManager::CollectGarbage|\bgc\.collect\b|PyGC", "host"),
    (r"Await\b|BlockHostUntilReady|block_until_ready|AwaitReady|Wait for LaunchOnDevice", "waiting"),
    (r"DevicePut|device_put|BufferFromHost|CopyToMemorySpace|TransferToDevice|^H2D", _COPY),
    (
        r"Infeed|IteratorGetNext|Iterator::|\$builtins next\b|\$\S+ (?:__next__|next_batch|get_batch|load_batch)\b",
        "input",
    ),
    (r"\$(?:\w*data_?load\w*|\w*dataset\w*|\w*iterator\w*|grain\w*)\.py:", "input"),
    (r"PjitFunction\(|LoadedExecutable::Execute|::ExecuteHelper|ExecuteReplicated|ExecutePrepare", "launching"),
    (_EAGER, "launching"),
    (r"LaunchKernel|GraphLaunch|LaunchOnDevice|ThunkExecutor::Execute", "launching"),
)
_INPUT_WORDS: Final = re.compile(
    r"(?<![a-z])(?:load(?:s|er|ing)?|data(?:set|loader)?|batch(?:es)?|inputs?|prefetch(?:ing)?|fetch(?:ing)?|"
    r"next|dequeue|tokeni[sz]\w*|augment\w*)(?![a-z])",
    re.IGNORECASE,
)
"""Words in annotations of users that read the input of a step."""
_FUNCTION: Final = re.compile(r"PjitFunction\((.*)\)$")
_FRAME: Final = re.compile(r"\$(?:(?P<file>[^\s:]+):(?P<line>\d+)|(?P<module>\S+)) (?P<name>.+)$")
_LOCK: Final = "$<unknown> acquire"
"""A method of a lock, which another thread holds if it takes long; CPython does not name its type."""
_RUNTIME: Final = re.compile(
    r"::|^ExecuteReplicated|^\w+\(|^end: |^\[\d+\]|#.*=|^(?:Handle|Parse|Allocate|Wait|Copy|shard_args|cpp_pjit)"
)
"""How events of the runtime look that say nothing here; what else has no `$` is the user's own annotation."""


def host_work(trace: Trace) -> HostWork | None:
    """What the thread did that runs the steps of a program, or that launches the most; None if the trace has none."""
    host = trace.plane(HOST)
    threads = HostThreads()
    for line in () if host is None else host.lines:
        threads.add(line)
    return threads.work()


class HostThreads:
    """Collects the threads of a host, one by one, so that the events of only one of them need to stay in memory."""

    def __init__(self) -> None:
        """There is no thread yet."""
        self.main: Line | None = None
        self._rank = 0, 0
        self._copies: list[Intervals] = []

    def add(self, line: Line) -> None:
        """Adds a thread; the main one is that with the most steps, else the one that spends most time on launches."""
        if not len(line.events):
            return
        kinds, (begins, durations) = line.events.kinds, line_times(line)
        names = {kind: each.name for kind, each in line.kinds.items()}
        launches = [kind for kind, name in names.items() if _named(name) == "launching"]
        rank = int((line.statistic("step_num").codes != ABSENT).sum()), int(durations[np.isin(kinds, launches)].sum())
        if rank > self._rank:
            self.main, self._rank = line, rank
        chosen = np.isin(kinds, [kind for kind, name in names.items() if name.startswith(_COPIES)])
        self._copies.append(union(begins[chosen], (begins + durations)[chosen]))

    def work(self) -> HostWork | None:
        """What the main thread did, and when arrays were copied: if it does not do that, the runtime does."""
        if self.main is None:
            return None
        copies = union(
            np.concatenate([each.begins for each in self._copies]), np.concatenate([each.ends for each in self._copies])
        )
        return _work_of(self.main, copies)


def _work_of(line: Line, copies: Intervals) -> HostWork:
    begins, durations = line_times(line)
    is_step = line.statistic("step_num").codes != ABSENT
    kinds = line.events.kinds
    names = {kind: line.kinds[kind].name if kind in line.kinds else "" for kind in distinct_of(kinds)[0].tolist()}
    is_named = np.isin(kinds, [kind for kind, name in names.items() if _named(name) is not None])
    steps = durations[is_step]
    least = int(np.median(steps)) // _LONG_PART if len(steps) else int(durations.max()) // _LONG_PART
    chosen = np.flatnonzero(~is_step & (durations > 0) & (is_named | (durations >= least)))
    if len(chosen) > MOST_EVENTS:
        chosen = np.sort(chosen[np.argsort(-durations[chosen], kind="stable")[:MOST_EVENTS]])
    chosen = chosen[nested_order(begins[chosen], durations[chosen])]
    times = begins[chosen].tolist(), (begins + durations)[chosen].tolist()
    events = zip(*times, (names[kind] for kind in kinds[chosen].tolist()), strict=True)
    rows: list[tuple[int, int, int, int]] = []
    labels: dict[str, int] = {}
    for begin, end, work, label in _running(events):
        rows.append((WORKS.index(work), begin, end, labels.setdefault(label, len(labels))))
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return HostWork(columns[0], columns[1], columns[2], columns[3], tuple(labels), copies)


class _Inside(NamedTuple):
    """What is known where nested events run: the innermost of each kind, as words; empty if there is none."""

    function: str = ""
    own: str = ""
    frame: str = ""
    is_launching: bool = False
    named: tuple[Work, str] | None = None
    now: tuple[Work, str] = "host", ""

    def with_event(self, name: str) -> _Inside:
        """What is known inside of an event."""
        work = _named(name)
        found = _FUNCTION.search(name)
        function = f"jit({found[1]})" if found else self.function
        is_own = not name.startswith("$") and not _RUNTIME.search(name)
        own = name if is_own else self.own
        named = self.named
        if named is not None and named[0] == "compiling":
            named = "compiling", function or named[1]
        elif work == _COPY:
            named = ("launching", function) if self.is_launching else ("input", COPIES_WORDS)
        elif work == "host":
            named = work, "garbage collection"
        elif work == "launching" and (_is_eager(name) or (named is not None and named[1] == _EAGER_WORDS)):
            named = work, _EAGER_WORDS
        elif work in ("compiling", "launching"):
            named = work, function or _words(name, "")
        elif work is not None:
            named = work, own or _words(name, self.frame)
        now = named or ("host", own or _words(name, self.frame))
        frame = name if ".py:" in name else self.frame
        return _Inside(function, own, frame, self.is_launching or work == "launching", named, now)


def _running(events: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, Work, str]]:
    """Intervals in which an event ran and none inside it did, with what it was; `events` are in nested order.

    >>> found = _running([(0, 9, "$a.py:1 f"), (2, 5, "load batch")])
    >>> [(begin, end, work) for begin, end, work, _ in found]
    [(0, 2, 'host'), (2, 5, 'input'), (5, 9, 'host')]
    """
    stack: list[tuple[int, _Inside]] = []  # the end of each event that runs
    reached = 0  # until when all is told
    for begin, end, name in events:
        while stack and stack[-1][0] <= begin:
            last, inside = stack.pop()
            if last > reached:
                yield reached, last, *inside.now
                reached = last
        if stack:
            end = min(end, stack[-1][0])  # one that outlasts the event in which it begins is taken for a part of it
            if begin > reached:
                yield reached, begin, *stack[-1][1].now
        reached = max(reached, begin) if stack else begin
        stack.append((end, (stack[-1][1] if stack else _Inside()).with_event(name)))
    while stack:
        last, inside = stack.pop()
        if last > reached:
            yield reached, last, *inside.now
            reached = last


def _named(name: str) -> Work | Literal["copy"] | None:
    """What the name of an event says that it is; None if nothing."""
    if name not in _KNOWN:
        if len(_KNOWN) > MOST_EVENTS:
            _KNOWN.clear()
        found = next((work for pattern, work in _patterns() if pattern(name)), None)
        is_own = found is None and not name.startswith("$") and not _RUNTIME.search(name)
        _KNOWN[name] = "input" if is_own and _INPUT_WORDS.search(name) else found
    return _KNOWN[name]


def _is_eager(name: str) -> bool:
    return name.startswith("$") and re.match(_EAGER, name) is not None


_KNOWN: Final[dict[str, Work | Literal["copy"] | None]] = {}


def _patterns() -> Iterator[tuple[Callable[[str], object], Work | Literal["copy"]]]:
    return ((re.compile(pattern).search, work) for pattern, work in _NAMED)


def _words(name: str, caller: str) -> str:
    """A function of Python as people write it, with the place of its caller.

    >>> _words("$time sleep", "$train.py:12 step"), _words("$train.py:12 step", "")
    ('time.sleep (step, train.py:12)', 'step (train.py:12)')
    """
    found, outer = _FRAME.match(name), _FRAME.match(caller)
    if found is None:
        return name
    where = f" ({outer['name']}, {outer['file']}:{outer['line']})" if outer and outer["file"] else ""
    if name == _LOCK:
        return f"lock.acquire{where}"
    if found["module"]:
        return f"{found['module']}.{found['name']}{where}"
    return f"{found['name']} ({found['file']}:{found['line']})"
