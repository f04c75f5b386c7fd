"""Out-of-memory messages as people paste them: wrapped, prefixed, quoted, encoded; the answer is that of the plain text."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import oom_messages as messages
import oom_other_messages as others
from hlo_cli.ir.out_of_memory import OutOfMemory
from hlo_cli.source import Source, Span
from hlo_cli.syntax.out_of_memory.read_logs import parse_out_of_memory

KINDS = {
    name: value
    for name, value in (*vars(messages).items(), *vars(others).items())
    if name.isupper() and isinstance(value, str) and name != "GPU_NO_FAILURE"
}
PREFIXES = {
    "glog": "E0528 07:02:44.350251   27487 client.cc:28] ",
    "new glog": "I0000 00:00:1773083052.386377   70889 client.cc:28] ",
    "torch_xla": "2026-05-04 09:05:40.721128: E    1578 tensorflow/compiler/xla/xla_client/xla_util.cc:76] ",
    "tensorflow": "2026-01-02 10:11:12.345678: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] ",
    "ray": "(MeshHostWorker pid=489, ip=10.0.0.1) ",
    "colored ray": "\x1b[2m\x1b[36m(pid=, ip=10.0.0.1)\x1b[0m ",
    "colors without escape": "[2m[36m(MeshHostWorker pid=489)[0m ",
    "vllm": "(EngineCore pid=20817) ERROR 05-11 13:02:44 [core.py:1184] ",
    "kubernetes": "2026-05-06T07:08:09.123456789Z stderr F ",
    "pod": "[pod/trainer-0/main] ",
    "compose": "trainer-0  | ",
    "slurm": "3: ",
    "worker": "worker-12: ",
    "syslog": "May 15 23:09:30 node-3 python[815]: ",
    "quote": "> ",
    "quote of a quote": "> > ",
    "comment": "# ",
    "bar": "  | ",
    "line numbers": "   12\t",
}


def hard_wrapped(width: int) -> Callable[[str], str]:
    """The text as copied from a terminal that is so wide."""

    def wrap(text: str) -> str:
        lines = text.expandtabs().split("\n")
        return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))

    return wrap


def prefixed(prefix: str) -> Callable[[str], str]:
    """The text with a prefix before every line."""
    return lambda text: prefix + text.rstrip("\n").replace("\n", "\n" + prefix)


def colored(text: str) -> str:
    """Every few words in color."""
    chance = random.Random(3)
    return re.sub(r"\w+", lambda found: f"\x1b[1;31m{found[0]}\x1b[0m" if chance.random() < 0.2 else found[0], text)


WRAPPINGS: dict[str, Callable[[str], str]] = {
    **{f"{width} columns": hard_wrapped(width) for width in (64, 80, 100, 133)},
    **{name: prefixed(prefix) for name, prefix in PREFIXES.items()},
    "no indentation": lambda text: re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE),
    "indented": lambda text: re.sub(r"^", "        ", text, flags=re.MULTILINE),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "trailing blanks": lambda text: text.replace("\n", "   \n"),
    "doubled blank lines": lambda text: text.replace("\n", "\n\n"),
    "fence": lambda text: f"I get this:\n```text\n{text}```\n",
    "html": lambda text: f'<div class="x"><pre><code>{html.escape(text)}</code></pre></div>',
    "json": lambda text: json.dumps({"level": "error", "message": text}),
    "json in json": lambda text: json.dumps({"body": json.dumps({"detail": text})}),
    "repr": lambda text: repr(text),
    "http": lambda text: 'HTTP/1.1 500 Internal Server Error\r\n\r\n{"error":' + json.dumps(text) + "}",
    "colors": colored,
    "written breaks": lambda text: text.replace("\n", "\\n"),
}


def facts(text: str) -> list[OutOfMemory]:
    """The messages without their places."""
    found = parse_out_of_memory(Source("error.txt", text))
    return [replace(message, span=Span(0, 0)) for message in found]


@pytest.mark.parametrize("wrapping", list(WRAPPINGS))
def test_messages_read_alike_however_they_are_wrapped(wrapping: str) -> None:
    for name, text in KINDS.items():
        assert facts(WRAPPINGS[wrapping](text)) == facts(text), name


def test_prefixes_and_quoting_and_widths_combine() -> None:
    chance = random.Random(11)
    prefixes = [name for name in PREFIXES if "color" not in name and name != "line numbers"]
    outer = [
        "fence",
        "html",
        "json",
        "repr",
        "http",
        "indented",
        "doubled blank lines",
        "written breaks",
        "100 columns",
    ]
    for _ in range(250):
        name, steps = chance.choice(list(KINDS)), (chance.choice(prefixes), chance.choice(outer))
        wrapped = KINDS[name]
        for step in steps:
            wrapped = WRAPPINGS[step](wrapped)
        assert facts(wrapped) == facts(KINDS[name]), (name, steps)


@pytest.mark.parametrize("name", ["TPU_HBM", "TPU_VMEM", "GPU_RUN"])
def test_damage_does_not_invent_rows(name: str) -> None:
    """Whole lines that are missing leave the other facts where they were; sizes stay with their shapes."""
    chance = random.Random(13)
    lines = KINDS[name].split("\n")
    known = {allocation.size_bytes: allocation for allocation in facts(KINDS[name])[0].allocations}
    for _ in range(60):
        first = chance.randrange(len(lines))
        text = "\n".join(lines[:first] + lines[first + chance.randrange(1, 3) :])
        for message in facts(text):
            for allocation in message.allocations:
                plain = known.get(allocation.size_bytes)
                if plain is not None and not text.count("Size: ") < len(known):
                    assert allocation.shape in (None, plain.shape)
                    assert allocation.place in (None, plain.place)


def test_many_workers_are_one_message() -> None:
    text = "".join(
        f"(Worker pid={number}) {line}\n" for number in range(20) for line in KINDS["TPU_HBM"].rstrip("\n").split("\n")
    )
    [message] = facts(text)
    assert message.repetitions == 20
    assert [replace(message, repetitions=1)] == facts(KINDS["TPU_HBM"])
