"""Which operations an MLIR text has, with their operands, attributes, regions, types, and places.

Every operation is read, in the generic form and in the forms that dialects print, into the same `Operation`. Forms of
dialects have few rules of their own: words, lists, `name = value`, regions, and types after a colon.

Mirrors mlir/lib/AsmParser/Parser.cpp, and the assembly formats of StableHLO, in StablehloOps.td and AssemblyFormat.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Source, Span
from hlo_cli.syntax.stablehlo.scanning import (
    MAX_DEPTH,
    AttributeOf,
    Entries,
    ListOf,
    Location,
    Other,
    Scanner,
    Text,
    Word,
)

ValueName = tuple[str, int]
"""The name of an operation's results, and the number of one of them."""


@dataclass(slots=True)
class Argument:
    """An argument of a function or a region."""

    name: str
    type: str
    attributes: Mapping[str, AttributeOf] = field(default_factory=dict)
    location: Location | None = None
    span: Span = Span(0, 0)


@dataclass(slots=True)
class Region:
    """Operations in braces, with arguments; `is_plain` if there is one block."""

    arguments: list[Argument] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    is_plain: bool = True


@dataclass(slots=True, eq=False)
class Operation:
    """One operation: `%results = dialect.name operands attributes regions : types`.

    `words` are those that a dialect prints alone, such as LT or FLOAT; `results` have the number of values of each
    name. `result_attributes` are those of a function's results.
    """

    name: str
    span: Span
    results: list[tuple[str, int]] = field(default_factory=list)
    operands: list[ValueName] = field(default_factory=list)
    attributes: dict[str, AttributeOf] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    operand_types: tuple[str, ...] = ()
    result_types: tuple[str, ...] = ()
    result_attributes: list[Mapping[str, AttributeOf]] = field(default_factory=list)
    location: Location | None = None

    @property
    def kind(self) -> str:
        """The name of the operation in its dialect: `add` of `stablehlo.add`."""
        return self.name.rpartition(".")[2]

    @property
    def result_count(self) -> int:
        """The number of values."""
        return sum(count for _, count in self.results)

    def text(self, name: str) -> str:
        """An attribute that is a word or a string; empty if it is neither."""
        value = self.attributes.get(name)
        if isinstance(value, Text):
            return value.value
        return value.text if isinstance(value, Word | Other) else ""

    def symbol(self, name: str) -> str:
        """An attribute that is the name of a function."""
        return self.text(name).removeprefix("@").strip('"')


@dataclass(slots=True)
class Document:
    """All operations of a text outside of each other; usually one module."""

    operations: list[Operation]
    scanner: Scanner


_DICTIONARY: Final = re.compile(r"\{\s*+(?:\}|(?:\"[^\"\n]*+\"|[A-Za-z_][\w$.]*+)\s*+[=,}])")
_CONVOLUTION: Final = re.compile(r"(\[[^\[\]]*+\])\s*+x\s*+(\[[^\[\]]*+\])\s*+->\s*+(\[[^\[\]]*+\])")
_BEGINS: Final = re.compile(r"module\b|[%#!\"]|[a-z_]\w*+\.[a-z_]|\{-#|(?:return|call)\b")
"""How an operation or an alias begins."""
_FUNCTION_WORDS: Final = ("public", "private", "nested")
_ALIAS: Final = re.compile(r"([#!])([A-Za-z_][\w$\-]*+)\s*+=\s*+")
_CONTINUES: Final = ("{", ":", "<", "->")
_RAW: Final = ("in_shardings", "out_shardings", "manual_axes", "out_sharding")
"""Attributes of Shardy that stay text, as XLA passes them on."""


def read_document(source: Source) -> Document:
    """The operations of a text; HloError at the first place that is not MLIR.

    >>> source = Source("a.mlir", "%0 = stablehlo.add %a, %b : tensor<4xf32>")
    >>> [operation] = read_document(source).operations
    >>> operation.kind, operation.operands, operation.result_types
    ('add', [('a', 0), ('b', 0)], ('tensor<4xf32>',))
    """
    scanner = Scanner(source)
    reader = _Reader(scanner)
    operations: list[Operation] = []
    while not scanner.at_end():
        if operations and not _BEGINS.match(scanner.text, scanner.pos):
            break  # words after a pasted program
        if not reader.alias():
            operations.append(reader.operation(0))
    return Document(operations, scanner)


class _Reader:
    """Reads operations and regions."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner

    def alias(self) -> bool:
        """Reads `#name = attribute` or `!name = type` if it is next."""
        scanner = self.scanner
        match = _ALIAS.match(scanner.text, scanner.skip())
        if match is None:
            return scanner.accept("{-#") and self._skip_resources()
        scanner.pos = match.end()
        if match[1] == "!":
            scanner.types[f"!{match[2]}"] = scanner.type()
        elif scanner.peek(4) == "loc(":
            scanner.locations[match[2]] = scanner.location()
        else:
            scanner.aliases[match[2]] = scanner.attribute()
        return True

    def _skip_resources(self) -> bool:
        """The values of `dense_resource`, at the end of a text."""
        end = self.scanner.text.find("#-}", self.scanner.pos)
        if end < 0:
            raise self.scanner.error("expected '#-}' after resources")
        self.scanner.pos = end + 3
        return True

    def _code(self, operation: Operation, depth: int) -> None:
        """A function of another dialect, such as the code of a kernel that is called: its text is passed over."""
        scanner = self.scanner
        end = scanner.text.find("\n", scanner.pos)
        end = len(scanner.text) if end < 0 else end
        line = scanner.text[scanner.pos : end].rstrip()
        if not line.endswith("{"):
            scanner.pos += len(line)
            return
        scanner.pos += len(line) - 1
        scanner.balanced()

    # --- operations ---

    def operation(self, depth: int) -> Operation:
        """Reads one operation in any form."""
        scanner = self.scanner
        if depth > MAX_DEPTH:
            raise scanner.error(f"regions are nested too deeply (limit {MAX_DEPTH})", scanner.pos)
        start = scanner.skip()
        results = self._results()
        if scanner.peek() == '"':
            operation = Operation(scanner.string(), Span(start, start), results)
            self._generic(operation, depth)
        else:
            name = scanner.word()
            if not name:
                raise scanner.error("expected an operation")
            scanner.pos += len(name)
            operation = Operation(name, Span(start, start), results)
            _FORMS.get(name.removeprefix("stablehlo.").removeprefix("mhlo."), _Reader._pretty)(self, operation, depth)
        end = len(scanner.text[start : scanner.pos].rstrip())
        operation.span = Span(start, start + _line_end(scanner.text, start, end))
        operation.location = scanner.location() or operation.location
        return operation

    def _results(self) -> list[tuple[str, int]]:
        scanner = self.scanner
        results: list[tuple[str, int]] = []
        while scanner.peek() == "%":
            value = scanner.value()
            if value is None:
                raise scanner.error("expected the name of a value")
            count = 1
            if scanner.accept(":"):
                number = scanner.number() or ""
                if not number.isdecimal() or len(number) > 6:
                    raise scanner.error("expected the number of results")
                count = int(number)
            results.append((value[0], count))
            if not scanner.accept(","):
                scanner.expect("=", "after the names of results")
        return results

    def _generic(self, operation: Operation, depth: int) -> None:
        """`"name"(%a, %b) <{…}> ({…}, {…}) {…} : (types) -> types`."""
        scanner = self.scanner
        scanner.expect("(", "before operands")
        self._operands(operation, ")")
        if scanner.accept("["):  # successors
            while not scanner.accept("]"):
                scanner.pos += 1
                if scanner.at_end():
                    raise scanner.error("expected ']'")
        if scanner.accept("<"):
            operation.attributes.update(scanner.dictionary())
            scanner.expect(">", "after properties")
        if scanner.accept("("):
            while not scanner.accept(")"):
                operation.regions.append(self.region(depth + 1))
                scanner.accept(",")
        if scanner.peek() == "{":
            operation.attributes.update(scanner.dictionary())
        scanner.expect(":", "before the types of an operation")
        self._signature(operation)
        if operation.name in ("func.func", "builtin.module", "sdy.mesh"):
            self._from_generic(operation)

    def _from_generic(self, operation: Operation) -> None:
        """Gives a function in generic form what the other form has: attributes of arguments and results."""
        if operation.regions and isinstance(listed := operation.attributes.get("arg_attrs"), ListOf):
            for argument, item in zip(operation.regions[0].arguments, listed.items, strict=False):
                argument.attributes = item.fields if isinstance(item, Entries) else {}
        if isinstance(listed := operation.attributes.get("res_attrs"), ListOf):
            operation.result_attributes = [item.fields if isinstance(item, Entries) else {} for item in listed.items]

    def _operands(self, operation: Operation, closed: str) -> None:
        scanner = self.scanner
        while not scanner.accept(closed):
            value = scanner.value()
            if value is None:
                raise scanner.error("expected an operand")
            operation.operands.append(value)
            if not scanner.accept(",") and scanner.peek() != closed:
                raise scanner.error(f"expected ',' or '{closed}' after an operand")

    def _signature(self, operation: Operation) -> None:
        """The types after the colon: `(a, b) -> c`, `a -> b`, or a list of types."""
        scanner = self.scanner
        types = list(scanner.type_list())
        while scanner.accept(","):
            types.append(scanner.type())
        count = operation.result_count
        if scanner.accept("->"):
            operation.operand_types, operation.result_types = tuple(types), scanner.type_list()
        elif len(types) == count:
            operation.result_types = tuple(types)
        elif count and types:
            operation.result_types = (types[-1],) * count
        if not operation.operand_types:
            same = len(types) == len(operation.operands)
            operation.operand_types = tuple(types) if same else (types[-1],) * len(operation.operands) if types else ()

    # --- the forms of dialects ---

    def _pretty(self, operation: Operation, depth: int) -> None:
        """Words, values, lists, attributes, and regions, in any order up to the types."""
        scanner, last = self.scanner, ""
        opened = 0
        while True:
            before = scanner.pos
            token = scanner.peek()
            if "\n" in scanner.text[before : scanner.pos] and last != "," and not opened and token not in _CONTINUES:
                return
            if token in ("", "}", "]", ">") or (token == ")" and not opened) or scanner.peek(4) == "loc(":
                return
            last = token
            if token == ":":
                scanner.pos += 1
                self._signature(operation)
                return
            if token in "(),":
                scanner.pos += 1
                opened += (token == "(") - (token == ")")
            else:
                self._item(operation, token, depth)

    def _item(self, operation: Operation, token: str, depth: int) -> None:
        """One part of an operation in the form of a dialect."""
        scanner = self.scanner
        if token == "%":
            value = scanner.value()
            if value is None:
                raise scanner.error("expected the name of a value")
            operation.operands.append(value)
        elif token == '"':
            operation.words.append(scanner.string())
        elif token == "@":
            operation.attributes["callee"] = scanner.attribute()
        elif token == "[":
            operation.attributes["list"] = Other(scanner.balanced())
        elif token == "<":
            operation.attributes["angle"] = Other(f"<{scanner.balanced()}>")
        elif token == "{":
            if _DICTIONARY.match(scanner.text, scanner.skip()):
                operation.attributes.update(scanner.dictionary())
            else:
                operation.regions.append(self.region(depth + 1))
        elif token == "#":
            operation.attributes["value"] = scanner.attribute()
        elif (number := scanner.number()) is not None:
            operation.words.append(number)
        else:
            self._word(operation)

    def _word(self, operation: Operation) -> None:
        """A word alone, such as LT, or `name = value`."""
        scanner = self.scanner
        start, word = scanner.skip(), scanner.word()
        if not word:
            raise scanner.error("unexpected text in an operation")
        if word in ("dense", "dense_resource"):
            value = scanner.attribute()
            operation.attributes["value"] = value
            operation.result_types = (getattr(value, "type", ""),)
            return
        scanner.pos = start + len(word)
        if not scanner.accept("="):
            operation.words.append(word)
        elif word == "dim_numbers":
            self._dim_numbers(operation)
        elif word in _RAW:
            at = scanner.skip()
            scanner.balanced()
            operation.attributes[word] = Other(scanner.text[at : scanner.pos])
        elif scanner.peek() == "<":
            operation.attributes[word] = self._angle()
        else:
            first = scanner.attribute(typed=False)
            if scanner.accept_word("x"):
                operation.attributes[word] = ListOf((first, scanner.attribute(typed=False)))
            else:
                operation.attributes[word] = first

    def _angle(self) -> AttributeOf:
        scanner = self.scanner
        start = scanner.skip()
        scanner.balanced()
        end = scanner.pos
        scanner.pos = start
        fields = scanner.fields()
        scanner.pos = end
        return Other(scanner.text[start:end]) if fields is None else Entries(fields)

    def _dim_numbers(self, operation: Operation) -> None:
        scanner = self.scanner
        match = _CONVOLUTION.match(scanner.text, scanner.skip())
        if match is None:
            raise scanner.error("expected dimensions, such as [b, f, 0]x[o, i, 0]->[b, f, 0]")
        scanner.pos = match.end()
        operation.attributes["dimension_numbers"] = Other(match[0])

    def _reduce(self, operation: Operation, depth: int) -> None:
        """`reduce(%a init: %b), (…) [applies op] across dimensions = […] : types [reducer(…) (…) {…}]`."""
        scanner = self.scanner
        initial: list[ValueName] = []
        while scanner.accept("("):
            for names in (operation.operands, initial):
                value = scanner.value()
                if value is None:
                    raise scanner.error("expected an operand")
                names.append(value)
                if names is operation.operands:
                    scanner.expect("init", "after an operand of a reduction")
                    scanner.expect(":")
            scanner.expect(")")
            scanner.accept(",")
        operation.operands += initial
        if scanner.accept_word("applies"):
            applied = scanner.word()
            scanner.pos += len(applied)
            operation.attributes["applies"] = Word(applied)
        scanner.expect("across", "in a reduction")
        self._pretty(operation, depth)
        operation.location = scanner.location()
        if scanner.accept_word("reducer"):
            groups = [group for _ in initial for group in [self.arguments()]]
            region = self.region(depth + 1)
            region.arguments = [a for n in (0, 1) for group in groups for a in group[n : n + 1]]
            operation.regions.append(region)

    def _while(self, operation: Operation, depth: int) -> None:
        """`while(%i = %a, …) : types [attributes {…}] cond {…} do {…}`."""
        scanner = self.scanner
        scanner.expect("(")
        names: list[tuple[str, Span]] = []
        while not scanner.accept(")"):
            at = scanner.skip()
            name, value = scanner.value(), None
            if name is not None and scanner.accept("="):
                value = scanner.value()
            if name is None or value is None:
                raise scanner.error("expected '%name = %value' in a loop")
            names.append((name[0], Span(at, scanner.pos)))
            operation.operands.append(value)
            scanner.accept(",")
        if scanner.accept(":"):
            self._signature(operation)
        operation.location = scanner.location()
        if scanner.accept_word("attributes"):
            operation.attributes.update(scanner.dictionary())
        for word in ("cond", "do"):
            scanner.expect(word, "in a loop")
            region = self.region(depth + 1)
            types = (*operation.operand_types, *("",) * len(names))
            region.arguments = [Argument(n, t, span=s) for (n, s), t in zip(names, types, strict=False)]
            operation.regions.append(region)

    def _function(self, operation: Operation, depth: int) -> None:
        """`func.func public @name(%a: type {…}, …) -> (type {…}, …) attributes {…} {…}`."""
        scanner = self.scanner
        for word in _FUNCTION_WORDS:
            if scanner.accept_word(word):
                operation.attributes["sym_visibility"] = Text(word)
        operation.attributes["sym_name"] = Text(scanner.symbol())
        arguments = self.arguments()
        if scanner.accept("->"):
            if scanner.peek() == "(":
                results = self.arguments()
                operation.result_types = tuple(result.type for result in results)
                operation.result_attributes = [result.attributes for result in results]
            else:
                operation.result_types = (scanner.type(),)
        if scanner.accept_word("attributes"):
            operation.attributes.update(scanner.dictionary())
        if scanner.peek() == "{":
            region = self.region(depth + 1)
            region.arguments = arguments
            operation.regions.append(region)

    def _module(self, operation: Operation, depth: int) -> None:
        """`module @name attributes {…} {…}`."""
        scanner = self.scanner
        if scanner.peek() == "@":
            operation.attributes["sym_name"] = Text(scanner.symbol())
        if scanner.accept_word("attributes"):
            operation.attributes.update(scanner.dictionary())
        operation.regions.append(self.region(depth + 1))

    def _mesh(self, operation: Operation, depth: int) -> None:
        """`sdy.mesh @name = <["x"=4]>`."""
        scanner = self.scanner
        operation.attributes["sym_name"] = Text(scanner.symbol())
        scanner.expect("=", "after the name of a mesh")
        start = scanner.skip()
        scanner.balanced()
        operation.attributes["mesh"] = Other(scanner.text[start : scanner.pos])
        if scanner.peek() == "{":
            operation.attributes.update(scanner.dictionary())

    def _called_region(self, operation: Operation, depth: int) -> None:
        """`sdy.manual_computation(%a) in_shardings=[…] … (%b: type) {…} : types`, or `named_computation<"n">(…)`."""
        scanner = self.scanner
        if scanner.peek() == "<":
            operation.words.append(scanner.balanced().strip('"'))
        scanner.expect("(", "before operands")
        self._operands(operation, ")")
        while scanner.peek() not in ("(", "{", ":", ""):
            self._word(operation)
        arguments = self.arguments() if scanner.peek() == "(" else []
        region = self.region(depth + 1)
        region.arguments = arguments
        operation.regions.append(region)
        if scanner.peek() == "{":
            operation.attributes.update(scanner.dictionary())
        scanner.expect(":", "before the types of an operation")
        self._signature(operation)

    # --- regions ---

    def arguments(self) -> list[Argument]:
        """Reads `(%a: type {…} loc(…), …)`; the names may be missing, as in declarations and lists of results."""
        scanner = self.scanner
        scanner.expect("(", "before arguments")
        arguments: list[Argument] = []
        while not scanner.accept(")"):
            start = scanner.skip()
            value = scanner.value()
            if value is not None:
                scanner.expect(":", "before the type of an argument")
            type_ = scanner.type()
            span = Span(start, scanner.pos)
            entries = scanner.dictionary() if scanner.peek() == "{" else {}
            arguments.append(Argument(value[0] if value else "", type_, entries, scanner.location(), span))
            if not scanner.accept(",") and scanner.peek() != ")":
                raise scanner.error("expected ',' or ')' after an argument")
        return arguments

    def region(self, depth: int) -> Region:
        """Reads `{ ^bb0(…): operations }`."""
        scanner = self.scanner
        scanner.expect("{", "before a region")
        region, blocks = Region(), 0
        while not scanner.accept("}"):
            if scanner.accept("^"):
                name = scanner.word()
                scanner.pos += len(name)
                arguments = self.arguments() if scanner.peek() == "(" else []
                scanner.expect(":", "after the arguments of a block")
                region.is_plain = not blocks and not region.operations
                region.arguments = region.arguments or arguments
                blocks += 1
            elif scanner.at_end():
                raise scanner.error("expected '}' at the end of a region")
            elif not self.alias():
                region.operations.append(self.operation(depth))
        return region


def _line_end(text: str, start: int, length: int) -> int:
    """The length of an operation on its first line: what an error shows."""
    end = text.find("\n", start, start + length)
    return length if end < 0 else end - start


_FORMS: Final = {
    "reduce": _Reader._reduce,
    "while": _Reader._while,
    "func.func": _Reader._function,
    "func": _Reader._function,
    "module": _Reader._module,
    "builtin.module": _Reader._module,
    **dict.fromkeys(("llvm.func", "llvm.mlir.global", "gpu.func", "gpu.module", "tt.func"), _Reader._code),
    "sdy.mesh": _Reader._mesh,
    "sdy.manual_computation": _Reader._called_region,
    "sdy.named_computation": _Reader._called_region,
}
"""Forms with rules of their own, by the name of the operation; of StableHLO without the dialect."""


def walk(operations: list[Operation]) -> Iterator[Operation]:
    """The operations and all in their regions, in the order of the text."""
    pending = list(reversed(operations))
    while pending:
        operation = pending.pop()
        yield operation
        for region in reversed(operation.regions):
            pending.extend(reversed(region.operations))
