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
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.report.report import Report

_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""The values of `-o` for standard output, which is appended to: reopening a redirected file would truncate it."""


def write_report(report: Report, output: OutputOptions, errors: Sequence[Diagnostic] = (), *, read: str = "") -> int:
    """Writes a report and the diagnostics of its input, and returns the exit code."""
    from hlo_cli.render.registry import renderer

    notes = (*(note for part in report.parts if part.kind == "table" for note in part.notes), *report.notes)
    whole = replace(report, notes=notes, errors=tuple(errors))
    arranged = whole.arrange(columns=output.columns, sort=output.sort)
    style = output.style(1)
    render = renderer(output.format, person=output.is_for_person, findings=arranged.has_findings)
    write(render(arranged, style), output.path)
    return print_diagnostics(notes, errors, output, read=read)


def print_diagnostics(
    notes: Sequence[Diagnostic], errors: Sequence[Diagnostic], output: OutputOptions, *, read: str = ""
) -> int:
    """Writes notes and errors to standard error; the exit code is 2 if there are errors."""
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
    return 2 if errors else 0


def write(chunks: Iterable[str], path: str | None) -> None:
    """Writes text to standard output or to a file: to a regular file atomically, to a device as it comes."""
    if path is None or path in _STANDARD_OUTPUT:
        for chunk in _blocks(chunks) if sys.stdout is not None else ():
            sys.stdout.write(chunk)
        return
    _to_file((chunk.encode("utf-8", "surrogateescape") for chunk in _blocks(chunks)), path)


def write_bytes(chunks: Iterable[bytes], path: str | None) -> None:
    """Writes bytes in the same way, but not to a terminal."""
    if path is not None and path not in _STANDARD_OUTPUT:
        _to_file(chunks, path)
    elif is_terminal(1):
        raise HloError("this is binary: a terminal cannot show it", hint="-o FILE writes it to a file")
    elif sys.stdout is not None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)


def _to_file(chunks: Iterable[bytes], path: str) -> None:
    target = os.path.realpath(path)
    is_plain = os.path.isfile(path) or not os.path.exists(path)  # a pipe at /dev/fd has no real path
    if is_plain and os.path.exists(target) and not os.access(target, os.W_OK):
        raise HloError(f"cannot write {path}: it is read-only")
    beside = f"{target}.{os.getpid()}.part" if is_plain else path
    try:
        with open(beside, "wb") as file:
            file.writelines(chunks)
        if is_plain:
            if os.path.exists(target):
                from shutil import copymode

                copymode(target, beside)
            os.replace(beside, target)
    except OSError as error:
        raise HloError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if is_plain:
            with suppress(OSError):
                os.unlink(beside)


def _blocks(chunks: Iterable[str], size: int = 1 << 16) -> Iterator[str]:
    """Joins the chunks to blocks large enough for one system call each."""
    held: list[str] = []
    length = 0
    for chunk in chunks:
        held.append(chunk)
        length += len(chunk)
        if length >= size:
            yield "".join(held)
            held, length = [], 0
    yield "".join(held)
