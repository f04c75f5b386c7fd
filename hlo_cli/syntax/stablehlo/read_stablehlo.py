"""Which module an MLIR text of StableHLO is: its functions as computations, its header, and its notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ComputationLayout, value_text
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.opaque import Opaque, set_aside, suspects_among
from hlo_cli.syntax.stablehlo.building import Body, Frames, Program, hlo_name
from hlo_cli.syntax.stablehlo.grammar import Document, Operation, read_document, walk
from hlo_cli.syntax.stablehlo.regions import fill, read_function
from hlo_cli.syntax.stablehlo.scanning import AttributeOf, Entries, ListOf, Text, Word
from hlo_cli.syntax.stablehlo.values import integers, mesh_of
from hlo_cli.syntax.values.attribute_values import parse_stack_tables, read_header_value

_MAIN: Final = "main"
_MODULES: Final = ("module", "builtin.module")
_FUNCTIONS: Final = ("func.func", "func")


def read_stablehlo(source: Source) -> Module:
    """The module in an MLIR text of StableHLO; HloError with the place if it is damaged, or has no operation.

    Operations without a form in HLO are custom calls of their name, with a note.

    >>> text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.sine %x : tensor<4xf32>"
    >>> module = read_stablehlo(Source("a.mlir", text + " return %0 : tensor<4xf32> }"))
    >>> [str(each.shape) + " " + each.opcode for each in module.entry.instructions]
    ['f32[4]{0} parameter', 'f32[4]{0} sine']
    """
    with no_garbage_collection():
        document = read_document(source)
        return _Assembly(source, document).module()


class _Assembly:
    """Makes a module of the operations of a text."""

    def __init__(self, source: Source, document: Document) -> None:
        self.source = source
        self.outer = next((operation for operation in document.operations if operation.name in _MODULES), None)
        operations = self.outer.regions[0].operations if self.outer and self.outer.regions else document.operations
        self.operations = operations
        self.program = Program(source, Frames(document.scanner.locations))

    def module(self) -> Module:
        """The module."""
        program = self.program
        for operation in self.operations:
            if operation.name in _FUNCTIONS and operation.regions:
                program.functions[operation.text("sym_name")] = operation
            elif operation.name == "sdy.mesh":
                text = operation.text("mesh").removeprefix("#sdy.mesh")
                program.meshes[operation.text("sym_name")] = mesh_of(text)
        entry, function = self._entry()
        computations = _reached(program.computations, entry)
        suspects = [
            i for computation in computations for i in suspects_among(computation.instructions, _elements(computation))
        ]
        callers = [i for computation in computations for i in computation.instructions if i.called_computations]
        opaque = set_aside(suspects, callers, computations)
        name = hlo_name(self.outer.text("sym_name")) if self.outer is not None else "_"
        tables = program.frames.tables()
        return Module(
            name if name != "_" else "module",
            computations,
            entry,
            self.source,
            tuple(self._header(entry, function)),
            False,
            tables,
            parse_stack_tables,
            check=partial(_findings, opaque, tuple(program.notes)),
            read_header_value=read_header_value,
        )

    # --- functions ---

    def _entry(self) -> tuple[Computation, Operation | None]:
        """The computation of the main function, after those that it calls."""
        functions = self.program.functions
        if not functions:
            return self._loose(), None
        called = {name for function in functions.values() for name in _callees(function)}
        public = [n for n, function in functions.items() if function.text("sym_visibility") != "private"]
        roots = [name for name in public if name not in called] or public or list(functions)
        main = _MAIN if _MAIN in functions else roots[0]
        for name in _post_order(functions, main):
            function = functions[name]
            computation = self.program.computation(name, function.span)
            computation.is_entry = name == main
            body = Body(self.program, computation)
            self.program.called[name] = read_function(body, function)
        return self.program.called[main], functions[main]

    def _loose(self) -> Computation:
        """Operations outside of a function, such as some lines of a program: what they use is a parameter."""
        operations = [operation for operation in self.operations if operation.name != "sdy.mesh"]
        if not operations:
            raise HloError("no operations of StableHLO found", Span(0, 0), source=self.source)
        self.program.is_loose = True
        body = Body(self.program, self.program.computation(_MAIN, operations[0].span))
        body.computation.is_entry = True
        returned = fill(body, operations)
        if not body.instructions:
            raise HloError("no operations of StableHLO found", operations[0].span, source=self.source)
        if len(returned) > 1:
            shape = TupleShape(tuple([value.shape for value in returned]))
            returned = [body.add(Operation("", operations[-1].span), opcodes.TUPLE, shape, returned)]
        return body.finish(returned[0] if returned else body.instructions[-1])

    # --- the header ---

    def _header(self, entry: Computation, function: Operation | None) -> Iterator[Attribute]:
        attributes = self.outer.attributes if self.outer is not None else {}
        arguments = function.regions[0].arguments if function is not None else []
        given = [argument.attributes for argument in arguments]
        result = entry.root.shape if entry.root is not None else TupleShape(())
        if aliases := list(_aliases(given, result, self.source)):
            yield Attribute("input_output_alias", f"{{ {', '.join(aliases)} }}")
        donors = [
            f"({number}, {{}})"
            for number, attributes in enumerate(given)
            if attributes.get("jax.buffer_donor") == Word("true")
        ]
        if donors:
            yield Attribute("buffer_donor", f"{{ {', '.join(donors)} }}")
        if function is not None:
            shapes = tuple([parameter.shape for parameter in entry.parameters])
            yield Attribute("entry_computation_layout", value_text(ComputationLayout(shapes, result)))
        frontend = self._frontend(attributes)
        for name, attribute in (("replica_count", "mhlo.num_replicas"), ("num_partitions", "mhlo.num_partitions")):
            count = integers(attributes.get(attribute), self.source)
            if count and count[0] > 1:
                yield Attribute(name, str(count[0]))
        if frontend:
            yield Attribute("frontend_attributes", f"{{{','.join(frontend)}}}")

    def _frontend(self, attributes: Mapping[str, AttributeOf]) -> list[str]:
        """The meshes of Shardy, and what frontends pass on."""
        from hlo_cli.ir.notation import quoted

        found = []
        frontend = attributes.get("mhlo.frontend_attributes")
        if isinstance(frontend, Entries):
            found += [
                f"{key}={quoted(field.value)}" for key, field in frontend.fields.items() if isinstance(field, Text)
            ]
        if self.program.meshes:
            listed = ", ".join(f"{name} = #sdy.mesh{mesh.text}" for name, mesh in self.program.meshes.items())
            found.append(f"xla.sdy.meshes={{{listed}}}")
        return found


def _reached(computations: Sequence[Computation], entry: Computation) -> tuple[Computation, ...]:
    """The computations that the entry needs, in their order."""
    needed, pending = {entry}, [entry]
    while pending:
        called = {one for instruction in pending.pop().instructions for one in instruction.called_computations}
        pending += called - needed
        needed |= called
    return tuple([computation for computation in computations if computation in needed])


def _elements(computation: Computation) -> list[tuple[int, Instruction]]:
    return [
        (int(index), instruction)
        for instruction in computation.instructions
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT
        and (index := instruction.attribute("index") or "").isdecimal()
    ]


def _findings(opaque: Sequence[Opaque], notes: Sequence[Diagnostic], module: Module) -> Findings:
    """The notes of reading, and one for each instruction that is malformed."""
    found = [
        Diagnostic("note", problem.message, module.source, problem.instruction.span, code=problem.problem.code)
        for problem in opaque
    ]
    return Findings(notes=(*notes, *found))


# --- calls between functions ---

_SYMBOL: Final = re.compile(r"@(?:\"([^\"]*+)\"|([\w$.\-]++))")


def _callees(function: Operation) -> list[str]:
    """The names of functions that a function's operations refer to."""
    names: dict[str, None] = {}
    for operation in walk([function]):
        for value in operation.attributes.values():
            if isinstance(value, Word | ListOf):
                names.update(dict.fromkeys(_symbols(value)))
    return list(names)


def _symbols(value: AttributeOf) -> Iterator[str]:
    for item in value.items if isinstance(value, ListOf) else (value,):
        if isinstance(item, Word) and (match := _SYMBOL.match(item.text)) is not None:
            yield match[1] if match[1] is not None else match[2]


def _post_order(functions: Mapping[str, Operation], main: str) -> Iterator[str]:
    """The functions that the main one calls, each after those that it calls; a call in a circle is left out."""
    done: set[str] = set()
    inside: set[str] = set()
    pending: list[tuple[str, Iterator[str]]] = [(main, iter(_callees(functions[main])))]
    inside.add(main)
    while pending:
        name, callees = pending[-1]
        following = next((n for n in callees if n in functions and n not in done and n not in inside), None)
        if following is None:
            pending.pop()
            done.add(name)
            yield name
        else:
            inside.add(following)
            pending.append((following, iter(_callees(functions[following]))))


# --- donation ---


def _aliases(given: Iterable[Mapping[str, AttributeOf]], result: Shape, source: Source) -> Iterator[str]:
    """The results that may overwrite arguments: `tf.aliasing_output` of the arguments."""
    for number, attributes in enumerate(given):
        listed = integers(attributes.get("tf.aliasing_output"), source)
        if not listed:
            continue
        index = "{}" if isinstance(result, ArrayShape) else f"{{{listed[0]}}}"
        kind = "must-alias" if attributes.get("jax.must_alias") is not None else "may-alias"
        yield f"{index}: ({number}, {{}}, {kind})"
