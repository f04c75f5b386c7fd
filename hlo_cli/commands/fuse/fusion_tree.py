"""`hlo fuse DUMP NAME`: one fusion, its body as a tree from the result down to its operands."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.kernels import Fusion, backend_of, fusion_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.commands.fuse.fusion_notes import is_inline_constant, operand_note, repeated_operations
from hlo_cli.commands.fuse.kernel_model import model_facts, model_numbers
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, model_of, notes_on_costs
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.report.numbers import count, format_bytes, format_count, format_scaled
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import ROWS_FOR_A_PERSON, Branch, Column, Fact, Facts, Row, Tree
from hlo_cli.source import HloError

_COLUMNS: Final = (
    Column("instruction", "instruction", "name"),
    Column("type", "shape", "shape", rank=6, machine=False),
    Column("description", "", rank=7, machine=False),
    Column("shape", "shape", "shape", person=False),
    Column("note", "note", person=False),
    Column("outside", "outside", "name", person=False),
    Column("bytes", "", "bytes"),
    Column("opcode", "opcode", from_width=120, rank=3),
    Column("source", "source", "source", rank=2),
    Column("op_name", "op_name", "op_name", from_width=120, rank=1),
)
_AGAIN: Final = "(shown above)"


def report_of_fusion(loaded: Loaded, name: str, *, timing: TimingColumns | None, argument: str = "") -> Report:
    """The fusion of this name, or the fusion that calls the computation of this name."""
    module = loaded.module
    instruction = _named(module, name)
    fusion = fusion_of(instruction)
    parts: tuple[Part, ...] = (Facts(opcodes.FUSION, _facts(module, fusion, timing)), _tree(module, fusion))
    return Report(
        "fuse",
        _answer(fusion),
        numbers={
            opcodes.FUSION: instruction.name,
            "kind": fusion.kind,
            "called_computation": fusion.body.name,
            "heroes": tuple(hero.name for hero in fusion.heroes),
            "operations": len(fusion.operations),
            "read_bytes": fusion.read_bytes,
            "written_bytes": fusion.written_bytes,
            "saved_bytes": fusion.saved_bytes,
            "flops": round(fusion.cost.flops),
            "transcendentals": round(fusion.cost.transcendentals),
            "intensity": fusion.cost.intensity,
            "operations_of_unknown_cost": fusion.cost.unknown,
            **(model_numbers(timing.prediction(instruction, fusion.cost), instruction) if timing is not None else {}),
            **model_of(timing),
        },
        parts=parts,
        next=_next(fusion, argument),
        notes=(*notes_of(loaded), *notes_on_costs(loaded, timing)),
        input=input_facts(loaded),
    )


def _named(module: Module, name: str) -> Instruction:
    bare = name.removeprefix("%")
    called = {c.name: i for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    found = called.get(bare) or module.instruction(bare)
    if found.opcode == opcodes.FUSION and found.called_computations:
        return found
    if found.opcode == opcodes.FUSION:
        raise HloError(f"the body of {found.name} is not in the text")
    around = next((i for i in called.values() if found.computation in i.called_computations), None)
    hint = f"it is part of {around.name}" if around is not None else f"run `hlo parse DUMP --explain {found.name}`"
    raise HloError(f"'{found.name}' is not a fusion: its opcode is {found.opcode}", hint=hint)


def _answer(fusion: Fusion) -> str:
    """The traffic that the fusion avoids, in sizes of one unit."""
    sizes = f"reads {format_bytes(fusion.read_bytes)}, writes {format_bytes(fusion.written_bytes)}"
    saved = fusion.saved_bytes
    avoided = f"avoids {format_bytes(saved)} of traffic" if saved > 0 else "avoids no traffic"
    number = len(fusion.operations)
    return f"1 kernel{f' instead of {number:,}' if number > 1 else ''}: {sizes}, {avoided}"


def _facts(module: Module, fusion: Fusion, timing: TimingColumns | None) -> tuple[Fact, ...]:
    cost, backend = fusion.cost, backend_of(fusion.instruction, target_of(module))
    made = ", ".join(
        word
        for word in (fusion.kind, backend.provider if backend.provider != "unknown" else "", backend.details)
        if word
    )
    words = f"{count(cost.flops)} flops, {count(cost.transcendentals)} transcendentals"
    if cost.intensity is not None:
        words += f", {format_scaled(cost.intensity, decimals=1)} flops/byte"
    if cost.unknown:
        words += f", {format_count(cost.unknown, 'operations')} of unknown cost"
    facts = [
        Fact("kernel", remark=made),
        Fact("hero", remark=", ".join(f"{hero.name} ({hero.opcode})" for hero in fusion.heroes)),
        Fact("cost", remark=words),
    ]
    if timing is not None:
        facts.append(Fact("time", remark=timing.describe(fusion.instruction, cost)))
        facts += model_facts(timing.prediction(fusion.instruction, cost), fusion.instruction)
    if len(fusion.body.instructions) > ROWS_FOR_A_PERSON:
        summary = (
            Fact("reads", remark=_read(fusion)),
            Fact("contains", remark=repeated_operations(fusion.body.instructions)),
        )
        facts += [fact for fact in summary if fact.remark]
    return tuple(facts)


def _read(fusion: Fusion) -> str:
    """The number of operands, and the operand of which most bytes are read."""
    read = {i.name: round(fusion.cost.operand_bytes(number)) for number, i in enumerate(fusion.instruction.operands)}
    if not read:
        return ""
    most = max(read, key=read.__getitem__)
    return f"{format_count(len(read), 'operands')}; largest {most}, {format_bytes(read[most])}"


def _next(fusion: Fusion, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    inside = next((each.name for each in fusion.body.instructions if each.opcode == opcodes.FUSION), None)
    deeper = (f"hlo fuse {argument} {inside}",) if inside is not None else ()
    return (*deeper, f"hlo parse {argument} --explain {fusion.name}")


@dataclass(slots=True)
class _Pending:
    """An unfinished row: its instruction, the branches added so far, and the operands left to add."""

    instruction: Instruction
    below: list[Branch]
    coming: list[Instruction]


def _tree(module: Module, fusion: Fusion) -> Tree:
    """Every instruction once, from the root to the parameters; repeated ones are marked `(shown above)`."""
    rows = _Rows(module, fusion)
    root = fusion.body.root
    stack = [_Pending(root, [], rows.coming(root))] if root is not None else []
    seen = {root}
    roots: list[Branch] = []
    while stack:
        top = stack[-1]
        if top.coming:
            operand = top.coming.pop(0)
            if operand in seen and rows.coming(operand):
                top.below.append(Branch(rows.again(operand)))
            else:
                seen.add(operand)
                stack.append(_Pending(operand, [], rows.coming(operand)))
            continue
        stack.pop()
        done = Branch(rows.row(top.instruction), tuple(top.below))
        (stack[-1].below if stack else roots).append(done)
    return Tree("body", _COLUMNS, tuple(roots), noun="instructions")


class _Rows:
    """The rows of a fusion's body."""

    def __init__(self, module: Module, fusion: Fusion) -> None:
        """Prepares the rows; source locations are looked up on demand."""
        self._fusion = fusion
        self._origins = origins_of(module)
        root = fusion.body.root
        is_tuple = root is not None and root.opcode == opcodes.TUPLE
        self._written = set(root.operands if is_tuple and root is not None else (root,))

    def coming(self, instruction: Instruction) -> list[Instruction]:
        """The operands that get rows of their own, each once, without constants of one element."""
        return [operand for operand in dict.fromkeys(instruction.operands) if not is_inline_constant(operand)]

    def again(self, instruction: Instruction) -> Row:
        """The row of an instruction that is shown further up."""
        return (instruction.name, None, _AGAIN, None, _AGAIN, None, None, instruction.opcode, None, None)

    def row(self, instruction: Instruction) -> Row:
        """The row of an instruction, with the bytes read or written there."""
        origin = self._origins.own(instruction)
        shape, outside = instruction.shape, self._outside(instruction)
        notes = ("output" if instruction in self._written else "", operand_note(instruction))
        note = ", ".join(each for each in notes if each) or None
        return (
            instruction.name,
            None if isinstance(shape, TupleShape) else str(shape).partition("{")[0],
            outside or note,
            str(shape),
            note,
            outside,
            self._bytes(instruction),
            instruction.opcode,
            origin.source or None,
            origin.op_name or None,
        )

    def _outside(self, instruction: Instruction) -> str | None:
        number = instruction.parameter_number
        operands = self._fusion.instruction.operands
        return operands[number].name if number is not None and number < len(operands) else None

    def _bytes(self, instruction: Instruction) -> int | None:
        if (number := instruction.parameter_number) is not None:
            return round(self._fusion.cost.operand_bytes(number))
        if instruction in self._written and isinstance(instruction.shape, ArrayShape):
            in_place = instruction.opcode == opcodes.DYNAMIC_UPDATE_SLICE and len(instruction.operands) > 1
            return (instruction.operand_shape(1) if in_place else instruction.shape).logical_bytes
        return None
