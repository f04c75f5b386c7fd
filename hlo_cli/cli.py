"""The command line `hlo`: the table of its commands, the front screens, and the handling of errors.

The screens are plain text and need no imports: `hlo --help` takes little longer than starting Python.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

from hlo_cli._version import INTERRUPTED, __version__

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Final

    import click

    from hlo_cli.source import HloError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "overview": ("hlo_cli.commands.overview.command", "Say what runs, whether it fits, and what costs most"),
    "parse": ("hlo_cli.commands.parse.command", "Summarize a module, or explain one instruction"),
    "layout": ("hlo_cli.commands.layout.command", "Explain a layout, or find memory lost to padding"),
    "tile-index": ("hlo_cli.commands.tile_index.command", "Map array elements to memory addresses and back"),
    "memspace": ("hlo_cli.commands.memspace.command", "Show memory use, live ranges, and the peak"),
    "schedule": ("hlo_cli.commands.schedule.command", "Show async operations, overlap, and exposed transfers"),
    "fuse": ("hlo_cli.commands.fuse.command", "List fusions, kernels, and costs; try other fusions"),
    "kernel": ("hlo_cli.commands.kernel.command", "Show what Pallas and Triton kernels read, hold, and compute"),
    "shard": ("hlo_cli.commands.shard.command", "Show shards, replication, and collectives by mesh axis"),
    "diff": ("hlo_cli.commands.diff.command", "Compare two modules by structure"),
    "graph": ("hlo_cli.commands.graph.command", "Draw the dataflow of a module as a page, SVG, or DOT"),
    "report": ("hlo_cli.commands.report.command", "Write one page with memory, time, and findings"),
    "profile": ("hlo_cli.commands.profile.command", "Show measured times from a profiler's trace"),
    "run": ("hlo_cli.commands.run.command", "Evaluate a module without XLA; compare two"),
    "reduce": ("hlo_cli.commands.reduce.command", "Find the smallest module that still fails"),
    "bisect": ("hlo_cli.commands.bisect.command", "Find the pass, flag, version, or change that fails"),
    "lint": ("hlo_cli.commands.lint.command", "Check modules for errors and inefficiencies"),
    "help": ("hlo_cli.commands.help.command", "Show help for a topic or a command"),
}
"""Every command: the module with its `command`, and its summary."""

QUESTIONS: Final = (
    ("What runs, and what costs most?", "hlo overview DUMP"),
    ("What is in this dump?", "hlo parse DUMP"),
    ("What does this layout mean?", "hlo layout SHAPE"),
    ("How much memory is lost to padding?", "hlo layout DUMP"),
    ("Where in memory is element (37,5)?", "hlo tile-index SHAPE 37,5"),
    ("What uses memory at the peak?", "hlo memspace DUMP"),
    ("Which transfers are not overlapped?", "hlo schedule DUMP"),
    ("What was fused, and what did it save?", "hlo fuse DUMP"),
    ("What does a kernel read, hold, and compute?", "hlo kernel DUMP"),
    ("What does each device hold?", "hlo shard DUMP"),
    ("Which bytes travel along which mesh axis?", "hlo shard DUMP --comms"),
    ("What changed between two dumps?", "hlo diff OLD NEW"),
    ("What is wrong or wasteful here?", "hlo lint DUMP"),
    ("Do two dumps compute the same?", "hlo run OLD --against NEW"),
    ("What is the least that still fails?", "hlo reduce NEW --against OLD"),
    ("Which pass, flag, or change is to blame?", "hlo bisect DUMP"),
    ("Where did the measured time go?", "hlo profile TRACE"),
    ("How are instructions connected?", "hlo graph DUMP -o graph.html"),
    ("How do I show all of this to others?", "hlo report DUMP -o report.html"),
)

COMPLETION_VARIABLE: Final = "_HLO_COMPLETE"

_OF_SHAPES: Final = ("layout", "tile-index")
"""The commands whose inputs may be shapes."""

_LONGEST_COMMAND: Final = 300
"""Characters of the command in the line about an internal error; a pasted text may be an argument."""

_NOT_KEPT: Final = ("bisect", "graph", "help", "profile", "reduce", "report", "run", "tile-index")
"""Commands whose answers are not kept: those that write files or run code, and those that read traces by their age."""

_COLLECTED_AFTER: Final = 50_000
"""Threshold of the garbage collector: objects that a command imports and reads stay live until it ends."""


def main(arguments: Sequence[str] | None = None, *, standalone: bool = True) -> int:
    """Runs one command line and returns its exit code; if `standalone`, ends the process with that code instead."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if standalone:
            gc.set_threshold(_COLLECTED_AFTER)
            _prepare_streams()
        code = _answer(words) if standalone else _dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # `hlo … | head` closes the pipe on purpose: no error
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except MemoryError:  # what was read is freed by now; the message itself needs little
        code = _print_error("out of memory")
    except OSError as error:
        code = _print_error(f"{error.filename or 'output'}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - the last handler: what is not foreseen is a bug, and never "findings"
        code = _report_internal_error(error, words)
    if standalone:
        os._exit(code)  # everything is written; freeing a large module object by object would only take time
    return code


def questions_screen() -> str:
    """The text of `hlo` without arguments: questions, with the command that answers each."""
    width = max(len(question) for question, _ in QUESTIONS)
    rows = "\n".join(f"  {question:<{width}}  {line}" for question, line in QUESTIONS)
    return f"""\
hlo explains XLA HLO dumps: layouts, memory, overlap, fusion, and changes.

{rows}

DUMP is a file, a directory written by --xla_dump_to, or - for stdin.
Without a command, `hlo FILE` explains any dump, error message, or shape.
Run `hlo COMMAND -h` for options, `hlo help` for topics, and `hlo help dump` to
learn how to create a dump.
"""


def help_screen() -> str:
    """The text of `hlo --help`."""
    rows = "\n".join(f"  {name:<12}{summary}" for name, (_, summary) in COMMANDS.items())
    return f"""\
Usage: hlo COMMAND [OPTIONS] [INPUT]...
       hlo INPUT

Explain XLA HLO dumps from TPU, GPU, and CPU. No XLA or accelerator needed.
Without a command, `hlo FILE` explains any dump, error message, or shape.

Examples:
  hlo dump/
  hlo lint dump/
  hlo layout 'bf16[300,70]{{1,0:T(8,128)(2,1)}}'

Commands:
{rows}

Options of most commands:
  --format FORMAT  Set the output format: table, screen, json, csv, md, ...
  --json           Write JSON, like --format json.
  -o FILE          Write output to FILE; its extension selects the format.
  --top N          Show at most N rows; 0 shows all.
  --sort COLUMN    Sort rows by COLUMN; prefix with - to reverse the order.
  -q, --quiet      Hide notes, hints, and progress bars.
  -h, --help       Show help: common options with -h, all with --help.

Options:
  -V, --version    Show the version and exit.

Run `hlo help` to list topics: layouts, memory, dumps, filters, and more.

Exit codes: 0 success, 1 findings, or differences with --exit-code, 2 usage
error or unreadable input.
"""


def _answer(arguments: list[str]) -> int:
    """Runs a command line, unless its answer is kept since it was run last."""
    environment = os.environ
    is_off = environment.get("HLO_CACHE") == "0" or environment.get("CI") or COMPLETION_VARIABLE in environment
    first = arguments[0] if arguments else "-"
    if is_off or first.startswith("-") or first in _NOT_KEPT:
        return _dispatch(arguments)
    from hlo_cli.commands.front.kept_answers import answer

    return answer(arguments, _dispatch)


def _dispatch(arguments: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        return _complete(os.environ[COMPLETION_VARIABLE])
    first = arguments[0] if arguments else ""
    if not arguments:
        return _answer_stdin()
    if first in ("-h", "--help"):
        print(help_screen(), end="")
    elif first in ("-V", "--version"):
        print(f"hlo {__version__}{_reader() if not {'-v', '--verbose'}.isdisjoint(arguments) else ''}")
    else:
        return _run(arguments)
    return 0


def _reader() -> str:
    from hlo_cli.commands.front.command_table import reader_of_lines

    return f" (lines are read {reader_of_lines()})"


def _answer_stdin() -> int:
    """Explains what is piped to `hlo` without arguments; without a pipe, the questions."""
    from hlo_cli.commands.front.stdin import has_content

    _watch_stdin(())
    if has_content():
        return _run(["overview", "-"])
    print(questions_screen(), end="")
    return 0


def _run(arguments: list[str]) -> int:
    if arguments[0] in _OF_SHAPES or arguments[0] not in COMMANDS:
        sys.modules.setdefault("inspect", _Later("inspect"))
        from hlo_cli.commands.front.plain_shapes import answered

        if (code := answered(arguments)) is not None:
            return code
    import click

    from hlo_cli.commands.front.command_table import CommandTable, error_of, show
    from hlo_cli.source import HloError

    _watch_stdin(arguments)
    table = CommandTable(COMMANDS, _unknown_word)
    try:
        if arguments[0] not in COMMANDS:
            from hlo_cli.commands.front.first_word import with_command

            arguments = with_command(arguments, COMMANDS)
        with table.make_context("hlo", arguments, obj=_answer_error) as context:
            code = table.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        show(error_of(error, arguments), arguments)
        return 2
    except HloError as error:
        show(error, arguments)
        return 2
    return int(code or 0)


class _Later(type(sys)):  # type: ignore[misc]  # the type of modules, without an import
    """A module that is imported when something in it is used.

    `dataclasses` imports `inspect`, of which nothing is used here, and which takes as long as a third of an answer.
    """

    def __getattr__(self, name: str) -> object:
        """The attribute of the module itself, which is the one that is imported from now on."""
        own = str(self.__dict__["__name__"])
        if sys.modules.get(own) is self:
            del sys.modules[own]
        module = __import__(own)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


def _watch_stdin(arguments: Collection[str]) -> None:
    """Shows a note on a terminal while standard input is awaited."""
    if sys.stderr is not None and sys.stderr.isatty():
        from hlo_cli.commands.front.stdin import watch_stdin

        watch_stdin(arguments)


def _unknown_word(word: str, commands: Sequence[str]) -> HloError:
    from hlo_cli.commands.front.first_word import unknown_word_error

    return unknown_word_error(word, commands)


def _answer_error(error: HloError, context: click.Context) -> int:
    """Answers a text that is not a module; other errors are raised again."""
    from hlo_cli.commands.pasted.answer import answer_error

    return answer_error(error, context)


def _prepare_streams() -> None:
    """Makes standard output a buffered stream that escapes what it cannot encode, or one that reports it is closed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _buffered(sys.stdout)
        sys.stdout.reconfigure(errors="backslashreplace")
    elif sys.stdout is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:  # else the next file that is opened would be standard output
            pass
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_ClosedOutput()), encoding="utf-8")


class _ClosedOutput(io.RawIOBase):
    """Standard output that the caller closed (`>&-`): nothing can be written, which must not pass for success."""

    def writable(self) -> bool:
        """Always true, so that the error is that of the write."""
        return True

    def write(self, data: object, /) -> int:
        """Raises the system's error for a closed file."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout is closed")


def _buffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The stream with a buffer: an unbuffered one (PYTHONUNBUFFERED) hides that a full disk truncated a text."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    raw, encoding = stream.buffer, stream.encoding
    stream.detach()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding)


def _complete(instruction: str) -> int:
    from click.shell_completion import shell_complete

    from hlo_cli.commands.front.command_table import CommandTable

    return shell_complete(CommandTable(COMMANDS), {}, "hlo", COMPLETION_VARIABLE, instruction)


def _print_error(message: str) -> int:
    if sys.stderr is not None:
        print(f"error: {message}", file=sys.stderr)
    return 2


def _report_internal_error(error: Exception, words: Sequence[str]) -> int:
    """Writes one line for a bug report, with the traceback if requested, and returns the exit code."""
    from shlex import join

    from hlo_cli.source import INTERNAL_ERROR_CODE, internal_error, print_traceback, printable

    command = printable(join(("hlo", *words)))
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[:_LONGEST_COMMAND]}…"
    if not {"-v", "--verbose"}.isdisjoint(words):
        os.environ["HLO_TRACEBACK"] = "1"
    print_traceback(error)
    more = "" if os.environ.get("HLO_TRACEBACK") else "; HLO_TRACEBACK=1 shows the traceback"
    _print_error(f"{internal_error(error)}, command: {command}{more}")
    return INTERNAL_ERROR_CODE
