"""Which HLO is in a text that does not begin with a module, or what the text is instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from shlex import quote
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.logs import AFTER_BLOCK, EmbeddedModule, find_modules, has_odd_characters, is_cut_header
from hlo_cli.inputs.pasted.envelopes import ENVELOPE_OF, ENVELOPES, PastedText, PastedTextError
from hlo_cli.inputs.pasted.kinds import PastedKind
from hlo_cli.inputs.pasted.languages import (
    is_source_code,
    known_text_error,
    language_error,
    language_lines,
    no_hlo_error,
    source_code_error,
)
from hlo_cli.inputs.pasted.unwrapping import (
    decoded_strings,
    dedented,
    is_wrapped_module,
    plain_characters,
    plain_lines,
    rejoined_lines,
    relevant_parts,
    unescaped,
    without_colors,
    without_entities,
    without_line_numbers,
    without_margins,
)
from hlo_cli.inputs.stablehlo import stablehlo_in
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, counted

# --- what a text is ---
# What a text is, by its content: the first of the envelopes that it has, or a value if it is nothing else.


_LONGEST_VALUE: Final = 20_000  # a shape or a sharding of a thousand devices is shorter; patterns run over all of it
_LONGEST_LIST: Final = 200_000  # shapes of all parameters of a large model, one a line
_ORIGIN: Final = lazy_regex(r"\b(?:op_name|op_type|source_file)=\"(?:[^\"\\\n]++|\\.)*+\"")

# --- values: a shape, a sharding, and the like, if a text is nothing else ---

_ARRAY_TEXT: Final = r"[A-Za-z][\w.]*\[[\d, <=?]*\](?:\{[^{}\n]{0,300}\})?"
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
            rf"{_ARRAY_TEXT}|(?:b\()?{_ARRAY_TEXT}\)|\((?:{_ARRAY_TEXT}|[(),\s]|/\*index=\d+\*/|b\()*\)"
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
    ("mesh", lazy_regex(r"(?:Abstract)?Mesh\((?:'\w[^'\n]{0,80}': ?\d|axis_sizes=|device_ids=).*\)", re.DOTALL)),
    (
        "shape-tree",
        lazy_regex(
            r"\{\s*['\"][^'\"\n]{1,200}['\"]: *(?:[{(\[]|ShapeDtypeStruct\((?=[^\n]{0,200}sharding=)|Array\(\[\], )"
            r"(?=[\s\S]{0,2000}?\(\d{1,12},(?: ?\d{1,12},?){0,8}\)).*\}",
            re.DOTALL,
        ),
    ),
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


def _mentioned_value(text: str) -> tuple[PastedKind, str] | None:
    """The first sharding, list of replica groups, or shape that a text mentions, with its kind; None if none.

    A text that only mentions a value is not about it, so this is for messages.

    >>> _mentioned_value("loss at step 3 was f32[8]"), _mentioned_value("x[3] is small.")
    (('shape', 'f32[8]'), None)
    """
    head = text[:_LONGEST_VALUE]
    mentions = ((kind, pattern.search(head)) for kind, pattern in _MENTIONED)
    return next(((kind, match[0].strip()) for kind, match in mentions if match is not None), None)


def mentions_in(text: str) -> Iterator[tuple[str, str]]:
    """What a text that is not recognized mentions, in its order: kinds and words, of the first part of a long text.

    >>> list(mentions_in("fusion.12 wrote f32[8] in 3.5 GiB"))
    [('instruction', 'fusion.12'), ('shape', 'f32[8]'), ('size', '3.5 GiB')]
    """
    head = text[:_LONGEST_VALUE]
    found: list[tuple[int, str, str]] = [
        (match.start(), kind, match[0].strip()) for kind, pattern in _MENTIONED for match in pattern.finditer(head)
    ]
    for match in _FIGURE.finditer(head):
        kind = "size" if match[0][0].isdigit() else "status" if match[0].isupper() else "instruction"
        found.append((match.start(), kind, match[0]))
    yield from ((kind, words) for _, kind, words in sorted(found))


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
    for index, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>" and text[index - 1] not in "=-")
        if not depth and character in ")]}>" and index + 1 < len(text):
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
    if any(mark in text for envelope in ENVELOPES for mark in envelope.marks):
        plain = _ORIGIN.sub("", text)
        if kinds := tuple(envelope.kind for envelope in ENVELOPES if envelope.is_in(plain)):
            return kinds
    return () if (value := _value_of(text)) is None else (value,)


def document_of(text: str) -> PastedKind | None:
    """The kind of a text that begins as a file or a print of XLA, in which instructions are not a program; else None.

    >>> document_of("HloLiveRange (max 2):\\n  InstructionSequence:\\n    0:p\\n"), document_of("a = f32[] add(b, c)")
    ('live-range', None)
    """
    return next((envelope.kind for envelope in ENVELOPES if envelope.is_document and envelope.is_in(text)), None)


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

_LONGEST_LOG: Final = 1 << 22  # all envelopes are tried on the rest of a log, for a note that nobody asked for
_WEAK: Final = ("INTERNAL: ", "Internal: ", "NOT_FOUND: ", "Binary op ", "was parsing ", "Ran out of ", " usage >= ")
"""Marks that other logs have too."""


def _remark_on_messages(text: str, name: str, modules: Iterable[EmbeddedModule]) -> str | None:
    r"""The note on the first message outside of the modules in a text, with the command that explains it; None if none.

    >>> log = "HloModule m\n}\nRESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.\n"
    >>> _remark_on_messages(log, "a.log", [EmbeddedModule("HloModule m\n}\n")])
    'line 3 has an out-of-memory error; to explain it, run `hlo memspace a.log --oom a.log`'
    """
    if len(text) > _LONGEST_LOG:
        return None
    lines = text.split("\n")
    for module in modules:
        last = module.first_line + module.text.rstrip().count("\n")
        lines[module.first_line - 1 : last] = [""] * (last - module.first_line + 1)
    rest = "\n".join(lines)
    for envelope in ENVELOPES:
        if envelope.is_document or (envelope.pattern is not None and not envelope.is_in(rest)):
            continue
        places = [place for mark in envelope.marks if mark not in _WEAK and (place := rest.find(mark)) >= 0]
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


def _is_diff(text: str) -> bool:
    r"""Whether a text is a unified diff, with headers or only with marked lines.

    >>> _is_diff("-a = f32[] add(b, c)\n+a = f32[] multiply(b, c)"), _is_diff("- one\n- two"), _is_diff("@@ -1 +1 @@")
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


# --- fragments of HLO ---
# The HLO in a text: instructions, heads of computations, and braces; everything else can be blanked.


_NAME = r"[A-Za-z_][\w.\-]*+"
_TYPE = r"(?:[a-z][a-z0-9]*+|B?[FSUC][0-9]{1,3}+)\["
_SHAPE = rf"\([a-z()/]|{_TYPE}|b[ \t]*+\("
_GAP = r"[ \t\n]{0,100}+"
_BLANK = r"[ \t\n]{1,100}+"
_START = lazy_regex(
    rf"(?<![\w.\-%])(?:ROOT{_BLANK})?+"
    rf"(?:%{_NAME}{_GAP}={_GAP}(?:[a-z][\w\-]*+\(|(?={_SHAPE}))|{_NAME}{_BLANK}={_BLANK}(?={_SHAPE}))"
)
_ARRAY_START = lazy_regex(rf"(?:b[ \t]*+\()?{_TYPE}[^\[\]{{}}().]{{0,2000}}+\]")
_OPCODE = lazy_regex(rf"{_GAP}[a-z][\w\-]*+[ \t]*+(?=\()")
_KEY = lazy_regex(r"[ \t]*+,\s*+[a-z]\w*+=")
_VALUE = lazy_regex(r"[\w.\-+:@<>=/%]++")
_TOKEN = re.compile(r"\"(?:[^\"\\]++|\\.)*+\"|[()\[\]{}]", re.DOTALL)
_LINE = lazy_regex(
    rf"^[ \t]*+(?:(?:HloModule[ \t]|ENTRY\b)[^\n]*+|%?{_NAME}[ \t]++(?:\([^\n]*->[^\n]*)?\{{[ \t]*+"
    rf"|\}}(?:[ \t]*+(?://|,)[^\n]*+)?)[ \t]*+$",
    re.MULTILINE,
)
_COMMA_OR_TOKEN = lazy_regex(rf"{_TOKEN.pattern}|,", re.DOTALL)
_OPENING = "([{"
_BREAK = lazy_regex(r"[ \t]*+\n[ \t]*+")
_WRAP = lazy_regex(r"(?<=[\w,.\[{%\-])(?<!ROOT)\n(?=[\w.\]},%])")
_CAPITALS = lazy_regex(r"(?<![\w.\"%/\-])(?:BF16|F(?:16|32|64)|[SU](?:4|8|16|32|64)|C(?:64|128)|PRED)(?=\[[0-9,]*+\])")
_NAMELESS = lazy_regex(
    r"(?<![\w.\-%=] )(?<![\w.\-%])([a-z][a-z0-9]*+\[[0-9,<=? ]*+\](?:\{[^{}\n]*+\})?+) [a-z][\w\-]*+(?=\()"
)
_SHAPELESS_LINE = (
    rf"[ \t]*+((?:ROOT[ \t]++)?+%?{_NAME}[ \t]++=[ \t]++(?:[a-z]++-[a-z\-]++|add|subtract|multiply|divide|negate"
    r"|copy|tuple|dot|parameter|constant|broadcast|reshape|transpose|reduce|fusion|convert|slice|select|compare|convolution|iota|pad"
    r"|bitcast|call|while|conditional|concatenate|gather|scatter|sort|tanh|exponential|maximum|minimum)\()"
)
_SHAPELESS = lazy_regex(rf"^{_SHAPELESS_LINE}", re.MULTILINE)
_OTHER_LINE = lazy_regex(rf"^(?!{_SHAPELESS_LINE}|[ \t]*$)", re.MULTILINE)
_HEAD = lazy_regex(rf"^[ \t]*+(?:HloModule|ENTRY|%?{_NAME}[ \t]++\()[ \t][^\n]*{{[ \t]*+$", re.MULTILINE)
_PAIR = {")": "(", "]": "[", "}": "{"}
_LONGEST = 1 << 20  # instructions with large constants fit; a bracket that is never closed ends the search here
_READ_IN_VAIN = 1 << 21
"""A limit: characters that are read for instructions that are not closed."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """HLO in a text: its offsets, the name that it lacks, and what closes it if its operands are cut."""

    start: int
    end: int
    opening: str = ""
    closing: str = ""


def hlo_fragments(text: str) -> list[Fragment]:
    """The instructions, computation heads, and closing braces in a text, in order and disjoint.

    >>> text = "It fails at %add.1 = f32[2]{0} add(f32[2] %a, %b), metadata={op_name=\\"x\\"} sometimes."
    >>> [text[each.start : each.end] for each in hlo_fragments(text)]
    ['%add.1 = f32[2]{0} add(f32[2] %a, %b), metadata={op_name="x"}']
    """
    fragments = list(_instructions(text)) or list(_nameless(text)) or list(_shapeless(text))
    if not fragments and not _HEAD.search(text):
        return []
    following, last = iter(fragments), 0
    current = next(following, None)
    lines = list[Fragment]()
    for match in _LINE.finditer(text):
        while current is not None and current.end <= match.start():
            current = next(following, None)
        is_brace = match[0].lstrip().startswith("}")
        if is_brace and not lines and (not fragments or fragments[0].start > match.start()):
            continue
        if (current is None or match.end() <= current.start) and match.start() >= last:
            lines.append(Fragment(*match.span()))
            last = match.end()
    return sorted((*fragments, *lines), key=lambda fragment: fragment.start)


def _only_hlo(text: str, fragments: Iterable[Fragment]) -> str:
    """The text with everything outside of the fragments blanked; places stay.

    >>> text = "see\\n  a = f32[] add(b, c) here"
    >>> _only_hlo(text, hlo_fragments(text))
    '\\n  a = f32[] add(b, c)'
    """
    parts, at = list[str](), 0
    for fragment in fragments:
        parts += (
            _blank(text[at : fragment.start]),
            fragment.opening,
            _unwrapped(text[fragment.start : fragment.end]),
            fragment.closing,
        )
        at = fragment.end
    return "".join(parts) + "\n" * text.count("\n", at)


def _unwrapped(text: str) -> str:
    """An instruction on one line: terminals break lines within words, others at spaces; the breaks follow it.

    Types in capitals, as protos have them, are in lower case.
    """
    joined = _BREAK.sub(" ", _WRAP.sub("", text)) if "\n" in text else text
    return _CAPITALS.sub(lambda match: match[0].lower(), joined) + "\n" * text.count("\n")


def _blank(text: str) -> str:
    """As many line breaks as the text has, and the column of what follows it."""
    return "\n" * text.count("\n") + " " * (len(text) - text.rfind("\n") - 1)


def _instructions(text: str) -> Iterator[Fragment]:
    failures, at = _READ_IN_VAIN, 0
    while failures > 0 and (match := _START.search(text, at)) is not None:
        operands = _operands_at(text, match)
        if operands < 0:
            at = match.end()
            failures -= -operands - match.start()
        elif (end := _closing(text, operands)) > 0:
            at = _attributes_end(text, end)
            yield Fragment(match.start(), at)
        else:
            at = _last_whole_operand(text, operands)
            failures -= -end - match.start()
            yield Fragment(match.start(), at, closing="...)")


def _nameless(text: str) -> Iterator[Fragment]:
    """Instructions without a name, such as `f32[2] add(a, b)`, which get one."""
    failures, at = _READ_IN_VAIN, 0
    for number, match in enumerate(_NAMELESS.finditer(text), 1):
        if failures < 0:
            return
        end = _closing(text, match.end()) if match.start() >= at else -match.end()
        failures += min(0, end + match.start())
        if end > 0:
            at = _attributes_end(text, end)
            yield Fragment(match.start(), at, f"instruction.{number} = ")


def _shapeless(text: str) -> Iterator[Fragment]:
    """Instructions without shapes, such as `a = custom-call(b)`, if the text has nothing else."""
    if _OTHER_LINE.search(text) is not None:
        return
    for match in _SHAPELESS.finditer(text):
        if (end := _closing(text, match.end() - 1)) > 0:
            yield Fragment(match.start(1), _attributes_end(text, end))


def _operands_at(text: str, match: re.Match[str]) -> int:
    """The offset of the parenthesis before the operands; if there is none, the negative of what was read."""
    at = match.end()
    if text[at - 1] == "(":
        return at - 1
    if text[at : at + 1] == "(":
        at = _closing(text, at)
    elif array := _ARRAY_START.match(text, at):
        at = array.end()
        at = _closing(text, at) if text[at : at + 1] == "{" else at
        at += 1 if array[0].startswith("b") and at > 0 and text[at : at + 1] == ")" else 0
    else:
        return -at
    opcode = _OPCODE.match(text, at) if at > 0 else None
    return opcode.end() if opcode is not None else -abs(at)


def _attributes_end(text: str, at: int) -> int:
    """The end of the last whole attribute after the operands."""
    end = at
    while (key := _KEY.match(text, end)) is not None and (value := _value_end(text, key.end())) > 0:
        end = value
    return end


def _value_end(text: str, at: int) -> int:
    """The end of a value, or a negative number if the text ends before it."""
    first = text[at : at + 1]
    if first == '"':
        string = _TOKEN.match(text, at)
        return string.end() if string else -1
    if first not in ("{", "[", "("):
        word = _VALUE.match(text, at)
        return word.end() if word else -1
    end = _closing(text, at)
    if end > 0 and text.startswith("<=", end):
        end = _closing(text, end + 2)
    return _closing(text, end + 1) if end > 0 and text.startswith("T(", end) else end


def _last_whole_operand(text: str, start: int) -> int:
    """The offset after the last comma between operands on the line of a parenthesis that is not closed."""
    end = text.find("\n", start)
    depth, last = 0, start + 1
    for token in _COMMA_OR_TOKEN.finditer(text, start, len(text) if end < 0 else end):
        depth += (token[0] in _OPENING) - (token[0] in _PAIR)
        last = token.end() if token[0] == "," and depth == 1 else last
    return last


def _closing(text: str, start: int) -> int:
    """The offset after the bracket that closes the one at `start`; if none does, the negative of what was read."""
    opened = list[str]()
    for token in _TOKEN.finditer(text, start, start + _LONGEST):
        bracket = token[0]
        if bracket in _OPENING:
            opened.append(bracket)
        elif bracket in _PAIR:
            if not opened or opened.pop() != _PAIR[bracket]:
                return -token.end()
            if not opened:
                return token.end()
    return -min(len(text), start + _LONGEST)


# --- reading ---
# A text that does not begin with a module, read: the HLO in it, or what it is instead.


_MODULE = lazy_regex(r"\s*+(?://[^\n]*+\n\s*+)*+(?:(?i:HloModule)|ENTRY)\b")
_PROTO = lazy_regex(
    r"(?:^|[\s:])((?:hlo|hlo_proto)\s*+:?\s*+\{\s*+hlo_module\s*+:?\s*+\{|hlo_module\s*+:?\s*+\{\s*+\w++:"
    r"|(?:computations|instructions)\s*+:?\s*+\{\s*+(?:name|id|opcode)\s*+:)"
)
_INSTRUCTION = lazy_regex(r" = [^\n=]*\(")
_AMOUNT = lazy_regex(
    r"Ran out of memory in memory space|Scoped allocation|program allocations"
    r"|(?<![\w.])(?<!Unpadded size: )[0-9][0-9.,]{0,20}[ ]?(?:bytes|[KMGT](?:i?B)?)\b"
)
_PROSE = lazy_regex(
    r"^(?![ \t}%\n]|//|/\*|$|ENTRY\b|HloModule\b|(?:File|Function)Names|FileLocations|StackFrames|[0-9]+ "
    r"|[\w.\-]+ [({])",
    re.MULTILINE,
)
# Opcodes and types have no dot: what calls `a.b(` is Python.
_STATEMENT = lazy_regex(
    r"^[ \t]*+(?:ROOT[ \t]++)?+%?[A-Za-z_][\w.\-]*+[ \t]++=[ \t](?![^\n]*\.\.\.|\w++\.[\w.]*+\()[^\n]*+", re.MULTILINE
)
_OUTER_STATEMENT = lazy_regex(
    r"^[ \t]*+(?:ROOT[ \t]++)?+(?:%[\w.\-]++[ \t]*+=|[A-Za-z_][\w.\-]*+[ \t]++=[ \t]++(?:\([a-z]\w*+\["
    r"|[a-z]\w*+\[[\d,<=]*\]))"
    r"(?![^\n]*\.\.\.|[ \t]*+\"?[a-z]\w*+\.[\w.]*+)[^\n]*+",
    re.MULTILINE,
)
_ENTRY = lazy_regex(r"^[ \t]*+ENTRY %?[\w.\-]++ (?:\([^\n]*->[^\n]*)?\{[ \t]*$", re.MULTILINE)
_MOST_LANGUAGES = 3  # an error is one line; a text that mixes more is named by the first
_FENCE = lazy_regex(r"^[ \t]*+(?:```|~~~)[^\n]*+$", re.MULTILINE)
_LONGEST_MENTION = 120  # a line and a half of a terminal: enough to find the words in the text
_LOOKED_AT = 1 << 16  # marks of encodings are in the first lines, if a text has them
_PROGRAM = lazy_regex(r"^(?:ENTRY )?%?[\w.\-]++ (?:\([^\n]*->[^\n]*)?\{[ \t]*$", re.MULTILINE)
_LONGEST_COPIED = 1 << 24  # repairs of copied text copy it several times; nobody copies more from a screen
_ESCAPED_BREAK = lazy_regex(r"\\n[ \\n]{0,200}+(?:HloModule |ENTRY |ROOT |%|\})")


def read_text(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules and parts of modules in a text; `name` is that of its file.

    PastedTextError for a text that is not a module and can be explained, HloError for one without HLO.

    >>> [found] = read_text("> see\\n> ```\\n> a = f32[] add(b, c)\\n> ```\\n", "-")
    >>> found.text.strip(), found.remark
    ('a = f32[] add(b, c)', 'skipped 1 line without HLO')
    """
    text = _as_printed(text)
    if is_cut_header(text):
        raise PastedTextError(PastedText("cut-header", name, text, given=text))
    if _MODULE.match(text):
        modules = tuple(map(_without_foreign_tail, find_modules(text)))
        return _with_message(modules, text, name) if any(module.remark for module in modules) else modules
    if "HloModule " not in text:
        return _read_pasted(text, name)
    modules = find_modules(text)
    if not _MODULE.match(modules[0].text):
        return _read_pasted(text, name)
    if len(modules) == 1 and is_cut_header(header := _FENCE.sub("", modules[0].text).strip()):
        raise PastedTextError(PastedText("cut-header", name, header, given=text))
    modules = tuple(module if module.file_name else _without_prose(_without_foreign_tail(module)) for module in modules)
    return _with_message(modules, text, name)


def _with_message(found: tuple[EmbeddedModule, ...], text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules, the first with a note on a message of XLA around them."""
    message = _remark_on_messages(text, name, found)
    return (replace(found[0], remark="; ".join(filter(None, (found[0].remark, message))) or None), *found[1:])


def _as_printed(text: str) -> str:
    """A text that begins with a module but was indented, escaped for HTML, or put on one line; a log without colors."""
    text = without_margins(text)
    if "\x1b[" in text and (has_odd_characters(text) or not _MODULE.match(text)):
        text = without_colors(text)
    text = _as_copied(text)
    if text[:1] in " \t":
        text = dedented(f"\n{text}")[1:]
    if ") -&gt; " in text[:_LOOKED_AT]:
        text = without_entities(text)
    if "\n" not in text[:_LOOKED_AT].rstrip() and _MODULE.match(text) and _ESCAPED_BREAK.search(text):
        text = unescaped(text)
    return text


def _as_copied(text: str) -> str:
    """A text without the line numbers of an editor, the line breaks of a terminal, and characters of documents."""
    if len(text) > _LONGEST_COPIED:
        return text
    if text.startswith("HloModule "):
        text = plain_characters(text) if has_odd_characters(text) else text
        return rejoined_lines(text) if is_wrapped_module(text) else text
    text = without_line_numbers(plain_characters(text))
    return rejoined_lines(text) if "HloModule " in text else text


def _read_pasted(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    document = document_of(text[:_LOOKED_AT])
    whole, text = text, text if document is not None and len(text) <= _LONGEST_COPIED else relevant_parts(text)
    plain = plain_lines(text)
    is_source = is_source_code(text)
    kinds = () if is_source else kinds_of(plain)
    kind = next(iter(kinds), None)
    if kind is not None and (kind == document or not ENVELOPE_OF[kind].explains_hlo):
        if not (ENVELOPE_OF[kind].is_beside_hlo and _PROGRAM.search(plain)):
            others = tuple(other for other in kinds if other != kind)
            plain = value_text(plain) if ENVELOPE_OF[kind].is_value else plain
            raise PastedTextError(
                PastedText(kind, name, plain, others=others, given=text, is_partial=text is not whole)
            )
        kind = None
    if kind is None and not is_source and _is_diff(plain):
        old, new = sides_of(plain)
        raise PastedTextError(PastedText("diff", name, plain, versions=(old, new)))
    if kind is None and _PROTO.search(plain):
        quoted = plain.strip()
        is_literal = quoted[0] in "'\"" and quoted[-1] == quoted[0] and "\n" not in quoted
        return (EmbeddedModule(unescaped(quoted[1:-1]) if is_literal else plain),)
    inner = _decoded(text) or _decoded(plain)
    if inner is not None and (kind is None or kind_of(inner) or _INSTRUCTION.search(inner)):
        plain, kind = plain_lines(inner), kind if is_source else kind_of(inner) or kind
    plain = dedented(plain)
    if kind is None:  # readers of messages join lines themselves
        plain = rejoined_lines(plain)
    modules = find_modules(plain)
    if _MODULE.match(modules[0].text):
        return tuple(map(_without_prose, modules))
    fragments = hlo_fragments(plain)
    if kind == "out-of-memory" and fragments and len(kinds) == 1 and not _AMOUNT.search(plain):
        kind = None
    if kind is not None:
        hlo = _only_hlo(plain, fragments) if fragments else ""
        raise PastedTextError(
            PastedText(kind, name, plain, hlo, others=tuple(other for other in kinds if other != kind))
        )
    is_program = _ENTRY.search(plain) is not None and any(
        " = " in plain[fragment.start : fragment.end] for fragment in fragments
    )
    if not is_program and (lowered := stablehlo_in(plain)) is not None:
        return (lowered,)
    if not is_program and (error := language_error(plain, name)) is not None:
        raise error
    if not _INSTRUCTION.search(_only_hlo(plain, fragments)):
        raise source_code_error(text, name) if is_source else _without_hlo(plain, name, text)
    return (_part(EmbeddedModule(plain), fragments),)


def _without_hlo(plain: str, name: str, given: str) -> HloError:
    """The error for a text without instructions: what the text is, or what it mentions; a mention is no answer."""
    known = no_hlo_error(plain, name, given)
    mentions = PastedText("mentions", name, plain, given=given)
    perhaps = PastedTextError(mentions, known.diagnostic.message, hint=known.diagnostic.hint)
    if known_text_error(plain, name) or known_text_error(given, name):
        return perhaps
    value = _mentioned_value(plain)
    what = "text" if plain.strip().count("\n") else "log line" if plain.strip() != given.strip() else "line"
    if value is None:
        if (figure := _FIGURE.search(plain[:_LONGEST_VALUE])) is None:
            return perhaps
        return PastedTextError(
            mentions, f"no HLO found in {name}, a {what} that mentions {figure[0]}", hint=known.diagnostic.hint
        )
    kind, words = value
    command = f"hlo layout {quote(words)}" if kind == "shape" else f"echo {quote(words)} | hlo"
    noun = ENVELOPE_OF[kind].noun.removeprefix("a ")
    if words.startswith(("sharding=", "replica_groups=", "source_target_pairs=")):
        noun = "attribute"
    return PastedTextError(
        mentions,
        f"{name} is not recognized: a {what} that mentions the {noun} {words[:_LONGEST_MENTION]}",
        hint=f"to explain the {noun} alone, run `{command}`",
    )


_FIGURE: Final = lazy_regex(
    r"(?<![\w.,\-])\d{1,6}(?:[.,]\d{1,6})*[ ]?(?:[KMGT]i?B|bytes)\b"
    r"|\b(?:INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|DEADLINE_EXCEEDED|UNAVAILABLE)(?=: )"
    r"|(?<![\w./\-])%?(?:fusion|dot|convolution|custom-call|copy|all-reduce|all-gather|reduce-scatter|all-to-all"
    r"|collective-permute|while|broadcast|transpose|reduce|scatter|gather|loop_\w{1,60}fusion|input_\w{1,60}fusion"
    r"|gemm_fusion_\w{1,60})[._]\d{1,9}\b"
)
"""A size of memory, a status, or the name of an instruction: what a text without shapes may be about."""


def _without_prose(module: EmbeddedModule) -> EmbeddedModule:
    return _part(module, hlo_fragments(module.text)) if _PROSE.search(module.text) else module


def _decoded(text: str) -> str | None:
    """The HLO inside of strings, or in a text whose line breaks are written as escapes; None if there is none."""
    if (inner := decoded_strings(text)) is not None:
        return _decoded(inner) or inner
    if _ESCAPED_BREAK.search(text):
        return unescaped(text)
    return None


def _part(module: EmbeddedModule, fragments: list[Fragment]) -> EmbeddedModule:
    """The HLO in a text; lines that look like instructions are kept, so that errors in them are reported."""
    text = module.text
    own = list(_of_hlo(text, fragments))
    kept = sorted((*own, *_statements_between(text, own)), key=lambda fragment: fragment.start)
    hlo = _only_hlo(text, kept)
    remarks = (module.remark, _remark_on_skipped(text, hlo, module.first_line))
    return replace(module, text=hlo, remark="; ".join(filter(None, remarks)) or None)


def _without_foreign_tail(module: EmbeddedModule) -> EmbeddedModule:
    """A module without the prose and the other languages after its computations; places stay."""
    text = module.text
    match = AFTER_BLOCK.search(text)
    if match is None:
        return module
    start = text.find("\n", match.start() + 1) + 1
    rest = text[start:]
    kept = list(_of_hlo(rest, hlo_fragments(rest), has_loose=False))
    hlo = _only_hlo(rest, kept)
    remark = _remark_on_skipped(rest, hlo, module.first_line + text.count("\n", 0, start))
    return replace(module, text=text[:start] + hlo, remark=remark)


def _of_hlo(text: str, fragments: list[Fragment], *, has_loose: bool = True) -> Iterator[Fragment]:
    """The fragments without the blocks of other languages: those without instructions, and braces that close nothing.

    Without `has_loose`, instructions outside of a computation are left out too.
    """
    block, instructions, loose = list[Fragment](), 0, 0
    for fragment in fragments:
        line = text[fragment.start : fragment.end].strip()
        is_head, is_brace = line.endswith("{"), line.startswith("}")
        if is_head and " = " not in line:
            yield from block if instructions else ()
            block, instructions = [fragment], 0
        elif is_brace and block:
            yield from (*block, fragment) if instructions else ()
            block, instructions, loose = [], 0, 0
        elif is_brace:
            yield from (fragment,) if loose else ()
            loose = 0
        elif block:
            block.append(fragment)
            instructions += 1
        elif has_loose or line.startswith("HloModule"):
            loose += 1
            yield fragment
    yield from block if instructions else ()


def _remark_on_skipped(text: str, hlo: str, first_line: int) -> str | None:
    """The note on lines that were blanked: how many, and where they are in which other language."""
    runs, skipped, last = list[list[int]](), 0, -2
    lines = text.split("\n")
    for number, (line, own) in enumerate(zip(lines, hlo.split("\n"), strict=True)):
        if own.strip():
            last = -2
        elif line.strip():
            skipped += 1
            if last >= 0:
                runs[-1][1] = number
            else:
                runs.append([number, number])
            last = number
    if not skipped:
        return None
    languages = list[str]()
    for start, end in runs:
        code_lines = language_lines(lines[start : end + 1])
        if code_lines is not None:
            language, one, other = code_lines
            place = (
                f"line {first_line + start + one} is"
                if one == other
                else (f"lines {first_line + start + one} to {first_line + start + other} are")
            )
            languages.append(f"{place} {language}")
    listed = "; ".join(languages[:_MOST_LANGUAGES])
    return f"skipped {counted(skipped, 'lines')} without HLO" + (f"; {listed}" if listed else "")


def _statements_between(text: str, fragments: list[Fragment]) -> Iterator[Fragment]:
    """The lines between two fragments of a computation that are not blank: instructions with errors.

    Between two computations, only what looks like HLO more than like Python or C++.
    """
    for one, other in pairwise(fragments):
        between = text[one.end : other.start]
        pattern = _OUTER_STATEMENT if text[one.start : one.end].strip().startswith("}") else _STATEMENT
        if (between.strip() and not text.startswith("}", other.start)) or pattern.search(between):
            yield from (Fragment(one.end + m.start(), one.end + m.end()) for m in pattern.finditer(between))
