"""Where does the output go? Reports, modules, and messages: standard output, a file, standard error, a browser."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options.io_options import OutputOptions, is_terminal
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from
from hlo_cli.report.table_meanings import table_meaning
from hlo_cli.source import INTERNAL_ERROR, INTERNAL_ERROR_CODE, Diagnostic, HloError

if TYPE_CHECKING:
    from types import FrameType


# --- --table: one table of a report ---
# `--table`: the one table of a report that is written, the list of its tables, and the note about the others.


LIST: Final = "help"
"""The value of `--table` that lists the tables."""

_SHEETS: Final = ("csv", "tsv")
_ROW_FORMATS: Final = ("csv", "tsv", "jsonl")


def _with_table(report: Report, output: OutputOptions) -> Report:
    """The report reduced to the table that `--table` names, or to a list of its tables; itself without the option.

    >>> report = Report("lint", "", parts=(Table("rules", (Column("code", "rule"),), (("HLO101",),)),))
    >>> _with_table(report, OutputOptions(table="help")).main_table.rows
    (('rules', 1, 'rules'),)
    """
    if output.table is None:
        return report
    if output.table == LIST:
        return _list_of(report)
    return report.only(output.table, as_rows=_writes_rows(output) or bool(output.columns or output.sort))


def _writes_rows(output: OutputOptions) -> bool:
    """Whether the output has only rows: one record a line, of one table."""
    return output.format in _ROW_FORMATS or (output.format == "table" and not output.is_for_person)


def _check_table_options(output: OutputOptions, *, has_findings: bool) -> None:
    """Raises HloError for `--no-header`, `--spreadsheet`, and `--table` in a format without headers or tables.

    >>> _check_table_options(OutputOptions(format="json", header=False), has_findings=False)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --no-header cannot be used with --format json
    """
    if not output.header and (not _writes_rows(output) or output.format == "jsonl"):
        if output.format == "table":
            raise HloError("--no-header requires output to a pipe or a file", hint="use --format tsv or --format csv")
        raise HloError(f"--no-header cannot be used with --format {output.format}")
    if output.spreadsheet and output.format not in _SHEETS:
        raise HloError("--spreadsheet requires --format csv or tsv", hint="use -o FILE.csv")
    if output.table is not None and has_findings and output.format not in ("table", "full"):
        from hlo_cli.render.registry import format_names

        if output.format in format_names("findings"):
            raise HloError(f"--table cannot be used with --format {output.format}")


def _other_tables(report: Report, output: OutputOptions) -> Sequence[Diagnostic]:
    """A note that names the tables with rows that a pipe or a row format omits.

    It is for people: written if standard error is a terminal, or with `--verbose`, never into the log of a script.

    >>> tables = tuple(Table(name, (Column("code", "rule"),), (("HLO101",),)) for name in ("findings", "rules"))
    >>> note, = _other_tables(Report("lint", "", parts=tables), OutputOptions(format="csv", verbose=True))
    >>> note.message
    'showing table findings; use --table NAME for 1 other table: rules'
    """
    if output.table is not None or not _writes_rows(output) or not (is_terminal(2) or output.verbose):
        return ()
    if len(report.parts_with_rows) < 2:
        return ()
    main = report.main_table.name
    others = [table.name for table in report.tables if table.rows and table.name != main]
    if not others:
        return ()
    counted = format_count(len(others), "other tables")
    return (Diagnostic("note", f"showing table {main}; use --table NAME for {counted}: {', '.join(others)}"),)


def _formula_note(report: Report, output: OutputOptions) -> Sequence[Diagnostic]:
    """A note on the texts in a csv or tsv file that a spreadsheet would run; a program reads them as they are.

    >>> report = Report("parse", "", parts=(Table("rows", (Column("op_name", "op_name"),), (("=1+1",), ("add",))),))
    >>> _formula_note(report, OutputOptions(format="csv", path="x.csv"))[0].message
    '1 text in x.csv begins like a formula, which a spreadsheet runs'
    """
    if output.format not in _SHEETS or output.path is None or output.spreadsheet:
        return ()
    from hlo_cli.render.machine import field_of, rows_of, runs_in_spreadsheets

    rows = rows_of(report.main_table, output.style(1))
    count = sum(runs_in_spreadsheets(cell, field_of(cell)) for row in rows for cell in row if isinstance(cell, str))
    if not count:
        return ()
    verb, pronoun = ("begins", "a formula") if count == 1 else ("begin", "formulas")
    message = f"{format_count(count, 'texts')} in {output.path} {verb} like {pronoun}, which a spreadsheet runs"
    return (Diagnostic("note", message, hint="use --spreadsheet to quote such text"),)


def _list_of(report: Report) -> Report:
    """The tables of a report, the main one first."""
    main = report.main_table.name if report.tables else ""
    columns = (
        Column("table", "table", of=lambda table: table.name),
        Column("rows", "rows", "count", of=lambda table: len(table.rows)),
        Column("content", "content", of=lambda table: table_meaning(report.command, table.name)),
    )
    tables = sorted(report.tables, key=lambda table: table.name != main)
    rows = rows_from(columns, tables)
    answer = format_count(len(rows), "tables") + (f"; the main table is {main}" if main else "")
    table = Table("tables", columns, rows, noun="tables", limit=0)
    return replace(report, command=f"{report.command}-tables", answer=answer, numbers={}, parts=(table,), next=())


# --- writing of reports and files ---
# Output of reports, modules, and diagnostics: to standard output, to a file, to standard error.


_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""The values of `-o` for standard output, which is appended to: reopening a redirected file would truncate it."""
_RANDOM_BYTES: Final = 8
"""Bytes of the name of an unfinished file: nobody plants 2^64 links."""
_SIGNALED: Final = 128
"""What a shell adds to the number of the signal that ended a process, to make an exit code."""
_TEXT_EXTENSIONS = ("log", "out", "report", "screen", "table", "text", "txt")
"""Extensions of files in which a table is expected."""


def write_report(report: Report, output: OutputOptions, errors: Sequence[Diagnostic] = (), *, read: str = "") -> int:
    """Writes a report and the diagnostics of its input, and returns the exit code."""
    from hlo_cli.render.registry import renderer

    notes = (*(note for part in report.parts if part.kind == "table" for note in part.notes), *report.notes)
    whole = replace(report, notes=notes, errors=tuple(errors))
    _check_table_options(output, has_findings=whole.has_findings)
    arranged = _with_table(whole, output).arrange(columns=output.columns, sort=output.sort)
    lists_findings = whole.has_findings and (output.table is None or not _writes_rows(output))
    render = renderer(output.format, person=output.is_for_person, findings=lists_findings, graph=whole.has_graph)
    write(render(arranged, output.style(1)), output.path)
    if lists_findings and not errors and not any(part.kind == "findings" and part.found for part in whole.parts):
        notes = (*_answer_of_nothing(whole, output), *notes)
    notes = (*_other_tables(whole, output), *_extension_note(output), *_formula_note(arranged, output), *notes)
    return print_diagnostics(notes, errors, output, read=read)


def _answer_of_nothing(report: Report, output: OutputOptions) -> tuple[Diagnostic, ...]:
    """The answer of a check that found nothing, where lines of findings are all that is written.

    >>> [each.message for each in _answer_of_nothing(Report("lint", "No findings"), OutputOptions(format="github"))]
    ['no findings']
    """
    lists_alone = output.format == "github" or (output.format == "table" and not output.is_for_person)
    if not lists_alone or not report.answer:
        return ()
    return (Diagnostic("note", f"{report.answer[0].lower()}{report.answer[1:]}"),)


def is_page_file(output: OutputOptions) -> bool:
    """Whether the output is a file that a web browser shows, next to which other pages can be.

    >>> [is_page_file(OutputOptions(format="html", path=path)) for path in ("report.html", "-")]
    [True, False]
    """
    return output.format == "html" and output.path is not None and output.path not in _STANDARD_OUTPUT


def write_page(report: Report, path: str, *, ascii: bool) -> None:
    """Writes a report to a file as a page for web browsers, without its notes."""
    from hlo_cli.render.registry import renderer
    from hlo_cli.render.style import Style

    write(renderer("html", person=False)(report, Style(ascii=ascii)), path)


def note_written(output: OutputOptions, pages: Sequence[str] = (), remark: str = "") -> None:
    """Says on standard error which page was written, and its size; nothing for other formats and standard output.

    `pages` are those next to the page, which is their index; `remark` follows.
    """
    if is_page_file(output):
        _note_of(output, pages, remark)
        from click import get_current_context

        if (context := get_current_context(silent=True)) is not None:
            context.meta[_IS_NOTED] = True


def note_file(output: OutputOptions) -> None:
    """Says which file a command wrote for -o, and its size, unless `note_written` has said more of it."""
    from click import get_current_context

    if not get_current_context().meta.get(_IS_NOTED) and _is_new_file(output.path or ""):
        _note_of(output, (), "")


def _is_new_file(path: str) -> bool:
    return path not in _STANDARD_OUTPUT and os.path.isfile(path)


_IS_NOTED: Final = "hlo_cli.is_noted"
"""The key in click's context of a command that has told what it wrote."""


def _note_of(output: OutputOptions, pages: Sequence[str], remark: str) -> None:
    path = output.path or ""
    size = sum(map(os.path.getsize, (path, *pages)))
    what = f"{path} and {format_count(len(pages), 'pages')} next to it" if pages else path
    message = f"wrote {what} ({format_bytes(size)}){f'; {remark}' if remark else ''}"
    print_diagnostics((Diagnostic("note", message),), (), output)


def _extension_note(output: OutputOptions) -> tuple[Diagnostic, ...]:
    """A note on a table in a file whose extension is neither that of a format nor one of texts."""
    ending = os.path.splitext(output.path or "")[1]
    if output.is_format_given or output.format != "table" or not ending[1:].isalpha():
        return ()
    if ending[1:].lower() in _TEXT_EXTENSIONS:
        return ()
    message = f"no format has the extension {ending}; {output.path} contains a table"
    return (Diagnostic("note", message, hint="use --format to select a format"),)


def print_diagnostics(
    notes: Sequence[Diagnostic], errors: Sequence[Diagnostic], output: OutputOptions, *, read: str = ""
) -> int:
    """Writes notes and errors to standard error; the exit code is 2 if there are errors, 70 if one is a bug of ours."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if output.quiet:
        notes, errors = (), [replace(error, hint=None) for error in errors]
    if not (notes or errors):
        return 0
    from hlo_cli.render.draw.diagnostics import render_diagnostics, render_notes

    style = output.style(2)
    for chunk in render_notes(notes, style, verbose=output.verbose):
        _echo(chunk)
    for chunk in render_diagnostics(errors, style, summary=read) if errors else ():
        _echo(chunk)
    is_bug = any(INTERNAL_ERROR in error.message for error in errors)
    return INTERNAL_ERROR_CODE if is_bug else 2 if errors else 0


def _echo(chunk: str) -> None:
    from click import echo  # it knows the consoles of Windows; most answers have nothing to say there

    echo(chunk, err=True, nl=False, color=True)


def print_quoted(diagnostic: Diagnostic, output: OutputOptions) -> None:
    """Writes one diagnostic with its line and a caret to standard error, after the notes; nothing with --quiet."""
    if output.quiet:
        return
    from hlo_cli.render.draw.diagnostics import render_diagnostics

    for chunk in render_diagnostics((diagnostic,), output.style(2)):
        _echo(chunk)


def write(chunks: Iterable[str], path: str | None) -> None:
    """Writes text to standard output or to a file: to a regular file atomically, to a device in parts."""
    if path is None or path in _STANDARD_OUTPUT:
        if sys.stdout is None:
            raise _closed_stdout()
        for chunk in _blocks(chunks):
            sys.stdout.write(chunk)
        return
    _to_file((chunk.encode("utf-8", "surrogateescape") for chunk in _blocks(chunks)), path)


def write_bytes(chunks: Iterable[bytes], path: str | None) -> None:
    """Writes bytes in the same way, but never to a terminal."""
    if path is not None and path not in _STANDARD_OUTPUT:
        _to_file(chunks, path)
    elif is_terminal(1):
        raise HloError("refusing to write binary output to a terminal", hint="use -o FILE")
    elif sys.stdout is None:
        raise _closed_stdout()
    else:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)


def _closed_stdout() -> HloError:
    return HloError("stdout is closed", hint="use -o FILE")


def _to_file(chunks: Iterable[bytes], path: str) -> None:
    is_plain = os.path.isfile(path) or not os.path.exists(path)  # a pipe at /dev/fd has no real path
    try:
        if is_plain:
            atomic_write(chunks, os.path.realpath(path))
            return
        with open(path, "wb") as file:
            file.writelines(chunks)
    except OSError as error:
        raise HloError(f"cannot write {path}: {error.strerror or error}") from error


# --- files that are whole or absent ---


def atomic_write(chunks: Iterable[bytes], target: str) -> None:
    """Writes a file that is whole or absent, whatever happens, and keeps the mode of one that it replaces.

    It is written next to the target under a name that nobody can guess, and only if no such name exists: processes
    with the same number, in containers that share a folder, do not meet in one file, and a link planted there is not
    followed. OSError if it cannot be written.
    """
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "file is read-only", target)
    with removed_on_signals():
        temporary, descriptor = _new_file(os.path.dirname(target))
        try:
            with open(descriptor, "wb") as file:
                file.writelines(chunks)
            with suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _new_file(folder: str) -> tuple[str, int]:
    """The path and the descriptor of a file that did not exist, with the mode that the umask gives to new files."""
    while True:
        path = os.path.join(folder, f".hlo-{os.urandom(_RANDOM_BYTES).hex()}.part")
        with suppress(FileExistsError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)


class _Terminated(KeyboardInterrupt):
    """A signal to end, as an exception that nothing on the way takes for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def removed_on_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP exceptions, as SIGINT is one, so that unfinished files are removed before the end.

    Where they are ignored (`nohup`) or handled they stay so, and outside of the main thread nothing is done.
    """
    import signal

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Terminated(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = list[int]()
    try:
        for number in numbers:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, stop)
                handled.append(number)
    except ValueError:
        yield
        return
    try:
        yield
    except _Terminated as signaled:
        raise SystemExit(_SIGNALED + signaled.number) from None
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _blocks(chunks: Iterable[str], size: int = 1 << 16) -> Iterator[str]:
    """The chunks joined to blocks that are large enough for one system call each."""
    pending: list[str] = []
    length = 0
    for chunk in chunks:
        pending.append(chunk)
        length += len(chunk)
        if length >= size:
            yield "".join(pending)
            pending, length = [], 0
    yield "".join(pending)


# --- --open: the page in a browser ---
# `--open`: the page in a web browser.


def write_and_open(output: OutputOptions, name: str, write: Callable[[OutputOptions], int]) -> int:
    """Writes a page and shows it; returns the exit code of writing. The page has this name unless -o is given."""
    page = _page_to_open(output, name)
    code = write(page)
    assert page.path is not None
    _open_page(page.path)
    return code


def _page_to_open(output: OutputOptions, name: str) -> OutputOptions:
    """The output as a page that a browser can show: the file of -o, else one of this name in a new directory.

    >>> _page_to_open(OutputOptions(path="memory.html", format="html"), "report.html").path
    'memory.html'
    >>> _page_to_open(OutputOptions(path="memory.json", format="json"), "report.html")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --open requires an HTML page
      help: use -o FILE.html, or remove -o and --format
    """
    is_default = output.format == "table" and not output.is_format_given and output.path is None
    if is_page_file(output):
        return output
    if not is_default:
        raise HloError("--open requires an HTML page", hint="use -o FILE.html, or remove -o and --format")
    import tempfile  # not needed by the commands that write no page

    return replace(output, format="html", path=os.path.join(tempfile.mkdtemp(prefix="hlo-"), name))


def _open_page(path: str) -> None:
    """Shows a page in the web browser; HloError that names the page if there is none, as without a display."""
    import webbrowser
    from pathlib import Path

    try:
        is_shown = webbrowser.open(Path(path).absolute().as_uri())
    except (webbrowser.Error, OSError):
        is_shown = False
    if not is_shown:
        raise HloError("no web browser found", hint=f"open {path}")
