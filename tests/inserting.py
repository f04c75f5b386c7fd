"""Arguments and results inserted into the text of a module, with all numbers after them shifted: for tests.

What a frontend or compiler writes when a program takes one more argument: parameter numbers, the layouts, aliases, and
flags of the header, tuples, and tuple indices follow.
"""

from __future__ import annotations

import re
from random import Random

from edits import Draft, Line
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, annotate_indices
from hlo_cli.syntax.scanning.shape_reader import parse_shape

_FLAGS = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")
_LISTS = (("arg_layout_modes", "arg_memory_spaces"), ("out_layout_modes", "out_memory_spaces"))


class Insertion:
    """A draft in which arguments, results, and elements of loops are inserted at a number."""

    def __init__(self, module: Module) -> None:
        self.draft = Draft(module)
        self.module = module
        self.entry = next(lines for head, _, lines in self.draft.computations if head.startswith("ENTRY"))
        self.computations = {name: lines for _, name, lines in self.draft.computations}
        self.header = {attribute.name: attribute.value for attribute in module.header}

    def text(self) -> str:
        """The edited module's text."""
        fields = (f"{name}={value}" for name, value in self.header.items())
        self.draft.header = ", ".join((f"HloModule {self.module.name}", *fields))
        return self.draft.text()

    def argument(self, number: int, shape: Shape, name: str = "inserted.argument") -> Line:
        """A new parameter of the entry at this number."""
        for line in self.entry:
            if line.opcode == "parameter" and int(line.argument) >= number:
                line.argument = str(int(line.argument) + 1)
        metadata = ("metadata", f"{{op_name=\"p['{name}']\"}}")
        line = Line(name, shape, "parameter", [], str(number), [metadata], False)
        self.entry.insert(0, line)
        self._shift_header(number, shape, is_result=False)
        return line

    def result(self, number: int, value: Line) -> None:
        """A new element of the entry's result."""
        root = next(line for line in self.entry if line.is_root)
        assert isinstance(root.shape, TupleShape)
        root.operands.insert(number, (value, ""))
        root.shape = with_element(root.shape, number, value.shape)
        self._shift_header(number, value.shape, is_result=True)

    def element(self, loop: Line, number: int, value: Line) -> Line:
        """A new element of a loop's carried tuple; returns the body's element, passed on to the next trip."""
        (init, _), shape = loop.operands[0], value.shape
        body = self.computations[_called(loop, "body")]
        grown = with_element(loop.shape, number, shape)
        init.operands.insert(number, (value, ""))
        self.entry.remove(value)
        self.entry.insert(0, value)
        root = next(line for line in body if line.is_root)
        parameter = self._parameter_of(loop, "body")
        for carrier in (loop, init, root, parameter, self._parameter_of(loop, "condition")):
            carrier.shape = grown
        for lines, source in ((body, parameter), (self._lines_of(loop), loop)):
            shift_elements(lines, source, number)
        condition = self.computations[_called(loop, "condition")]
        shift_elements(condition, self._parameter_of(loop, "condition"), number)
        element = Line("inserted.element", shape, "get-tuple-element", [(parameter, "")], "", [], False)
        element.attributes = [("index", str(number))]
        body.insert(body.index(parameter) + 1, element)
        root.operands.insert(number, (element, ""))
        return element

    def use(self, value: Line, lines: list[Line], random: Random) -> bool:
        """Combines `value` with a random value of its shape by a new instruction; whether there was one."""
        text = value.shape.to_string(layout=False)
        able = [
            (line, slot)
            for line in lines
            for slot, (operand, element) in enumerate(line.operands)
            if not element
            and operand is not value
            and operand.shape.to_string(layout=False) == text
            and line.opcode not in ("while", "fusion-start")
            and not line.opcode.endswith(("-done", "-update"))
            and not operand.opcode.endswith("-start")
        ]
        if not able:
            return False
        line, slot = random.choice(able)
        operand = line.operands[slot][0]
        opcode = "and" if text.startswith("pred") else "multiply"
        added = Line("inserted.use", operand.shape, opcode, [(operand, ""), (value, "")], "", [], False)
        line.operands[slot] = added, ""
        lines.insert(lines.index(line), added)
        return True

    def loops(self) -> list[Line]:
        """Loops of the entry whose tuples are all made by tuple instructions and used by tuple elements."""
        found = []
        for loop in self.entry:
            if loop.opcode != "while" or loop.operands[0][0].opcode != "tuple":
                continue
            body = self.computations[_called(loop, "body")]
            root = next(line for line in body if line.is_root)
            users = [line for line in self.entry if any(o is loop for o, _ in line.operands)]
            if root.opcode == "tuple" and all(line.opcode == "get-tuple-element" for line in users):
                found.append(loop)
        return found

    def body(self, loop: Line) -> list[Line]:
        """The lines of a loop's body."""
        return self.computations[_called(loop, "body")]

    def _lines_of(self, line: Line) -> list[Line]:
        return next(lines for lines in self.computations.values() if line in lines)

    def _parameter_of(self, loop: Line, attribute: str) -> Line:
        lines = self.computations[_called(loop, attribute)]
        return next(line for line in lines if line.opcode == "parameter")

    def _shift_header(self, number: int, shape: Shape, *, is_result: bool) -> None:
        side = int(is_result)
        layout = self.module.entry_computation_layout if "entry_computation_layout" in self.header else None
        if layout is not None:
            parameters, result = self._layout()
            if not is_result:
                parameters.insert(number, shape)
            else:
                assert isinstance(result, TupleShape)
                result = with_element(result, number, shape)
            text = annotate_indices([str(each) for each in parameters])
            self.header["entry_computation_layout"] = f"{{({text})->{result}}}"
        for name in ("input_output_alias", "buffer_donor"):
            if name in self.header:
                pattern = r"\((\d+)" if side == 0 else r"(?<=[{,] )\{(\d+)"
                self.header[name] = re.sub(pattern, lambda match: _shifted(match, number), self.header[name])
        if "," in (flags := self.header.get(_FLAGS[side], "")):
            items = flags.strip("{}").split(",")
            items.insert(number, items[0])
            self.header[_FLAGS[side]] = f"{{{','.join(items)}}}"
        if text := self.header.get("frontend_attributes", ""):
            pattern = rf'((?:{"|".join(_LISTS[side])})=")([^"]*)'
            self.header["frontend_attributes"] = re.sub(pattern, lambda match: _inserted(match, number), text)

    def _layout(self) -> tuple[list[Shape], Shape]:
        from hlo_cli import parse_module

        text = f"HloModule m, entry_computation_layout={self.header['entry_computation_layout']}"
        layout = parse_module(f"{text}\nENTRY e {{ ROOT p = s8[] parameter(0) }}").entry_computation_layout
        assert layout is not None
        return list(layout.parameters), layout.result


def _called(line: Line, attribute: str) -> str:
    return next(value.lstrip("%") for name, value in line.attributes if name == attribute)


def _shifted(match: re.Match[str], number: int) -> str:
    here = int(match[1])
    return match[0][0] + str(here + (here >= number))


def _inserted(match: re.Match[str], number: int) -> str:
    items = match[2].split(";")
    items.insert(number, items[0])
    return match[1] + ";".join(items)


def with_element(shape: Shape, number: int, element: Shape) -> Shape:
    """A tuple shape with one more element."""
    assert isinstance(shape, TupleShape)
    items = [*shape.elements[:number], element, *shape.elements[number:]]
    return parse_shape(f"({', '.join(map(str, items))})")


def shift_elements(lines: list[Line], source: Line, number: int) -> None:
    """Makes elements of a tuple those after an inserted one."""
    for line in lines:
        if line.opcode == "get-tuple-element" and line.operands[0][0] is source:
            line.attributes = [
                (name, str(int(value) + (int(value) >= number)) if name == "index" else value)
                for name, value in line.attributes
            ]


def array_shapes(lines: list[Line]) -> list[Shape]:
    """The shapes of values that are arrays in memory of the default space."""
    return [line.shape for line in lines if isinstance(line.shape, ArrayShape)]
