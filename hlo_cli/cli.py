"""The command line `hlo`: the table of its commands, the front screens, and the handling of errors.

The screens are plain text and need no imports: `hlo --help` takes little longer than starting Python.
"""

from __future__ import annotations

import gc
import io
import os
import sys

from hlo_cli._version import __version__

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "parse": ("hlo_cli.commands.parse.command", "what is in a dump; one instruction taken apart"),
    "layout": ("hlo_cli.commands.layout.command", "what a layout means; what padding costs"),
    "tile-index": ("hlo_cli.commands.tile_index.command", "where an element lies, and what lies at an address"),
    "memspace": ("hlo_cli.commands.memspace.command", "what fills each memory, and when"),
    "schedule": ("hlo_cli.commands.schedule.command", "what overlaps, what waits"),
    "fuse": ("hlo_cli.commands.fuse.command", "what is fused, what it saves; costs"),
    "diff": ("hlo_cli.commands.diff.command", "what changed between two dumps, whatever the names"),
    "lint": ("hlo_cli.commands.lint.command", "what is wrong, and what costs too much"),
    "help": ("hlo_cli.commands.help.command", "how to make a dump; the language of --where"),
}
"""Every command: the module with its `command`, and its summary."""

QUESTIONS: Final = (
    ("What is in this dump?", "hlo parse DUMP"),
    ("What does this layout mean?", "hlo layout SHAPE"),
    ("What is padding, and what would not be?", "hlo layout DUMP"),
    ("Where in memory is element (37,5)?", "hlo tile-index SHAPE 37,5"),
    ("What fills the memory?", "hlo memspace DUMP"),
    ("What waits for communication?", "hlo schedule DUMP"),
    ("What was fused, and what did it save?", "hlo fuse DUMP"),
    ("What changed?", "hlo diff OLD NEW"),
    ("Is it fit to ship?", "hlo lint DUMP"),
)

COMPLETION_VARIABLE: Final = "_HLO_COMPLETE"

_COLLECTED_AFTER: Final = 50_000
"""Threshold of the garbage collector: objects that a command imports and reads stay live until it ends."""


def main(arguments: Sequence[str] | None = None, *, standalone: bool = True) -> int:
    """Runs one command line and returns its exit code; if `standalone`, ends the process with that code instead."""
    if standalone:
        gc.set_threshold(_COLLECTED_AFTER)
    if standalone and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _written_whole(sys.stdout)
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _answer(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = 0
    except KeyboardInterrupt:
        code = 130
    except MemoryError:
        code = _complain("there is not enough memory for this")
    except OSError as error:
        code = _complain(f"{error.filename or 'output'}: {error.strerror or error}")
    if standalone:
        os._exit(code)  # everything is written; freeing a large module object by object would only take time
    return code


def questions_screen() -> str:
    """The text of `hlo` without arguments: the questions that it answers."""
    rows = "\n".join(f"  {question:<43}{line}" for question, line in QUESTIONS)
    return f"""\
hlo answers questions about XLA dumps.

{rows}

DUMP is a file, a directory that --xla_dump_to wrote, or - for standard input.
hlo COMMAND --help, hlo help dump (how to make one)
"""


def help_screen() -> str:
    """The text of `hlo --help`."""
    rows = "\n".join(f"  {name:<12}{summary}" for name, (_, summary) in COMMANDS.items())
    return f"""\
Usage: hlo COMMAND [OPTIONS] [INPUT]...

Answers questions about XLA HLO dumps.

{rows}

  --format FORMAT  table screen json jsonl csv tsv md     -o FILE
  --top N --sort COLUMN --columns LIST --color WHEN --ascii

Examples:
  hlo layout 'bf16[300,70]{{1,0:T(8,128)(2,1)}}'
  hlo help dump

Exit 0: fine. 1: findings or differences. 2: usage or bad input.
"""


def _answer(arguments: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        return _complete(os.environ[COMPLETION_VARIABLE])
    first = arguments[0] if arguments else ""
    if not arguments:
        print(questions_screen(), end="")
    elif first in ("-h", "--help"):
        print(help_screen(), end="")
    elif first == "--version":
        print(f"hlo {__version__}")
    else:
        return _run(arguments)
    return 0


def _run(arguments: list[str]) -> int:
    import click

    from hlo_cli.commands.shared.group import CommandTable, error_of, show
    from hlo_cli.source import HloError

    table = CommandTable(COMMANDS)
    try:
        with table.make_context("hlo", arguments) as context:
            code = table.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        show(error_of(error), arguments)
        return 2
    except HloError as error:
        show(error, arguments)
        return 2
    return int(code or 0)


def _written_whole(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The stream with a buffer: an unbuffered one (PYTHONUNBUFFERED) hides that a full disk truncated a text."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    raw, encoding = stream.buffer, stream.encoding
    stream.detach()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding)


def _complete(instruction: str) -> int:
    from click.shell_completion import shell_complete

    from hlo_cli.commands.shared.group import CommandTable

    return shell_complete(CommandTable(COMMANDS), {}, "hlo", COMPLETION_VARIABLE, instruction)


def _complain(message: str) -> int:
    if sys.stderr is not None:
        print(f"error: {message}", file=sys.stderr)
    return 2
