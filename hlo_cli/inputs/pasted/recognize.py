"""What a text is, by its content: the first of the envelopes that it has, or a value if it is nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hlo_cli.inputs.logs import EmbeddedModule
from hlo_cli.inputs.pasted.envelopes import ENVELOPES, MARKS, PastedKind
from hlo_cli.lazy_regex import lazy_regex

_LONGEST_VALUE: Final = 20_000
_LONGEST_LIST: Final = 200_000
_ORIGIN: Final = lazy_regex(r"\b(?:op_name|op_type|source_file)=\"(?:[^\"\\\n]++|\\.)*+\"")

# --- values: a shape, a sharding, and the like, if a text is nothing else ---

_ARRAY: Final = r"[A-Za-z][\w.]*\[[\d, <=?]*\](?:\{[^{}\n]{0,300}\})?"
_PAIRS: Final = r"\{\{[\d, ]*\}(?:,\s*\{[\d, ]*\})*\}"
_IOTA: Final = r"\[[\d, ]+\]<=\[[\d, ]+\](?: ?T\([\d, ]+\))?"
_ATTRIBUTES: Final = (
    r"(?:,\s*(?:channel_id|use_global_device_ids|dimensions|to_apply|constrain_layout"
    r"|split_dimension|channel_handle)=[^\s,{}]*(?:\{[\d, ]*\})?)*"
)
_BEFORE: Final = (
    r"(?:(?:channel_id|use_global_device_ids|dimensions|to_apply|constrain_layout|split_dimension"
    r"|channel_handle)=(?:[^\s,{}]++(?:\{[\d, ]*\})?|\{[\d, ]*\}),\s*+)*+"
)
_VALUES: Final[tuple[tuple[PastedKind, re.Pattern[str]], ...]] = (
    (
        "shape",
        lazy_regex(
            rf"{_ARRAY}|(?:b\()?{_ARRAY}\)|\((?:{_ARRAY}|[(),\s]|/\*index=\d+\*/|b\()*\)"
            r"|(?:jax\.|core\.)?(?:ShapedArray|ShapeDtypeStruct|AbstractRef|MemRef|Ref|aval|Shape)\s*[({].*[)}]"
            r"|(?:tensor|vector|memref)<[^<>]*>",
            re.DOTALL,
        ),
    ),
    (
        "replica-groups",
        lazy_regex(
            rf"(?:{_BEFORE}(?:replica_groups|source_target_pairs)=(?:{_PAIRS}|{_IOTA}|\{{\}}"
            rf"|mesh\[[^\[\]\n]{{1,300}}\] ?\{{[^{{}}\n]{{0,200}}\}}){_ATTRIBUTES}"
            rf"|{_PAIRS}|{_IOTA}{_ATTRIBUTES})",
            re.DOTALL,
        ),
    ),
    (
        "sharding",
        lazy_regex(
            r"(?:sharding=[^\n]*|\{+(?:replicated|maximal|manual|unknown|devices=|unreduced|shard_as|shard_like|mesh).*\}"
            r"|\w*Sharding\(.*\)|P(?:artitionSpec)?\(.*\)|#?sdy\.sharding.*)",
            re.DOTALL,
        ),
    ),
    ("layout", lazy_regex(r"\{[\d, ]*(?::(?:[A-Z#*]{1,2}\([^{}\n]*)?)?\}")),
)


_DEVICES: Final = r"\{devices=\[[\d,]+\](?:<=\[[\d,]+\](?:T\([\d,]+\))?|[\d,]+)(?: [\w={},]{1,200})?\}"
_MENTIONED: Final[tuple[tuple[PastedKind, re.Pattern[str]], ...]] = (
    (
        "sharding",
        lazy_regex(
            rf"{_DEVICES}|NamedSharding\(mesh=[^\n]{{1,2000}}\)(?=$|[\s,;.])"
            r"|\{mesh\[[^\[\]\n]{1,500}\][^{}\n]{0,40}(?:\[[^\[\]\n]{0,200}\])?\}",
            re.MULTILINE,
        ),
    ),
    (
        "replica-groups",
        lazy_regex(
            r"(?:replica_groups|source_target_pairs)="
            r"(?:mesh\[[^\[\]\n]{1,300}\] ?\{[^{}\n]{0,200}\}"
            r"|\{\{[\d,{} ]{1,2000}\}\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)"
        ),
    ),
    (
        "shape",
        lazy_regex(
            r"(?<![\w.])(?:pred|bf16|[fsuc]\d{1,3}|f8e\d\w{1,12}|float\d\d|bfloat16|u?int\d{1,2})\[[\d,]*\]"
            r"(?:\{[\d,]+(?::[^{}\n]{0,200})?\})?"
            r"|ShapeDtypeStruct\([^()\n]*\([\d, ]*\)[^()\n]*\)|ShapedArray\([^()\n]{1,200}\)",
            re.MULTILINE,
        ),
    ),
)
"""Values as they are written inside of sentences, which are named in messages only."""


def mentioned_value(text: str) -> tuple[PastedKind, str] | None:
    """The first sharding, list of replica groups, or shape that a text mentions, with its kind; None if none.

    A text that only mentions a value is not about it, so this is for messages.

    >>> mentioned_value("loss at step 3 was f32[8]"), mentioned_value("x[3] is small.")
    (('shape', 'f32[8]'), None)
    """
    head = text[:_LONGEST_VALUE]
    found = ((kind, pattern.search(head)) for kind, pattern in _MENTIONED)
    return next(((kind, match[0].strip()) for kind, match in found if match is not None), None)


# A prompt of Python, a key or a name, a bullet, or a number before each of several shapes.
_PROMPT: Final = lazy_regex(
    r"^(?:>>> [^\n]*|\.\.\. [^\n]*|In ?\[\d+\]: [^\n]*|\$ [^\n]*)$|^Out ?\[\d+\]: ?", re.MULTILINE
)
_TYPES: Final = (
    r"(?:pred|bf16|token|[fsuci]\d{1,3}|ui\d{1,2}|[fb]\d[eE]\d\w{1,12}|bool|bfloat16|float(?:16|32|64|8_\w{1,14})|u?int\d{1,2}"
    r"|complex(?:64|128)|BF16|PRED|[FSUC]\d{1,3})"
)
_LAYOUT: Final = r"(?:\{[^{}\n]{0,300}\})?"
_ITEM: Final = lazy_regex(
    rf"(?:^|(?<=[\s,;({{\[]))(?:(?:[*\-\u2022]|\d{{1,4}}[.)])[ \t]+)?(?:(?:'[^'\n]{{1,200}}'"
    rf"|\"[^\"\n]{{1,200}}\"|%?[A-Za-z_][\w./\-]{{0,200}}(?:\[[^\]\n]{{1,40}}\])*)[ \t]*[:=][ \t]*)?"
    rf"((?:jax\.|core\.)?(?:ShapedArray|ShapeDtypeStruct)\((?:[^()\n]|\([^()\n]*\))*\)|(?:tensor|vector"
    rf"|memref)<[^<>\n]*>|b?\(?{_TYPES}\[[\d, <=?]*\]{_LAYOUT}\)?"
    r"|\((?:\d{1,12}, ?)*\d{0,12}\),? (?:dtype=)?(?:jnp\.|np\.|torch\.)?(?:float|int|uint|bfloat|bool"
    r"|complex)\w*)(?:\{[a-z_=A-Z,]*\})?",
    re.MULTILINE,
)
_TUPLE_LINE: Final = lazy_regex(rf"\((?:{_TYPES}\[[\d, <=?]*\]{_LAYOUT}|[(),\s]|/\*index=\d+\*/)*\)")
_BETWEEN_ITEMS: Final = lazy_regex(
    r"(?:[\s,;(){}\[\]]|(?:'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|[A-Za-z_][\w ]{0,80}):(?=\s*[{(\[]"
    r"|[ \t]*$))*+",
    re.MULTILINE,
)


def value_text(text: str) -> str:
    """The text of a value without the prompt that printed it.

    >>> value_text(">>> x.sharding\\nP('x')\\n")
    "P('x')"
    """
    return _PROMPT.sub("", text).strip()


def listed_shapes(text: str) -> tuple[str, ...] | None:
    r"""The shapes of a text that is a list of shapes, or prints of shapes, and nothing else; None for others.

    >>> listed_shapes("w: f32[8,4]{1,0}\nb: f32[4]\n"), listed_shapes("f32[8] went to f32[4]")
    (('f32[8,4]{1,0}', 'f32[4]'), None)
    """
    if len(text) > _LONGEST_LIST:
        return None
    text = _PROMPT.sub("", text).strip()
    lines = [line.strip().rstrip(",;") for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(_TUPLE_LINE.fullmatch(line) for line in lines):
        return tuple(lines)
    if not text or not _BETWEEN_ITEMS.fullmatch(_ITEM.sub("", text)):
        return None
    return tuple(match[1].strip() for match in _ITEM.finditer(text)) or None


def _is_one_group(text: str) -> bool:
    """Whether the first bracket of a text closes at its end, so that it is one value and not two with words between.

    >>> _is_one_group("P('x', (1,))"), _is_one_group("P('x') of P('y')")
    (True, False)
    """
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>" and text[at - 1] not in "=-")
        if not depth and character in ")]}>" and at + 1 < len(text):
            return False
    return True


def kind_of(text: str) -> PastedKind | None:
    """The kind of a text that is not a module, or None if nothing shows it.

    >>> kind_of("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes."), kind_of("{1,0:T(8,128)}"), kind_of("step 1")
    ('out-of-memory', 'layout', None)
    """
    return next(iter(kinds_of(text)), None)


def kinds_of(text: str) -> tuple[PastedKind, ...]:
    """The kinds that a text may have, the most likely first; words in the op_name of an instruction do not count.

    >>> kinds_of("It runs out of memory after INTERNAL: RET_CHECK failure")
    ('out-of-memory', 'compiler-error')
    >>> kinds_of('a = f32[] add(b, c), metadata={op_name="out of memory"}')
    ()
    """
    if any(mark in text for marks in MARKS.values() for mark in marks):
        plain = _ORIGIN.sub("", text)
        if found := tuple(each.kind for each in ENVELOPES if each.is_in(plain)):
            return found
    return () if (value := _value_of(text)) is None else (value,)


def document_of(text: str) -> PastedKind | None:
    """The kind of a text that begins as a file or a print of XLA, in which instructions are not a program; else None.

    >>> document_of("HloLiveRange (max 2):\\n  InstructionSequence:\\n    0:p\\n"), document_of("a = f32[] add(b, c)")
    ('live-range', None)
    """
    return next((each.kind for each in ENVELOPES if each.is_document and each.is_in(text)), None)


def _value_of(text: str) -> PastedKind | None:
    """The kind of a text that is one value, or a list of shapes; None for others."""
    value = _PROMPT.sub("", text).strip().rstrip(",;.") if len(text) <= _LONGEST_LIST else ""
    if len(value) <= _LONGEST_VALUE and value.count("\n") < 2:
        for kind, pattern in _VALUES:
            if pattern.fullmatch(value) and (kind == "replica-groups" or _is_one_group(value)):
                return kind
    listed = listed_shapes(text)
    if listed is None:
        return None
    return "shape" if len(listed) == 1 else "shapes"


# --- messages in a log that also has modules ---

_LONGEST_LOG: Final = 1 << 22
_WEAK: Final = ("INTERNAL: ", "Internal: ", "NOT_FOUND: ", "Binary op ", "was parsing ", "Ran out of ", " usage >= ")
"""Marks that other logs have too."""


def remark_on_messages(text: str, name: str, modules: Iterable[EmbeddedModule]) -> str | None:
    r"""The note on the first message outside of the modules in a text, with the command that explains it; None if none.

    >>> log = "HloModule m\n}\nRESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.\n"
    >>> remark_on_messages(log, "a.log", [EmbeddedModule("HloModule m\n}\n")])
    'line 3 has an out-of-memory error; to explain it, run `hlo memspace a.log --oom a.log`'
    """
    if len(text) > _LONGEST_LOG:
        return None
    lines = text.split("\n")
    for each in modules:
        last = each.first_line + each.text.rstrip().count("\n")
        lines[each.first_line - 1 : last] = [""] * (last - each.first_line + 1)
    rest = "\n".join(lines)
    for envelope in ENVELOPES:
        if envelope.is_document or (envelope.pattern is not None and not envelope.is_in(rest)):
            continue
        places = [at for mark in envelope.marks if mark not in _WEAK and (at := rest.find(mark)) >= 0]
        if places:
            line = rest.count("\n", 0, min(places)) + 1
            source, dump = ("FILE", "DUMP") if name.startswith(("<", "-")) else (name, name)
            is_memory = envelope.kind == "out-of-memory"
            command = f"run `hlo memspace {dump} --oom {source}`" if is_memory else "paste it alone"
            return f"line {line} has {envelope.noun}; to explain it, {command}"
    return None


# --- diffs ---

_CHANGED = lazy_regex(r"^([+-])[ \t]*+(?:ROOT )?+%?[A-Za-z_][\w.\-]*+ = \(?[a-z]\w*+\[", re.MULTILINE)
_HUNK = lazy_regex(r"^(?:diff --git |@@ -\d|\+\+\+ )", re.MULTILINE)
_HEADER = lazy_regex(r"(?:diff |index |--- |\+\+\+ |@@ |\\ No newline|(?:old|new|deleted|similarity|rename) )")


def is_diff(text: str) -> bool:
    r"""Whether a text is a unified diff, with headers or only with marked lines.

    >>> is_diff("-a = f32[] add(b, c)\n+a = f32[] multiply(b, c)"), is_diff("- one\n- two"), is_diff("@@ -1 +1 @@")
    (True, False, True)
    """
    if _HUNK.search(text):
        return True
    return {match[1] for match in _CHANGED.finditer(text)} == {"+", "-"}


def sides_of(diff: str) -> tuple[str, str]:
    r"""The old and the new text of a diff; the lines of the other side are blank, so that line numbers stay.

    >>> sides_of("@@ -1 +1 @@\n-a = f32[] add(b, c)\n+a = f32[] multiply(b, c)\n d")
    ('\na = f32[] add(b, c)\n\nd', '\n\na = f32[] multiply(b, c)\nd')
    """
    old, new = list[str](), list[str]()
    for line in diff.split("\n"):
        mark, rest = line[:1], line[1:]
        if _HEADER.match(line):
            mark, rest = " ", ""
        elif mark not in "+- ":
            mark, rest = " ", line
        old.append("" if mark == "+" else rest)
        new.append("" if mark == "-" else rest)
    return "\n".join(old), "\n".join(new)
