"""The topics of `hlo help`: each is a Markdown file in topics/ and one row here."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its name, its group, and its summary in the list of topics."""

    name: str
    group: Literal["Concepts", "Reference", "Setup"]
    summary: str


_TOPICS: Final = (
    Topic("layout", "Concepts", "Read a shape with its layout: dimension order, tiles, memory space"),
    Topic("tiling", "Concepts", "Compute where tiles put an element, and what padding costs"),
    Topic("addresses", "Concepts", "Map between elements, linear indices, bytes, and tiles"),
    Topic("memory", "Concepts", "Find what fills a device's memory, and lower the peak"),
    Topic("async", "Concepts", "Read async operations, and find those that are exposed"),
    Topic("schedule", "Concepts", "Read the order of instructions, and try another one"),
    Topic("fusion", "Concepts", "See what fusion combines and saves, and why pairs are not fused"),
    Topic("gpu-fusion", "Concepts", "See what XLA:GPU fuses for a chip, how it decides, and why not"),
    Topic("cost", "Concepts", "Read flops, bytes accessed, and rooflines; what is not modeled"),
    Topic("custom-calls", "Concepts", "Find the buffers of a custom call, and write the function"),
    Topic("sharding", "Concepts", "Read shardings and replica groups; how many bytes collectives transfer"),
    Topic("origins", "Concepts", "Sum up memory and time by line, scope, argument, or compiler pass"),
    Topic("running", "Concepts", "Evaluate a dump without XLA, and follow its values"),
    Topic("comparing", "Concepts", "Compare what two dumps compute, apart from rounding"),
    Topic("passes", "Concepts", "Follow a module through the compiler, pass by pass"),
    Topic("profiles", "Concepts", "Record a profile, and read measured times next to the program"),
    Topic("two-profiles", "Concepts", "Compare measured times before and after an edit"),
    Topic("where", "Reference", "Filter expressions for --where"),
    Topic("expect", "Reference", "Assertions about a module for hlo lint --expect"),
    Topic("recipes", "Reference", "Assertions in one line that tests make by regular expressions"),
    Topic("lint", "Reference", "Rules, settings, and baselines of hlo lint; use in CI"),
    Topic("chips", "Reference", "Supported chips and how times are estimated"),
    Topic("formats", "Reference", "Input, output formats, colors, and environment variables"),
    Topic("messages", "Reference", "Error messages and other text that can be pasted"),
    Topic("exit-codes", "Reference", "Exit codes of each command, for shell scripts and CI"),
    Topic("glossary", "Reference", "Terms and columns; hlo help glossary TERM shows one entry"),
    Topic("dump", "Setup", "Create a dump with JAX, PyTorch/XLA, or TensorFlow"),
    Topic("pages", "Setup", "Send a page about a dump; draw its dataflow"),
    Topic("notebooks", "Setup", "Read jitted functions, show values in notebooks, and use data frames"),
    Topic("completion", "Setup", "Set up shell completion"),
)

TOPICS: Final = {topic.name: topic for topic in _TOPICS}
"""Every topic by its name, in the order in which they are listed."""

_GENERATED: Final = {
    "chips": "hlo_cli.commands.help.chips.markdown",
    "fusion_rules": "hlo_cli.commands.help.fusion_rules.markdown",
    "gpu_reasons": "hlo_cli.commands.help.gpu_reasons.markdown",
}
"""Parts of pages that are made from the program's tables: the functions that return them."""

_PLACEHOLDER = lazy_regex(r"(?m)^<!-- generated: (\w+) -->$")
_FENCE = lazy_regex(r"(?m)^(\s*```\w+) .*$")
_TOPIC_LINK = lazy_regex(r"\]\(([\w-]+)\.md(#[\w-]+)?\)")


def source_of(topic: str) -> str:
    """The Markdown of a topic, with its generated parts.

    >>> source_of("dump").splitlines()[0]
    '# Create a dump'
    """
    data = get_data(__package__, f"topics/{topic}.md")
    assert data is not None
    text = _PLACEHOLDER.sub(lambda found: _generated(found[1]), data.decode("utf-8"))
    return _FENCE.sub(r"\1", text)  # the rest of a fence's line is for the tests that run the commands


def _generated(name: str) -> str:
    module, _, function = _GENERATED[name].rpartition(".")
    markdown: Callable[[], str] = getattr(import_module(module), function)
    return markdown().rstrip("\n")


def manual_source(sources: dict[str, str]) -> str:
    """Markdown pages by name as one document, with a table of contents and headings one level lower.

    >>> print(manual_source({"a": "# A page\\n\\nSee [b](b.md).\\n", "b": "# B\\n"}))
    # hlo manual
    <BLANKLINE>
    - [A page](#a-page)
    - [B](#b)
    <BLANKLINE>
    ## A page
    <BLANKLINE>
    See [b](#b).
    <BLANKLINE>
    ## B
    <BLANKLINE>
    """
    from hlo_cli.commands.help.blocks import anchor

    titles = {name: text.partition("\n")[0].removeprefix("# ") for name, text in sources.items()}

    def link(found: re.Match[str]) -> str:
        return f"]({found[2] or '#' + anchor(titles[found[1]])})" if found[1] in titles else found[0]

    contents = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles.values())
    pages = "\n".join(_TOPIC_LINK.sub(link, _lowered(text)) for text in sources.values())
    return f"# hlo manual\n\n{contents}\n\n{pages}"


def _lowered(source: str) -> str:
    """Markdown with each heading one level lower; lines of code that begin with # stay."""
    lines, is_code = [], False
    for line in source.split("\n"):
        is_code ^= line.lstrip().startswith("```")
        lines.append("#" + line if line.startswith("#") and not is_code else line)
    return "\n".join(lines)
