"""`--open`: the page in a web browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import click

from hlo_cli.commands.shared.io_options import OutputOptions
from hlo_cli.commands.shared.writing import is_page_file
from hlo_cli.source import HloError


def write_and_open(output: OutputOptions, name: str, write: Callable[[OutputOptions], int]) -> int:
    """Writes a page and shows it; returns the exit code of writing. The page has this name unless -o is given."""
    page = page_to_open(output, name)
    code = write(page)
    assert page.path is not None
    if page.path != output.path and not output.quiet:
        click.echo(f"note: wrote {page.path}", err=True)
    open_page(page.path)
    return code


def page_to_open(output: OutputOptions, name: str) -> OutputOptions:
    """The output as a page that a browser can show: the file of -o, else one of this name in a new directory.

    >>> page_to_open(OutputOptions(path="memory.html", format="html"), "report.html").path
    'memory.html'
    >>> page_to_open(OutputOptions(path="memory.json", format="json"), "report.html")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --open requires an HTML page
    """
    is_default = output.format == "table" and not output.is_format_given and output.path is None
    if is_page_file(output):
        return output
    if not is_default:
        raise HloError("--open requires an HTML page", hint="use -o FILE.html, or remove -o and --format")
    import tempfile  # not needed by the commands that write no page

    return replace(output, format="html", path=os.path.join(tempfile.mkdtemp(prefix="hlo-"), name))


def open_page(path: str) -> None:
    """Shows a page in the web browser; HloError that names the page if there is none, as without a display."""
    import webbrowser
    from pathlib import Path

    try:
        is_shown = webbrowser.open(Path(path).absolute().as_uri())
    except (webbrowser.Error, OSError):
        is_shown = False
    if not is_shown:
        raise HloError("no web browser found", hint=f"open {path}")
