"""What does `hlo help WORD` show for a word that is not a topic? What the word means, and where to read and use it.

A word is a term or column of the glossary, an opcode, an attribute, an element type, a part of a layout, a memory
space, a table, a chip, or a lint rule; the pages, options, and rules that mention any other word are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hlo_cli.commands.help.catalog import (
    TOPICS,
    Block,
    Heading,
    ItemList,
    Page,
    Paragraph,
    Span,
    glossary_items,
    key_of,
    plain,
    read_page,
    source_of,
)
from hlo_cli.ir import operations
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.memory_space import describe_memory_space, memory_space
from hlo_cli.ir.operation_table import Operation
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, plural, singular
from hlo_cli.report.table_meanings import TABLE_MEANINGS
from hlo_cli.source import nearest
from hlo_cli.syntax.compiler_files.flags import compiler_flags

_MOST_PAGES: Final = 4  # with the meaning of the word, and the options and rules below, one screen of 30 lines
_MOST_OPTIONS: Final = 5  # of two lines each
_MOST_RULES: Final = 3  # those beyond are about something else: chosen by trying
_IN_HEADING: Final = 8
"""How often a word would have to be in a section's text to weigh as much as once in its heading; chosen by trying."""
_STEM: Final = 5
"""Letters from which a word also stands for longer ones: `remat` for rematerialized, but `dot` not for dotted."""


class OptionText(NamedTuple):
    """An option as help shows it: its command, its name, and its sentence."""

    command: str
    name: str
    help: str


def page_of_term(word: str, options: Callable[[], Iterable[OptionText]]) -> Page | None:
    """The page that explains a word; None if nothing is known about it and nothing mentions it.

    >>> page = page_of_term("S(5)", list)
    >>> [span.text for span in page.blocks[1].items[0][0].spans]
    ['S(5)', ' (memory space): TPU: host, pinned host memory. GPU: host, pinned host memory. CPU: pinned RAM.']
    """
    if (rule := _rule_source(word)) is not None:
        return read_page(word, rule)
    glossary = read_page("glossary", source_of("glossary"))
    entries = glossary_items(glossary, word)
    columns = [entry for entry in entries if _is_column(entry)]
    shown = [*(entry for entry in entries if entry not in columns), *_items(meanings_of(word)), *columns]
    pattern = _pattern(word)
    lists = (
        ("Pages", _items(_pages(pattern))),
        ("Options", _items(_options(pattern, options()))),
        ("Lint rules", _items(_rules(pattern))),
    )
    blocks: list[Block] = [Heading(1, (Span(word),))]
    blocks += [ItemList(tuple(shown))] if shown else []
    for title, items in lists:
        blocks += [Heading(2, (Span(title),)), ItemList(tuple(items))] if items else []
    return Page(word, tuple(blocks)) if len(blocks) > 1 else None


def _is_column(entry: Sequence[Block]) -> bool:
    """Whether an entry of the glossary is a column, which names the commands that show it."""
    return any(isinstance(block, Paragraph) and " Shown by " in plain(block.spans) for block in entry)


def _items(lines: Iterable[str]) -> list[tuple[Block, ...]]:
    """Lines of Markdown as items of a list."""
    source = "\n".join(f"- {line}" for line in lines)
    return [item for block in read_page("", source).blocks if isinstance(block, ItemList) for item in block.items]


# --- what a word means ---


def meanings_of(word: str) -> Iterator[str]:
    """What the tables of the program say about a word, one line of Markdown for each table that has it."""
    name = word.lower().replace("_", "-").replace(" ", "-")
    operation = next(
        (operations.OPERATIONS[singular] for singular in _singulars(name) if singular in operations.OPERATIONS), None
    )
    if operation is not None:
        yield _of_opcode(operation)
    yield from _of_attribute(word)
    if (kind := PRIMITIVE_TYPES.get(word.lower())) is not None:
        yield f"**{kind.name}** (element type): {format_count(kind.bits, 'bits')} per element."
    yield from _of_layout_part(word)
    for command, tables in TABLE_MEANINGS.items():
        for table, meaning in tables.items():
            if key_of(table) == key_of(word):
                yield f"**{table}** (table of `hlo {command}`): {meaning}."
    yield from _of_chip(word)
    yield from _of_flag(word)


def _singulars(name: str) -> Iterator[str]:
    """A name, and what it may be the plural of.

    >>> list(_singulars("copies")), list(_singulars("all-reduces"))
    (['copies', 'copy'], ['all-reduces', 'all-reduce'])
    """
    yield name
    if name.endswith("s") and plural(singular(name)) == name:
        yield singular(name)


_FLAG: Final = lazy_regex(r"(flag |--)?-{0,2}(\w+)(?:=.*)?")
_NAMED_AS_FLAGS: Final = ("xla_", "libtpu_", "megascale_")
_STATES: Final = {
    "deprecated": "It is deprecated",
    "no-effect": "It is accepted and does nothing",
    "field": "No flag sets it: pass it in `compiler_options` of `.compile()`",
    "removed": "It was removed from XLA",
    "tpu": "Set it in `LIBTPU_INIT_ARGS`, not in `XLA_FLAGS`",
    "tpu-option": "Only `compiler_options` of `.compile()` set it",
}


def _of_flag(word: str) -> Iterator[str]:
    """A flag of XLA or libtpu: its type, its default, and whether it can be set; for an unknown one, the nearest.

    >>> print(*_of_flag("--xla_gpu_autotune_level=0"))
    **--xla_gpu_autotune_level** (flag of XLA): int32, default 4.
    >>> print(*_of_flag("flag xla_cpu_use_fusion_emitters"))
    **--xla_cpu_use_fusion_emitters** (flag of XLA): default true. It was removed from XLA.
    """
    match = _FLAG.fullmatch(word.strip())
    if match is None:
        return
    name = match[2]
    flag = compiler_flags().get(name)
    if flag is None:
        if not match[1] and not name.startswith(_NAMED_AS_FLAGS):
            return
        near = nearest(name, compiler_flags())
        yield f"**--{name}** is not a flag of XLA or libtpu" + (f"; the nearest is `--{near}`." if near else ".")
        return
    owner = "libtpu 0.0.52" if flag.status.startswith("tpu") else "XLA"
    default = flag.defaults[1] or flag.defaults[0]
    facts = [fact for fact in (flag.type, f"default {default}" if default else "") if fact]
    new = flag.status.partition("alias:")[2]
    state = f"It is the old name of `--{new}`" if new else _STATES.get(flag.status, "")
    if flag.known == "ny":
        state = "jaxlib 0.10.2 does not have it, 0.12 has it"
    described = f"**--{name}** (flag of {owner}){': ' if facts else ''}{', '.join(facts)}."
    yield " ".join(filter(None, (described, f"{state}." if state else "", flag.replaced_by)))


def _of_opcode(operation: Operation) -> str:
    """An opcode: what it does, its operands and attributes, and how to find it in a dump.

    >>> _of_opcode(operations.OPERATIONS["tanh"])
    "**tanh** (opcode): computes hyperbolic tangents; elementwise; the operand has the shape of the result. \
Takes 1 operand. Optional attributes: `result_accuracy`. Find it: `hlo parse DUMP --where 'opcode == tanh'`."
    """
    name = operation.opcode
    least, most = operation.operand_counts
    takes = format_count(least, "operands") if least == most else "any number of operands"
    parts = [
        f"**{name}** (opcode): {operation.does[:1].lower()}{operation.does[1:]}; {operation.about}",
        f"Takes {takes}" if "argument" not in operation.traits else "",
        f"Required attributes: {_code(operation.required)}" if operation.required else "",
        f"Optional attributes: {_code(operation.optional)}" if operation.optional else "",
        f"Find it: {_code(_commands_of(name))}",
    ]
    return ". ".join(filter(None, parts)) + "."


def _commands_of(opcode: str) -> Iterator[str]:
    """The commands that show instructions with an opcode, the general one first."""
    yield f"hlo parse DUMP --where 'opcode == {opcode}'"
    base = opcode.removesuffix("-start").removesuffix("-done")
    if base in operations.COLLECTIVES:
        yield "hlo shard DUMP --comms"
    if opcode in operations.MATMULS:
        yield "hlo fuse DUMP --dots"
    if opcode == "custom-call":
        yield "hlo fuse DUMP --custom-calls"
    if opcode in operations.CONTROL_FLOW:
        yield "hlo parse DUMP --tree"
    if opcode != base or base in operations.COLLECTIVES:
        yield "hlo schedule DUMP"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _of_attribute(word: str) -> Iterator[str]:
    from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, attribute_named

    name = word.strip().lower().replace(" ", "_").removesuffix("=")
    forms = (name, name.replace("-", "_"), name.replace("_", "-"))
    row = next((row for form in forms if (row := attribute_named(form) or HEADER_ATTRIBUTES.get(form))), None)
    if row is None:
        return
    name = row.name
    users = [opcode for opcode, operation in operations.OPERATIONS.items() if name in operation.attributes]
    of = f"of {_some(users)}" if users else "of the module" if name in HEADER_ATTRIBUTES else "of all instructions"
    values = "; ".join(f"`{value}`: {meaning}" for value, meaning in row.words.items())
    meaning = row.meaning or row.label or "see XLA's operation semantics"
    yield f"**{row.name}** (attribute {of}): {meaning}{f'. Values: {values}' if values else ''}."


def _some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are.

    >>> _some(["a", "b"]), _some(list("abcdef"))
    ('a and b', 'a, b, c, and 3 others')
    """
    shown = [*names[:3], f"{len(names) - 3} others"] if len(names) > 4 else list(names)
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])}, and {shown[-1]}"


_SPACE: Final = lazy_regex(r"[sS]\((\d{1,3})\)")
_TILES: Final = lazy_regex(r"T?((?:\([\d,*]{1,40}\)){1,4})")
_ORDER: Final = lazy_regex(r"\{(\d{1,3}(?:,\d{1,3}){0,9})\}")
_LETTERED: Final = lazy_regex(r"([ELM])\((\d{1,9})\)")
_LETTERS: Final = {
    "E": "each element is stored in {} bits",
    "L": "the array is padded at its end to a multiple of {} elements",
    "M": "the dynamic sizes of the array are stored in {} bytes in front of it",
}
"""What XLA's letters in a layout mean, as `LayoutProto` has them."""


def _of_layout_part(word: str) -> Iterator[str]:
    """The meaning of a part of a layout.

    >>> list(_of_layout_part("T(8,128)(2,1)"))[0]
    '**T(8,128)(2,1)** (tiles): the array is stored in tiles of 8 × 128 elements, each in one piece: 8 along the \
second-to-minor and 128 along the minor dimension; within a tile, in tiles of 2 × 1. Explain a whole shape: \
`hlo layout SHAPE`.'
    >>> list(_of_layout_part("{1,0}"))[0].partition(". ")[0]
    '**{1,0}** (dimension order): dimension 1 is minor, and dimension 0 major'
    """
    ending = "Explain a whole shape: `hlo layout SHAPE`."
    if space := _SPACE.fullmatch(word):
        yield f"**S({space[1]})** (memory space): {_spaces(int(space[1]))}."
    if tiles := _TILES.fullmatch(word):
        first, *inner = (tile.strip("()").split(",") for tile in tiles[1].replace(")(", ") (").split())
        words = f"the array is stored in tiles of {_product(first)} elements, each in one piece"
        if len(first) == 2:
            words += f": {first[0]} along the second-to-minor and {first[1]} along the minor dimension"
        words += "".join(f"; within a tile, in tiles of {_product(tile)}" for tile in inner)
        yield f"**{word}** (tiles): {words}. {ending}"
    if order := _ORDER.fullmatch(word):
        minor, *others = order[1].split(",")
        major = f", and dimension {others[-1]} major" if others else ""
        yield f"**{word}** (dimension order): dimension {minor} is minor{major}. {ending}"
    if (letter := _LETTERED.fullmatch(word)) is not None:
        yield f"**{word}** (layout): {_LETTERS[letter[1]].format(letter[2])}. {ending}"


def _product(sizes: Sequence[str]) -> str:
    return " × ".join(sizes)


def _spaces(number: int) -> str:
    """A memory space on each target."""
    targets = (("TPU", "tpu"), ("GPU", "gpu"), ("CPU", "cpu"))
    known = [f"{title}: {describe_memory_space(number, key)}" for title, key in targets if memory_space(number, key)]
    return ". ".join(known) or "a memory space without a public name"


def _of_chip(word: str) -> Iterator[str]:
    from hlo_cli.analysis.hardware.chips import known_chips
    from hlo_cli.report.numbers import format_bytes

    for chip in known_chips():
        if key_of(word) in map(key_of, (chip.name, *chip.aliases)):
            sizes = (
                f"{format_bytes(size.bytes)} of {_space_words(space, chip.target)}"
                for space, size in chip.memories.items()
            )
            yield f"**{chip.name}** (chip): {', '.join(sizes)}. Use it: `--chip {chip.name}`. See `hlo help chips`."


def _space_words(number: int, target: str) -> str:
    from hlo_cli.ir.memory_space import space_name

    return space_name(number, target)


# --- where a word is ---


def _pattern(word: str) -> re.Pattern[str]:
    """Matches the word in prose, in the singular and the plural; from _STEM letters, also at the beginning of words.

    >>> text = "rematerialized dots of all_reduce"
    >>> [bool(_pattern(word).search(text)) for word in ("remat", "dot", "all-reduces", "al")]
    [True, True, True, False]
    """
    parts = re.split(r"[\s_-]+", word.strip().lower())
    last = list(_singulars(parts[-1]))[-1]
    end = r"\w*" if len(last) >= _STEM else r"(?:e?s)?(?!\w)"
    return re.compile(r"(?<!\w)" + r"[\s_-]+".join(map(re.escape, (*parts[:-1], last))) + end, re.IGNORECASE)


def _pages(pattern: re.Pattern[str]) -> Iterator[str]:
    """The pages that mention a word most, each with the section that has it most."""
    mentions: list[tuple[int, str, str]] = []
    for topic in TOPICS:
        if topic != "glossary" and (sections := _sections(source_of(topic), pattern)):
            title = max(sections, key=sections.__getitem__)
            mentions.append((-sum(sections.values()) - _IN_HEADING * bool(pattern.search(topic)), topic, title))
    for _, topic, title in sorted(mentions)[:_MOST_PAGES]:
        yield f"`hlo help {topic}`: {title}"


def _sections(source: str, pattern: re.Pattern[str]) -> dict[str, int]:
    """How often each section of a page mentions a word; sections without it are absent."""
    counts: dict[str, int] = {}
    title, is_code = "", False
    for line in source.splitlines():
        is_code ^= line.lstrip().startswith("```")
        weight = 1
        if line.startswith("#") and not is_code:
            title, weight = line.lstrip("# "), _IN_HEADING
        if title != "See also" and (number := len(pattern.findall(line))):
            counts[title] = counts.get(title, 0) + weight * number
    return counts


def _options(pattern: re.Pattern[str], options: Iterable[OptionText]) -> Iterator[str]:
    """The options that are named by a word, then those whose help mentions it."""
    matching = {
        option: not pattern.search(option.name.replace("-", " "))
        for option in options
        if pattern.search(" ".join(option))
    }
    for key in sorted(matching, key=matching.__getitem__)[:_MOST_OPTIONS]:
        yield f"`hlo {key.command} {key.name}`: {key.help}"


def _rules(pattern: re.Pattern[str]) -> Iterator[str]:
    """The lint rules whose names mention a word."""
    from hlo_cli.lint.run import RULES

    for rule in [rule for rule in RULES if pattern.search(rule.name)][:_MOST_RULES]:
        yield f"`hlo lint --explain {rule.code}`: {rule.name}"


def _rule_source(word: str) -> str | None:
    """The page of a lint rule as Markdown; None if the word is not the code of one."""
    code = word.upper()
    if not code.startswith("HLO") or not code[3:].isdigit():
        return None
    from hlo_cli.lint.run import rule_of

    rule = rule_of(code)
    page = rule.page
    example = f"\n```hlo\n{page.example}\n```\n" if page.example else ""
    return (
        f"# {rule.code}: {rule.name}\n\n{page.summary}\n\nWhy: {page.why}\n{example}\nFix: {page.fix}\n\n"
        f"See also `hlo lint --explain {rule.code}` and `hlo help lint`.\n"
    )
