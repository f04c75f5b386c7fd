"""Statements about two modules as sentences: what changed, from what to what, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.statements.operations import equal_at_start, tally
from hlo_cli.analysis.statements.statement import (
    ArgumentChange,
    CollectiveChange,
    Collectives,
    CompilationChange,
    DimensionChange,
    DonationChange,
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
from hlo_cli.analysis.statements.user_program import name_of_operation
from hlo_cli.commands.diff.lists import MAX_LISTED, listed, outermost, shorten_labels, shorten_run
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count

_MAX_TEXT: Final = 32
_FEW: Final = 3
"""Fewer instructions than these are named."""
_SAME: Final = {
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
    number, names = len(statement.layers), shorten_run(statement.layers)
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
    return f"{number:,} arguments {verb}: {shorten_labels(statement.labels)} ({size}){used}"


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
    labels = shorten_labels(statement.labels)
    return f"{format_count(number, 'arguments')} {verb}: {labels} ({format_bytes(statement.bytes)})"


def _collectives(statement: CollectiveChange) -> str:
    before, after = _some_collectives(statement.before), _some_collectives(statement.after)
    if before and after:
        return f"{before} became {after}"
    return f"{before or after} {_verb(is_added=bool(after))}"


def _some_collectives(found: Iterable[Collectives]) -> str:
    texts = [f"{each.kind} ×{each.count:,} ({format_bytes(each.bytes)})" for each in found]
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
        return f"{place}{_some(added)} rearranged"
    if removed and added:
        return f"{place}{_some(removed)} became {_some(added)}"
    if removed or added:
        return f"{place}{_some(removed or added)} {_verb(is_added=bool(added))}"
    return f"{place}operations changed"


def _some(instructions: Sequence[Instruction]) -> str:
    """How many instructions, with the most frequent or telling opcodes; of one or two, their shapes and names."""
    counts = tally(instructions) or tuple(Counter(each.opcode for each in instructions).items())
    if len(counts) and sum(number for _, number in counts) < _FEW:
        told = [each for each in instructions if any(name.startswith(each.opcode) for name, _ in counts)]
        return " and ".join(
            f"{name_of_operation(each)} {each.shape.to_string(layout=False)} ({each.name})" for each in told
        )
    found = [f"{name} ×{number:,}" if number > 1 else name for name, number in counts[:MAX_LISTED]]
    more = ", …" if len(counts) > MAX_LISTED else ""
    if len(counts) == 1 and counts[0][1] == len(instructions):
        return found[0]
    inside = f" ({', '.join(found)}{more})" if found else ""
    return f"{format_count(len(instructions), 'instructions')}{inside}"


def _values(statement: ValueChange) -> str:
    place = f"in {format_count(statement.instructions, 'instructions')}"
    if statement.kind == "backend_config" and not statement.names:
        keys = statement.subject.split(", ")
        named = f" ({listed(keys)})" if keys != ["backend_config"] else ""
        return f"backend_config changed {place}{named}"
    if statement.names and len(statement.names) < _FEW:
        place = f"in {listed(statement.names, ' and ')}"
    if statement.shapes:
        place += f", and {format_count(statement.shapes, 'shapes')} with it"
    kept = statement.kind in ("attribute", "operands", "layout", "tiling", "memory_space") and statement.subject
    subject = {"opcode": "", "backend_config": "backend_config"}.get(statement.kind, statement.kind.replace("_", " "))
    subject = kept or subject
    if len(statement.changes) == 1:
        subject = "constant" if statement.kind == "constants" else subject
        return f"{subject} {_short(statement.changes[0][0])} {place}".lstrip()
    found = [f"{_short(change)} ×{number:,}" if number > 1 else _short(change) for change, number in statement.changes]
    if statement.names:
        return f"{subject} {listed(found)} {place}".lstrip()
    return f"{subject or 'opcode'} changed {place}: {listed(found)}"


def _short(change: Substitution) -> str:
    """Both texts, of long ones only what differs.

    >>> one, two = ("{size=3x3 pad=1_1x1_1 stride=2x2 lhs_dilate=1x1}", "{size=3x3 pad=1_1x1_1 lhs_dilate=1x1}")
    >>> _short(Substitution(one, two))
    '…stride=2x2… → none'
    """
    one, two = change.before, change.after
    if max(len(one), len(two)) > _MAX_TEXT and one and two:
        ones, twos = _WORDS.findall(one), _WORDS.findall(two)
        start = equal_at_start(ones, twos)
        end = equal_at_start(ones[start:][::-1], twos[start:][::-1])
        one, two = (_between(words, start, len(words) - end) for words in (ones, twos))
    one, two = (text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…" for text in (one, two))
    return str(Substitution(one, two))


_WORDS: Final = lazy_regex(r"[^\s,;]+[\s,;]*|[\s,;]+")


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
        return f"same program: {_SAME[statement.kind]} ({rows})"
    words = {"source": f"source lines moved in {rows}", "names": f"op_names changed in {rows}"}
    found = words.get(statement.kind, f"op_names and source lines changed in {rows}")
    return f"{found}: {_short(statement.change)}" if statement.change is not None else found


def _verb(*, is_added: bool) -> str:
    return "added" if is_added else "removed"
