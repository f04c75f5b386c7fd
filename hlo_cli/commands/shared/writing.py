"""Output of reports, modules, and diagnostics: to standard output, to a file, to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.shared.io_options import OutputOptions, is_terminal
from hlo_cli.commands.shared.tables import check_table_options, other_tables, with_table, writes_rows
from hlo_cli.source import INTERNAL_ERROR, INTERNAL_ERROR_CODE, Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.report.report import Report

_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""The values of `-o` for standard output, which is appended to: reopening a redirected file would truncate it."""
_TEXT_EXTENSIONS = ("log", "out", "report", "screen", "table", "text", "txt")
"""Extensions of files in which a table is expected."""


def write_report(report: Report, output: OutputOptions, errors: Sequence[Diagnostic] = (), *, read: str = "") -> int:
    """Writes a report and the diagnostics of its input, and returns the exit code."""
    from hlo_cli.render.registry import renderer

    notes = (*(note for part in report.parts if part.kind == "table" for note in part.notes), *report.notes)
    whole = replace(report, notes=notes, errors=tuple(errors))
    check_table_options(output, has_findings=whole.has_findings)
    arranged = with_table(whole, output).arrange(columns=output.columns, sort=output.sort)
    lists_findings = whole.has_findings and (output.table is None or not writes_rows(output))
    render = renderer(output.format, person=output.is_for_person, findings=lists_findings, graph=whole.has_graph)
    write(render(arranged, output.style(1)), output.path)
    notes = (*other_tables(whole, output), *_extension_note(output), *notes)
    return print_diagnostics(notes, errors, output, read=read)


def is_page_file(output: OutputOptions) -> bool:
    """Whether the output is a file that a web browser shows, next to which other pages can be.

    >>> is_page_file(OutputOptions("html", "report.html")), is_page_file(OutputOptions("html", "-"))
    (True, False)
    """
    return output.format == "html" and output.path is not None and output.path not in _STANDARD_OUTPUT


def write_page(report: Report, path: str, *, ascii: bool) -> None:
    """Writes a report to a file as a page for web browsers, without its notes."""
    from hlo_cli.render.registry import renderer
    from hlo_cli.render.style import Style

    write(renderer("html", person=False)(report, Style(ascii=ascii)), path)


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
        notes, errors = (), [replace(each, hint=None) for each in errors]
    if not (notes or errors):
        return 0
    from hlo_cli.render.draw.diagnostics import render_diagnostics, render_notes

    style = output.style(2)
    for chunk in render_notes(notes, style, verbose=output.verbose):
        click.echo(chunk, err=True, nl=False, color=True)
    for chunk in render_diagnostics(errors, style, summary=read) if errors else ():
        click.echo(chunk, err=True, nl=False, color=True)
    is_bug = any(INTERNAL_ERROR in each.message for each in errors)
    return INTERNAL_ERROR_CODE if is_bug else 2 if errors else 0


def print_quoted(diagnostic: Diagnostic, output: OutputOptions) -> None:
    """Writes one diagnostic with its line and a caret to standard error, after the notes; nothing with --quiet."""
    if output.quiet:
        return
    from hlo_cli.render.draw.diagnostics import render_diagnostics

    for chunk in render_diagnostics((diagnostic,), output.style(2)):
        click.echo(chunk, err=True, nl=False, color=True)


def write(chunks: Iterable[str], path: str | None) -> None:
    """Writes text to standard output or to a file: to a regular file atomically, to a device in parts."""
    if path is None or path in _STANDARD_OUTPUT:
        for chunk in _blocks(chunks) if sys.stdout is not None else ():
            sys.stdout.write(chunk)
        return
    _to_file((chunk.encode("utf-8", "surrogateescape") for chunk in _blocks(chunks)), path)


def write_bytes(chunks: Iterable[bytes], path: str | None) -> None:
    """Writes bytes in the same way, but never to a terminal."""
    if path is not None and path not in _STANDARD_OUTPUT:
        _to_file(chunks, path)
    elif is_terminal(1):
        raise HloError("refusing to write binary output to a terminal", hint="use -o FILE")
    elif sys.stdout is not None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)


def _to_file(chunks: Iterable[bytes], path: str) -> None:
    target = os.path.realpath(path)
    is_plain = os.path.isfile(path) or not os.path.exists(path)  # a pipe at /dev/fd has no real path
    if is_plain and os.path.exists(target) and not os.access(target, os.W_OK):
        raise HloError(f"cannot write {path}: file is read-only")
    temporary = f"{target}.{os.getpid()}.part" if is_plain else path
    try:
        with open(temporary, "wb") as file:
            file.writelines(chunks)
        if is_plain:
            if os.path.exists(target):
                from shutil import copymode

                copymode(target, temporary)
            os.replace(temporary, target)
    except OSError as error:
        raise HloError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if is_plain:
            with suppress(OSError):
                os.unlink(temporary)


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
