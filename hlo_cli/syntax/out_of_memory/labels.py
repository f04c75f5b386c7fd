"""Labels and tags in out-of-memory messages: the instruction, its shape, and the purpose of an allocation."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.syntax.compiler_files.names import INDEX

_NAME = re.compile(r"(?:ROOT)?%?([\w.\-]{1,400}+)=")
_ARRAY = re.compile(r"[a-z][a-z0-9]{0,20}+\[[^\]\[]{0,400}\](?:\{[^{}]{0,200}\})?")
_OPCODE = re.compile(r"([a-z][a-z0-9\-]{0,60}+)\(")
_ONLY_OPCODE = re.compile(r"[a-z][a-z0-9-]{0,60}")
_ONLY_NAME = re.compile(r"%([\w.\-]{1,400}?)(?:\.\.\.|…)")
_TARGET = re.compile(r'custom_call_target="([^"]{1,200})"')
_NUMBERED = re.compile(r"\.[0-9]{1,9}\Z")
_KERNELS: Final = ("tpu_custom_call", "mosaic_gpu", "mosaic_gpu_v2", "triton_kernel_call", "__gpu$xla.gpu.triton")
_LONGEST_TUPLE: Final = 100_000
_BRACKET = re.compile(r"[()]")
_OUTPUT_OF = re.compile(rf"output of ([^\s@{{}}]++)(?:@?\{{({INDEX})\}})?")
_SCOPED_FOR = re.compile(r"scoped memory for ([^\s'{}]++)")
_PURPOSE = re.compile(
    r"(?P<what>(?:input|output|in/out) window|(?:prefetched|scratch|input|output)(?: SMEM| VMEM)? operand"
    r"|[^.,(]{1,120}?)"
    r"(?: allocation)?(?: for operator (?:input|output))?(?:,? operand)?(?: (?P<number>[0-9]{1,6}))?(?=[.,(]|\s\(|\Z)"
)
_BUFFERING = re.compile(r"has ([0-9]{1,4}) buffering levels|is single buffered")
_WINDOW_TAG = re.compile(
    r"(?P<which>input|output|in/out) ?window ?allocation ?for ?operator ?(?P<role>input|output) ?(?P<number>[0-9]{1,6})"
)
_WINDOW_SENTENCE = re.compile(r"\. ?The ?window ?shape ?is ?(?=[a-z])|, ?while ?the ?full ?shape ?is ?(?=[a-z])")
_WINDOW = re.compile(r"window shape is ([a-z][a-z0-9]{0,20}+\[[0-9, ]{0,200}\])")


def shape_end(text: str, start: int, end: int) -> int:
    """The end of a shape in a text without whitespace; `start` if there is none.

    >>> shape_end("(f32[2]{0},u32[])fusion", 0, 23), shape_end("f32[2]{0:T(8)}add", 0, 17), shape_end("3", 0, 1)
    (17, 14, 0)
    """
    if text.startswith("(", start):
        depth = 0
        for bracket in _BRACKET.finditer(text, start, min(end, start + _LONGEST_TUPLE)):
            depth += 1 if bracket[0] == "(" else -1
            if depth == 0:
                return bracket.end()
        return start
    found = _ARRAY.match(text, start, end)
    return found.end() if found else start


def label_parts(text: str) -> tuple[str, str, str, str]:
    """The instruction's name, opcode, shape, and custom_call_target in a label without whitespace.

    Labels of buffer assignments have only an opcode, truncated ones may lack any part.

    >>> label_parts("%copy.2=f32[8]{0:T(256)}copy(f32[8]{0}%p),metadata={}")
    ('copy.2', 'copy', 'f32[8]{0:T(256)}', '')
    >>> label_parts("fusion")
    ('', 'fusion', '', '')
    """
    named = _NAME.match(text)
    if named is None:
        if found := _ONLY_NAME.fullmatch(text):
            return found[1], "", "", ""
        return "", text if _ONLY_OPCODE.fullmatch(text) else "", "", ""
    end = shape_end(text, named.end(), len(text))
    opcode = _OPCODE.match(text, end)
    target = _TARGET.search(text)
    return named[1], opcode[1] if opcode else "", text[named.end() : end], target[1] if target else ""


def custom_kernel(name: str, target: str, op_name: str) -> str:
    """The name of a custom kernel: of its op_name, else of its instruction; empty for other instructions.

    >>> custom_kernel("kernel.1", "tpu_custom_call", "jit(f)/my_kernel/pallas_call"), custom_kernel("add.1", "", "")
    ('my_kernel', '')
    >>> custom_kernel("kernel.1", "tpu_custom_call", "")
    'kernel'
    """
    path = op_name.split("/")
    if len(path) > 1 and path[-1].startswith("pallas_call") and "(" not in path[-2]:
        return path[-2]
    return _NUMBERED.sub("", name) if target in _KERNELS else ""


def purpose_of(tag: str) -> tuple[str, int | None]:
    """The purpose of an allocation from its tag, and the number of the operand.

    >>> purpose_of("input window allocation for operator input 2. The window shape is f32[8].")
    ('input window', 2)
    >>> purpose_of("prefetched SMEM operand 0"), purpose_of("output of fusion.9@{1}")
    (('prefetched SMEM operand', 0), ('output of fusion.9{1}', None))
    """
    if not tag:
        return "", None
    if place := tagged_place(tag):
        name, index = place
        if tag.startswith("output of"):
            return f"output of {name}" + (f"{{{index}}}" if index else ""), None
        return f"scoped memory for {name}", None
    found = _PURPOSE.match(tag)
    if found is None:
        return tag, None
    return found["what"].strip(), int(found["number"]) if found["number"] else None


def tagged_place(tag: str) -> tuple[str, str] | None:
    """The instruction that a tag names, with a shape index.

    >>> tagged_place("output of fusion.9@{1}"), tagged_place("scratch operand")
    (('fusion.9', '1'), None)
    """
    if output := _OUTPUT_OF.match(tag):
        return output[1], output[2] or ""
    scoped = _SCOPED_FOR.match(tag)
    return (scoped[1], "") if scoped else None


def spaced_tag(text: str) -> str:
    """The tag of a window with the compiler's blanks, which broken lines lack.

    >>> spaced_tag("input window allocation foroperator input 0. The window shapeis f32[8]")
    'input window allocation for operator input 0. The window shape is f32[8]'
    """
    found = _WINDOW_TAG.match(text)
    if found is None:
        return text
    head = f"{found['which']} window allocation for operator {found['role']} {found['number']}"
    return head + _WINDOW_SENTENCE.sub(_spaced_sentence, text[found.end() :])


def _spaced_sentence(found: re.Match[str]) -> str:
    return ". The window shape is " if found[0].startswith(".") else ", while the full shape is "


def window_of(tag: str) -> tuple[str, int | None]:
    """The shape of the window of an operand, and the number of its buffers, from the text of a tag.

    >>> window_of("input window for operator input 0. The window shape is f32[8]. This allocation is single buffered.")
    ('f32[8]', 1)
    """
    shape, levels = _WINDOW.search(tag), _BUFFERING.search(tag)
    number = int(levels[1] or 1) if levels else None
    return shape[1].replace(" ", "") if shape else "", number
