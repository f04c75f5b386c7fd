"""How does a change read as a sentence? What changed, from what to what, how often; and the first screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Final

from hlo_cli.analysis.origin.scopes_and_moves import generalize
from hlo_cli.analysis.statements.operations import equal_at_start, tally
from hlo_cli.analysis.statements.statement import (
    ArgumentChange,
    CollectiveChange,
    Collectives,
    CompilationChange,
    DimensionChange,
    DonationChange,
    Fold,
    HeaderChange,
    InterfaceChange,
    LayerChange,
    LoopChange,
    MetadataChange,
    OperationChange,
    ProductChange,
    RematerializationChange,
    ResultChange,
    ShardingChange,
    Statement,
    Substitution,
    TripCountChange,
    TypeChange,
    ValueChange,
)
from hlo_cli.analysis.statements.statements import Statements
from hlo_cli.analysis.statements.user_program import name_of_operation
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import Cell, Column, Table, rows_from, with_columns
from hlo_cli.report.text import Passage, line_of, plain_text

# --- many names in a few words ---
# The first of a list, runs of layers, labels of arguments, and the outermost scopes.


MAX_LISTED: Final = 3  # chosen: three names with their changes take a line or two
"""The most items that a sentence lists."""
_NUMBERED: Final = lazy_regex(r"(.*?)([0-9]+)(\D*)")


def listed(items: Iterable[str], last: str = ", ") -> str:
    """The first items, and how many more there are.

    >>> listed("abcde"), listed(["a", "b"], " and ")
    ('a, b, c, and 2 more', 'a and b')
    """
    texts = list(items)
    if len(texts) > MAX_LISTED:
        return f"{', '.join(texts[:MAX_LISTED])}, and {len(texts) - MAX_LISTED:,} more"
    return ", ".join([*texts[:-2], last.join(texts[-2:])])


def _shorten_run(names: Sequence[str]) -> str:
    """Names with consecutive numbers by their first and last one.

    >>> _shorten_run(["layers_4", "layers_5", "layers_6", "layers_7"]), _shorten_run(["layers_4", "layers_5"])
    ('layers_4 to layers_7', 'layers_4, layers_5')
    """
    matches = [match for match in map(_NUMBERED.fullmatch, names) if match is not None]
    # a run of names with different ends would hide which of them are meant
    if len(matches) != len(names) or len(names) <= MAX_LISTED or len({(each[1], each[3]) for each in matches}) > 1:
        return listed(names)
    numbers = [int(each[2]) for each in matches]
    is_run = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return f"{names[0]} to {names[-1]}" if is_run else listed(names)


def outermost(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes that are in none of the others.

    >>> outermost(["layers_*/mlp", "layers_*", "head"])
    ('layers_*', 'head')
    """
    paths = dict.fromkeys(scopes)
    inner = {each for each in paths if any(each[:at] in paths for at, letter in enumerate(each) if letter == "/")}
    return tuple(each for each in paths if each not in inner)


def _shorten_labels(labels: Sequence[str]) -> str:
    """A few names for many labels: the parts that they share, with how many share each.

    >>> _shorten_labels(["m['a']", "m['b']", "v['a']", "v['b']"])
    'm[…] ×2 and v[…] ×2'
    >>> _shorten_labels(["layers[0]['b']", "layers[1]['b']"])
    "layers[*]['b'] ×2"
    """
    general = Counter(generalize(label) for label in labels)
    if len(general) > MAX_LISTED:
        # the deepest that fits says most; chosen: labels of optimizer states seldom have more than six parts
        for depth in range(6, 0, -1):
            cut = Counter(_cut(name, depth) for name in general.elements())
            if len(cut) <= MAX_LISTED:
                general = cut
                break
    return listed([f"{name} ×{n:,}" if n > 1 else name for name, n in general.most_common()], " and ")


def _cut(label: str, depth: int) -> str:
    """A label up to so many parts."""
    ends = [at for at, letter in enumerate(label) if letter in "[."]
    return f"{label[: ends[depth - 1]]}[…]" if len(ends) >= depth else label


# --- statements as sentences ---
# Statements about two modules as sentences: what changed, from what to what, and how often.


_MAX_TEXT_LENGTH: Final = 32  # letters of each of two texts in a sentence, so that both fit a line of 80
_MIN_COUNTED: Final = 3
"""Fewer instructions than these are named."""
_SAME_PROGRAM_WORDS: Final = {
    "source": "only source lines moved",
    "names": "only op_names changed",
    "metadata": "only op_names and source lines changed",
}


def sentence_of(statement: Statement) -> str:
    """What happened, in one sentence without a capital and a full stop.

    >>> sentence_of(DimensionChange("hidden size", Substitution("256", "320"), (), (), 459))
    'hidden size 256 → 320 in 459 shapes'
    >>> sentence_of(MetadataChange("source", 683, is_whole=True))
    'same program: only source lines moved (683 instructions)'
    """
    match statement:
        case DimensionChange():
            return _dimension(statement)
        case TypeChange():
            return _type(statement)
        case LayerChange():
            return _layers(statement)
        case TripCountChange():
            return _trips(statement)
        case LoopChange():
            return _loops(statement)
        case ArgumentChange():
            return _arguments(statement)
        case ResultChange():
            return _results(statement)
        case InterfaceChange():
            return _interface(statement)
        case ProductChange():
            return _product(statement)
        case DonationChange():
            return _donation(statement)
        case CollectiveChange():
            return _collectives(statement)
        case ShardingChange():
            return _sharding(statement)
        case OperationChange():
            return _operations(statement)
        # the scopes nest, and the outer one names them all
        case RematerializationChange():
            words = f"rematerialization {_verb(is_added=statement.is_added)}"
            place = f" in {listed(outermost(statement.scopes))}" if statement.scopes else ""
            return f"{words}{place} ({format_count(statement.instructions, 'instructions')} computed again)"
        case ValueChange():
            return _values(statement)
        case CompilationChange():
            return _compilation(statement)
        case MetadataChange():
            return _metadata(statement)
        case HeaderChange():
            return _header(statement)


def kind_of(statement: Statement) -> str:
    """The kind of a statement in one word, for programs.

    >>> kind_of(HeaderChange(("is_scheduled",)))
    'header'
    """
    if isinstance(statement, ValueChange):
        return statement.kind
    return _KINDS[type(statement)]


_KINDS: Final[dict[type, str]] = {
    DimensionChange: "dimension",
    TypeChange: "type",
    LayerChange: "layers",
    TripCountChange: "trip_count",
    LoopChange: "loops",
    ArgumentChange: "arguments",
    ResultChange: "results",
    InterfaceChange: "interface",
    ProductChange: "product",
    DonationChange: "donation",
    CollectiveChange: "collectives",
    ShardingChange: "sharding",
    OperationChange: "operations",
    RematerializationChange: "rematerialization",
    CompilationChange: "compilation",
    MetadataChange: "metadata",
    HeaderChange: "header",
}


def _dimension(statement: DimensionChange) -> str:
    shapes = format_count(statement.shapes, "shapes")
    if statement.with_it:
        return f"dimensions {listed(map(str, (statement.change, *statement.with_it)), ' and ')} in {shapes}"
    also = f", also {listed(map(str, statement.also))}" if statement.also else ""
    return f"{statement.name or 'dimension'} {statement.change} in {shapes}{also}"


def _type(statement: TypeChange) -> str:
    place = f" ({statement.arguments})" if statement.arguments else ""
    converts = [
        f"{format_count(number, 'conversions')} {verb}"
        for number, verb in ((statement.converts_added, "added"), (statement.converts_removed, "removed"))
        if number
    ]
    return "; ".join([f"{statement.change} in {format_count(statement.shapes, 'shapes')}{place}", *converts])


def _layers(statement: LayerChange) -> str:
    number, names = len(statement.layers), _shorten_run(statement.layers)
    rows = len(statement.fold.added if statement.is_added else statement.fold.removed)
    like = f", like {statement.like}" if statement.like else ""
    subject = "one layer" if number == 1 else f"{number:,} layers"
    verb = _verb(is_added=statement.is_added)
    return f"{subject} {verb}: {names} ({format_count(rows, 'instructions')}{like})"


def _trips(statement: TripCountChange) -> str:
    change = f"{statement.before:,} → {statement.after:,}"
    shapes = f", and dimension {change} in {format_count(statement.shapes, 'shapes')}" if statement.shapes else ""
    return f"loop iterations {change} in {listed(statement.loops, ' and ')}{shapes}"


def _loops(statement: LoopChange) -> str:
    trips = f" of {listed((f'{n:,}' for n in statement.trips), ' and ')} iterations" if statement.trips else ""
    added, removed = statement.fold.added, statement.fold.removed
    here, there = (added, removed) if statement.is_added else (removed, added)
    words = f"{format_count(statement.loops, 'loops')}{trips} {_verb(is_added=statement.is_added)}"
    words += f" ({format_count(len(here), 'instructions')})"
    return f"{words} in place of {format_count(len(there), 'instructions')}" if there else words


def _arguments(statement: ArgumentChange) -> str:
    number, verb = len(statement.labels), _verb(is_added=statement.is_added)
    size = format_bytes(statement.bytes)
    users = len(statement.fold.added if statement.is_added else statement.fold.removed) - number
    used = f", used by {format_count(users, 'other instructions')}" if users > 0 else ""
    if number == 1:
        return f"argument {verb}: {statement.labels[0]} {statement.shape} ({size}){used}"
    return f"{number:,} arguments {verb}: {_shorten_labels(statement.labels)} ({size}){used}"


def _results(statement: ResultChange) -> str:
    verb, size = _verb(is_added=statement.is_added), format_bytes(statement.bytes)
    users = len(statement.fold.added if statement.is_added else statement.fold.removed)
    number = len(statement.numbers)
    if number == 1:
        computed = f", computed by {statement.opcode}" + (
            f" ({format_count(users, 'instructions')})" if users > 1 else ""
        )
        return f"result {statement.numbers[0]} {verb}: {statement.shape} ({size}){computed}"
    computed = f", computed by {format_count(users, 'instructions')}" if users else ""
    return f"{number:,} results {verb}: {listed(map(str, statement.numbers))} ({size}){computed}"


def _interface(statement: InterfaceChange) -> str:
    part, form, places = statement.part, statement.form, statement.places
    plural = part if len(places) == 1 else f"{part}s"
    if form in ("renamed", "reordered"):
        labels = [
            f"{_label(place)} {change}".lstrip() if form == "reordered" else str(change) for place, change in places
        ]
        return f"{plural if form == 'renamed' else f'{part}s'} {form}: {listed(labels)}"
    words = {"type": "element type", "transposed": "transposed", "reshaped": "reshaped"}.get(form, form)
    if len(places) == 1:
        place, change = places[0]
        return f"{part} {place} {words} {change}"
    counts = Counter(str(change) for _, change in places).most_common()
    changes = listed(f"{change} ×{number:,}" if number > 1 else change for change, number in counts)
    return f"{len(places):,} {part}s {words}: {changes} ({listed(place for place, _ in places)})"


def _label(place: str) -> str:
    """The label in a place such as `1 (w2)`, else its number."""
    return place.partition(" (")[2].removesuffix(")") or place


def _product(statement: ProductChange) -> str:
    number, converts = len(statement.names), len(statement.fold.added) - len(statement.fold.removed)
    subject = f"{statement.opcode} {statement.names[0]}" if number == 1 else f"{number:,} {statement.opcode}s"
    more = f"; {format_count(abs(converts), 'conversions')} {_verb(is_added=converts > 0)}" if converts else ""
    return f"{subject}: operands {statement.change}{more}"


def _header(statement: HeaderChange) -> str:
    if len(statement.fields) > MAX_LISTED:
        return f"header changed: {listed(name for name, _ in statement.fields)}"
    texts = [f"{name} {_short(change)}" for name, change in statement.fields]
    return f"header changed: {'; '.join(texts)}"


def _donation(statement: DonationChange) -> str:
    number = abs(statement.after - statement.before) or len(statement.labels)
    verb = "donated" if statement.after > statement.before else "no longer donated"
    if statement.after == statement.before:
        verb = "donated differently"
    labels = _shorten_labels(statement.labels)
    return f"{format_count(number, 'arguments')} {verb}: {labels} ({format_bytes(statement.bytes)})"


def _collectives(statement: CollectiveChange) -> str:
    before, after = _some_collectives(statement.before), _some_collectives(statement.after)
    if before and after:
        return f"{before} became {after}"
    return f"{before or after} {_verb(is_added=bool(after))}"


def _some_collectives(collectives: Iterable[Collectives]) -> str:
    texts = [f"{each.kind} ×{each.count:,} ({format_bytes(each.bytes)})" for each in collectives]
    more = f" + {format_count(len(texts) - MAX_LISTED, 'other kinds')}" if len(texts) > MAX_LISTED else ""
    return " + ".join(texts[:MAX_LISTED]) + more


def _sharding(statement: ShardingChange) -> str:
    words = [f"mesh {statement.mesh}"] if statement.mesh is not None else []
    words += [f"devices {statement.devices}"] if statement.devices is not None else []
    if statement.shardings:
        words.append(f"{format_count(statement.shardings, 'shardings')} changed")
    if statement.dimensions:
        sizes = listed(map(str, statement.dimensions), " and ")
        words.append(f"sizes per device {sizes} in {format_count(statement.shapes, 'shapes')}")
    return "; ".join(words)


def _operations(statement: OperationChange) -> str:
    place = f"{statement.scope}: " if statement.scope else ""
    removed, added = statement.fold.removed, statement.fold.added
    if statement.counts:
        return (
            f"{place}operations changed: {listed(f'{name} {one:,} → {two:,}' for name, one, two in statement.counts)}"
        )
    if removed and added and tally(removed) == tally(added):
        return f"{place}{_some_instructions(added)} rearranged"
    if removed and added:
        return f"{place}{_some_instructions(removed)} became {_some_instructions(added)}"
    if removed or added:
        return f"{place}{_some_instructions(removed or added)} {_verb(is_added=bool(added))}"
    return f"{place}operations changed"


def _some_instructions(instructions: Sequence[Instruction]) -> str:
    """How many instructions, with the most frequent or telling opcodes; of one or two, their shapes and names."""
    counts = tally(instructions) or tuple(Counter(each.opcode for each in instructions).items())
    # counts leave out opcodes that every change brings along, such as parameters
    if len(counts) and sum(number for _, number in counts) < _MIN_COUNTED:
        named = [each for each in instructions if any(name.startswith(each.opcode) for name, _ in counts)]
        return " and ".join(
            f"{name_of_operation(each)} {each.shape.to_string(layout=False)} ({each.name})" for each in named
        )
    opcodes = [f"{name} ×{number:,}" if number > 1 else name for name, number in counts[:MAX_LISTED]]
    more = ", …" if len(counts) > MAX_LISTED else ""
    if len(counts) == 1 and counts[0][1] == len(instructions):
        return opcodes[0]
    inside = f" ({', '.join(opcodes)}{more})" if opcodes else ""
    return f"{format_count(len(instructions), 'instructions')}{inside}"


def _values(statement: ValueChange) -> str:
    place = f"in {format_count(statement.instructions, 'instructions')}"
    if statement.kind == "backend_config" and not statement.names:
        keys = statement.subject.split(", ")
        named = f" ({listed(keys)})" if keys != ["backend_config"] else ""
        return f"backend_config changed {place}{named}"
    if statement.names and len(statement.names) < _MIN_COUNTED:
        place = f"in {listed(statement.names, ' and ')}"
    if statement.shapes:
        place += f", and {format_count(statement.shapes, 'shapes')} with it"
    # for these kinds, the statement knows a better subject than the kind
    kept = statement.kind in ("attribute", "operands", "layout", "tiling", "memory_space") and statement.subject
    subject = {"opcode": "", "backend_config": "backend_config"}.get(statement.kind, statement.kind.replace("_", " "))
    subject = kept or subject
    if len(statement.changes) == 1:
        subject = "constant" if statement.kind == "constants" else subject
        return f"{subject} {_short(statement.changes[0][0])} {place}".lstrip()
    changes = [
        f"{_short(change)} ×{number:,}" if number > 1 else _short(change) for change, number in statement.changes
    ]
    if statement.names:
        return f"{subject} {listed(changes)} {place}".lstrip()
    return f"{subject or 'opcode'} changed {place}: {listed(changes)}"


def _short(change: Substitution) -> str:
    """Both texts, of long ones only what differs.

    >>> one, two = ("{size=3x3 pad=1_1x1_1 stride=2x2 lhs_dilate=1x1}", "{size=3x3 pad=1_1x1_1 lhs_dilate=1x1}")
    >>> _short(Substitution(one, two))
    '…stride=2x2… → none'
    """
    before, after = change.before, change.after
    if max(len(before), len(after)) > _MAX_TEXT_LENGTH and before and after:
        old_words, new_words = _WORD_PATTERN.findall(before), _WORD_PATTERN.findall(after)
        start = equal_at_start(old_words, new_words)
        end = equal_at_start(old_words[start:][::-1], new_words[start:][::-1])
        before, after = (_between(words, start, len(words) - end) for words in (old_words, new_words))
    before, after = (
        text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…" for text in (before, after)
    )
    return str(Substitution(before, after))


_WORD_PATTERN: Final = lazy_regex(r"[^\s,;]+[\s,;]*|[\s,;]+")


def _between(words: Sequence[str], start: int, end: int) -> str:
    text = "".join(words[start:end]).strip(" ,;")
    return f"{'…' * (start > 0)}{text}{'…' * (end < len(words))}" if text else ""


def _compilation(statement: CompilationChange) -> str:
    kernels = listed([f"{kind} {one:,} → {two:,}" for kind, one, two in statement.kernels])
    rows = format_count(statement.instructions, "instructions")
    if statement.program == "stage":
        return f"compiled: {kernels or rows}"
    if statement.program == "unknown":
        return f"kernels changed: {kernels} ({rows})" if kernels else f"operations in fusions changed: {rows}"
    if statement.program != "other":
        words = {"same": "same program", "alike": "same operations"}.get(statement.program, "nearly the same program")
        return f"{words}, compiled differently: {kernels or f'{rows} in other fusions'}"
    return f"compiled differently: {kernels} ({rows})" if kernels else f"compiled differently: {rows}"


def _metadata(statement: MetadataChange) -> str:
    rows = format_count(statement.instructions, "instructions")
    if statement.is_whole:
        return f"same program: {_SAME_PROGRAM_WORDS[statement.kind]} ({rows})"
    words = {"source": f"source lines moved in {rows}", "names": f"op_names changed in {rows}"}
    sentence = words.get(statement.kind, f"op_names and source lines changed in {rows}")
    return f"{sentence}: {_short(statement.change)}" if statement.change is not None else sentence


def _verb(*, is_added: bool) -> str:
    return "added" if is_added else "removed"


# --- the first screen ---
# The first screen of `hlo diff`: statements with the rows that they fold, the numbers, and what is left over.


_LINE_WIDTH: Final = 80  # the width at which lines are counted; terminals are seldom narrower
_SCREEN_LINES: Final = 12  # lines of the dozen that a small terminal shows, see `passage_of`
_FRAME_LINES: Final = 3
"""Lines between the parts, and the next command."""
_MIN_LINES: Final = 2  # even if the first statement and the numbers fill the screen
_BEGIN_WITH_CODE: Final = frozenset(
    ("type", "collectives", "operations", "attribute", "opcode", "backend_config", "product")
)
"""Kinds whose sentences begin with a name that is written as it is."""
RowKey = tuple[str, str, str]
"""The sign, the name, and the computation of a row of changes."""


@dataclass(frozen=True, slots=True)
class _StatementRow:
    """A statement with its number, or a change that none explains, without one."""

    number: int | None
    kind: str
    rows: int
    before_bytes: Cell
    after_bytes: Cell
    sentence: str
    example: Cell


_STATEMENT_COLUMNS: Final[tuple[Column[_StatementRow], ...]] = (
    Column("statement", "#", "line", of=lambda row: row.number),
    Column("kind", "kind", of=lambda row: row.kind),
    Column("rows", "rows", "count", of=lambda row: row.rows),
    Column("before_bytes", "before", "bytes", of=lambda row: row.before_bytes),
    Column("after_bytes", "after", "bytes", of=lambda row: row.after_bytes),
    Column("sentence", "statement", of=lambda row: row.sentence),
    Column("example", "example", "name", of=lambda row: row.example),
)


def headline(statements: Statements) -> str:
    """The most important statement, as the answer; empty if there is none."""
    if not statements.ordered:
        return ""
    text = sentence_of(statements.ordered[0])
    is_code = kind_of(statements.ordered[0]) in _BEGIN_WITH_CODE or text.startswith("op_name")
    return text if is_code else text[:1].upper() + text[1:]


def passage_of(statements: Statements, moved: int, numbers: Passage, *, with_first: bool = False) -> Passage | None:
    """The further statements, one a line, and the number of rows that none explains.

    There are as many as a screen of a dozen lines has room for, with the answer and the `numbers`.

    With `with_first`, all statements, as the answer says something else.
    """
    lines: list[str] = []
    further = statements.ordered if with_first else statements.ordered[1:]
    texts = [sentence_of(each) for each in further]
    # without statements the rows themselves follow
    rest = _rest_words(statements.unexplained.rows, moved) if statements.ordered else ""
    others = sum(
        len(wrap(plain_text(line_of(text)), _LINE_WIDTH)) for text in (headline(statements), *numbers.paragraphs)
    )
    room = max(_SCREEN_LINES - _FRAME_LINES - others, _MIN_LINES)
    for position, text in enumerate(texts):
        needed = len(wrap(text, _LINE_WIDTH))
        is_last = position == len(texts) - 1
        if needed + (not is_last or bool(rest)) > room:
            rows = sum(each.fold.rows for each in further[position:])
            more = f"{format_count(len(texts) - position, 'more statements')} ({format_count(rows, 'rows')})"
            rest = "; ".join(filter(None, (more, rest)))
            break
        room -= needed
        lines.append(text)
    lines += [rest] if rest else []
    return Passage("statements_text", tuple(lines)) if lines else None


def _rest_words(rows: int, moved: int) -> str:
    parts = [format_count(rows, "other rows")] if rows else []
    parts += [f"{moved:,} moved"] if moved else []
    return "; ".join(parts)


def statement_table(statements: Statements, changes: Table) -> Table:
    """A row for each statement, then one for each change that none explains."""
    explained = [
        _StatementRow(
            number,
            kind_of(each),
            each.fold.rows,
            _total_bytes(each.fold.before),
            _total_bytes(each.fold.after),
            sentence_of(each),
            _example(each.fold),
        )
        for number, each in enumerate(statements.ordered, 1)
    ]
    rows = rows_from(_STATEMENT_COLUMNS, (*explained, *_unexplained_rows(statements, changes)))
    return Table("statements", _STATEMENT_COLUMNS, rows, noun="statements", person=False)


def _total_bytes(instructions: Iterator[Instruction]) -> int | None:
    sizes = [each.shape.padded_bytes for each in instructions]
    return sum(sizes) if sizes else None


def _example(fold: Fold) -> str | None:
    first: Sequence[Instruction] = [*(each.after for each in fold.changed[:1]), *fold.added[:1], *fold.removed[:1]]
    return first[0].name if first else None


def _unexplained_rows(statements: Statements, changes: Table) -> Iterator[_StatementRow]:
    """Yields the rows of changes that no statement explains, in the order of the table of changes."""
    words = {"~": "changed", "+": "added", "-": "removed", ">": "moved"}
    position_of = {column.name: position for position, column in enumerate(changes.columns)}
    for row in _unexplained_changes(statements, changes).rows:
        text = row[position_of["details"]] or f"{row[position_of['opcode']]} {row[position_of['shape']]}"
        sign, name = str(row[position_of["change"]]), row[position_of["name"]]
        yield _StatementRow(
            None,
            words[sign],
            1,
            row[position_of["before_bytes"]],
            row[position_of["after_bytes"]],
            f"{name} {words[sign]}: {text}",
            name,
        )


def _numbers_of_rows(statements: Statements) -> Mapping[RowKey, int]:
    """The number of the statement that explains each row of changes, from 1."""
    numbers: dict[RowKey, int] = {}
    for number, each in enumerate(statements.ordered, 1):
        numbers |= dict.fromkeys((_key("~", pair.after) for pair in each.fold.changed), number)
        numbers |= dict.fromkeys((_key("+", one) for one in each.fold.added), number)
        numbers |= dict.fromkeys((_key("-", one) for one in each.fold.removed), number)
    return numbers


def _key(sign: str, instruction: Instruction) -> RowKey:
    return sign, instruction.name, instruction.computation.name


def _keys(changes: Table) -> list[RowKey]:
    at = [changes.column_index(name) for name in ("change", "name", "computation")]
    return [(str(row[at[0]]), str(row[at[1]]), str(row[at[2]])) for row in changes.rows]


def with_statements(statements: Statements, changes: Table) -> Table:
    """The table of changes with a column for the number of the statement that explains each."""
    numbers = _numbers_of_rows(statements)
    number = Column("statement", "#", "line", person=bool(statements.ordered), of=numbers.get)
    return with_columns(changes, (number,), _keys(changes), first=True)


def _unexplained_changes(statements: Statements, changes: Table) -> Table:
    """The table of changes with only those that no statement explains."""
    numbers = _numbers_of_rows(statements)
    rows = tuple(row for key, row in zip(_keys(changes), changes.rows, strict=True) if key not in numbers)
    return replace(changes, rows=rows)


def records_of(statements: Statements) -> tuple[Mapping[str, Cell], ...]:
    """The statements with the names of their instructions, for programs."""
    return tuple(
        {
            "statement": number,
            "kind": kind_of(each),
            "sentence": sentence_of(each),
            "rows": each.fold.rows,
            "changed": tuple(pair.after.name for pair in each.fold.changed),
            "added": tuple(one.name for one in each.fold.added),
            "removed": tuple(one.name for one in each.fold.removed),
        }
        for number, each in enumerate(statements.ordered, 1)
    )
