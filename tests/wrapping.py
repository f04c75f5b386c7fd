"""What surrounds HLO where people copy it from: quotes, fences, log prefixes, strings, diffs, and terminals."""

from __future__ import annotations

import html
import json
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
    "indented": prefixed("    "),
    "comment before": lambda text: f"# dump of step 3\n{text}",
    "prose before and after": lambda text: f"Here it is.\n\n{text}\nThanks for any help!\n",
}
"""Wrappings that keep one module; its text is the argument."""
