"""What surrounds HLO where people copy it from: quotes, fences, log prefixes, strings, diffs, and terminals."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Final


def prefixed(prefix: str) -> Callable[[str], str]:
    """The wrapping of a log that begins each line with a prefix."""
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.rstrip("\n").split("\n"))


def in_a_fence(text: str) -> str:
    """A text in an issue, with a sentence before and after it."""
    return f"I see this module:\n\n```\n{text.rstrip()}\n```\n\nWhy is it so slow?\n"


def in_a_quote(text: str) -> str:
    """A quoted message that quotes a fence."""
    return prefixed("> ")(in_a_fence(text))


def in_a_raw_string(text: str) -> str:
    """A test of XLA in C++."""
    indented = "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))
    return f'TEST_F(PassTest, Works) {{\n  constexpr absl::string_view kHlo = R"(\n{indented})";\n'


def in_a_diff(text: str) -> str:
    """A file added by a commit."""
    lines = text.rstrip("\n").split("\n")
    added = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/a.hlo b/a.hlo\n--- /dev/null\n+++ b/a.hlo\n@@ -0,0 +1,{len(lines)} @@\n{added}"


def in_json(text: str) -> str:
    """A message of a log in JSON."""
    return json.dumps({"severity": "INFO", "message": text, "labels": {"pod": "worker-0"}}) + "\n"


def numbered(line: str) -> Callable[[str], str]:
    """The wrapping of an editor or a tool that numbers lines; `line` formats a number and a line."""
    return lambda text: "".join(line.format(*each) for each in enumerate(text.rstrip("\n").split("\n"), 7))


def at_width(width: int) -> Callable[[str], str]:
    """The wrapping of a terminal that breaks lines at its width, wherever that is."""
    return lambda text: "\n".join(
        "\n".join(line[at : at + width] for at in range(0, len(line), width)) for line in text.split("\n")
    )


def in_a_notebook(text: str) -> str:
    """The file of a notebook with the output of a cell, one string a line."""
    output = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
    return json.dumps({"cells": [{"cell_type": "code", "outputs": [output], "source": ["f()"]}]}, indent=1)


def in_strings(before: str, after: str) -> Callable[[str], str]:
    """The wrapping of source code that writes each line as a string."""
    return lambda text: before + "\n".join(f"    {json.dumps(each)}" for each in text.splitlines(keepends=True)) + after


def in_a_page(text: str) -> str:
    """The source of a page that colors words."""
    colored = html.escape(text).replace("ROOT", '<span class="k">ROOT</span>')
    return f"<pre><span></span>{colored}</pre>\n"


WRAPPINGS: Final[dict[str, Callable[[str], str]]] = {
    "fence": in_a_fence,
    "quote": in_a_quote,
    "quote of a quote": lambda text: prefixed("> ")(prefixed("> ")(text)),
    "repr": repr,
    "assigned repr": lambda text: f"text = {text!r}\n",
    "notebook": lambda text: f"Out[3]: {text!r}\n",
    "bytes": lambda text: f"{text.encode()!r}\n",
    "list of strings": lambda text: repr([text]),
    "json": in_json,
    "json in json": lambda text: json.dumps({"payload": in_json(text)}),
    "written line breaks": lambda text: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"),
    "html": lambda text: html.escape(f"see\n{text}"),
    "raw string": in_a_raw_string,
    "glog": prefixed("I0521 12:04:45.883123 1509 hlo_pass.cc:186] "),
    "tensorflow": prefixed("2024-05-21 12:04:45.883123: I external/xla/xla/service/hlo_pass.cc:186] "),
    "ray": prefixed("(RayWorker pid=1234, ip=10.0.0.1) "),
    "container": prefixed("2024-05-21T12:04:45.883123456Z stderr F "),
    "python logging": prefixed("INFO:absl:"),
    "rank": prefixed("[rank0]: "),
    "colors": lambda text: prefixed("\x1b[32m")(text).replace("\n", "\x1b[0m\n"),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "editor": numbered("{0:5} | {1}\n"),
    "cat": numbered("{0:6}\t{1}\n"),
    "grep": numbered("{0}:{1}\n"),
    "grep in a file": numbered("dump/m.txt:{0}:{1}\n"),
    "numbered list": numbered("{0}. {1}\n"),
    "80 columns": at_width(80),
    "100 columns": at_width(100),
    "120 columns after a command": lambda text: "$ python a.py\n" + at_width(120)(text),
    "spaces that do not break": lambda text: text.replace(" ", "\u00a0"),
    "invisible characters": lambda text: "\u200b" + text.replace(", ", ",\u200b "),
    "curly quotes": lambda text: "see\n" + re.sub(r'(?<!\\)"', "\u201d", text),
    "page": in_a_page,
    "fence in the line": lambda text: f"see\n```{text.rstrip()}```\nthanks\n",
    "notebook file": in_a_notebook,
    "strings of C++": in_strings("  const char* hlo =\n", ";\n"),
    "strings of Python": in_strings("hlo = (\n", "\n)\n"),
    "records of a container": lambda text: "".join(
        json.dumps({"log": each, "stream": "stderr", "time": "2024-05-21T12:04:45.883Z"}) + "\n"
        for each in text.splitlines(keepends=True)
    ),
    "indented": prefixed("    "),
    "comment before": lambda text: f"# dump of step 3\n{text}",
    "prose before and after": lambda text: f"Here it is.\n\n{text}\nThanks for any help!\n",
}
"""Wrappings that keep one module; its text is the argument."""
