"""Instructions as drafts of `HloInstructionProto`.

Mirrors `ToProto` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.field_scan import KIND
from hlo_cli.syntax.proto.literals import literal_draft
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.numbers import Numbers
from hlo_cli.syntax.proto.shapes import shape_draft
from hlo_cli.syntax.proto.write_attributes import add_attributes
from hlo_cli.syntax.proto.write_values import fieldwise_draft
from hlo_cli.syntax.scanning.split_attributes import without_metadata
from hlo_cli.syntax.values.metadata import parse_metadata


@dataclass(frozen=True, slots=True)
class Writing:
    """State for writing instructions: all ids, and parts that many instructions share, written once.

    Shared parts are shapes, metadata, and everything independent of other instructions. `wrapped` are operations of
    async computations with their inherited attributes.
    """

    numbers: Numbers
    wrapped: Mapping[Instruction, Instruction] = field(default_factory=dict)
    _shapes: dict[int, bytes] = field(default_factory=dict)
    _metadata: dict[str, MessageBuilder] = field(default_factory=dict)
    _shared: dict[tuple[str, int, str, str], MessageBuilder] = field(default_factory=dict)
    _named: dict[Computation, Mapping[str, Instruction]] = field(default_factory=dict)

    def shape(self, instruction: Instruction) -> bytes:
        """The `ShapeProto` of an instruction's shape. Most shapes occur often, and as the same object."""
        shape = instruction.shape
        if (known := self._shapes.get(id(shape))) is None:
            known = self._shapes[id(shape)] = shape_draft(shape).to_bytes()
        return known

    def metadata(self, text: str) -> MessageBuilder:
        """A builder of an instruction with only the metadata of this text."""
        if (known := self._metadata.get(text)) is None:
            known = self._metadata[text] = _metadata_draft(parse_metadata(text))
        return known

    def shared(self, instruction: Instruction, argument: str, attributes: str) -> MessageBuilder:
        """The fields that instructions with this opcode, this shape, and these texts have in common."""
        key = instruction.written_opcode, id(instruction.shape), argument, attributes
        if (known := self._shared.get(key)) is None:
            known = self._shared[key] = _shared_draft(instruction, self.shape(instruction))
        return known

    def predecessors(self, instruction: Instruction) -> list[int]:
        """The numbers of the control predecessors."""
        computation = instruction.computation
        if computation not in self._named:
            self._named[computation] = {each.name: each for each in computation.instructions}
        named = self._named[computation]
        for name in instruction.control_predecessors:
            if name not in named:
                where = instruction.computation.name
                raise HloError(f"{instruction.name} comes after {name}, which {where} does not have", instruction.span)
        return [self.numbers.instructions[named[name]] for name in instruction.control_predecessors]


def instruction_draft(instruction: Instruction, writing: Writing) -> MessageBuilder:
    """An instruction; HloError if it has contents that no proto can hold, or that are unknown."""
    if (
        wrapped_opcode(instruction.written_opcode) is not None
        or instruction.index in instruction.computation.operand_indices
    ):
        raise HloError(
            f"{instruction.name} uses a short form that protos do not support",
            hint="dump without xla_syntax_sugar_async_ops and xla_dump_compact_gte",
        )
    operation = writing.wrapped.get(instruction, instruction)
    argument, text = operation.raw
    attributes, metadata = without_metadata(text)
    numbers = writing.numbers
    draft = MessageBuilder(KIND).include(writing.shared(operation, argument, attributes))
    draft.add("name", numbers.names[instruction]).add("id", numbers.instructions[instruction], always=True)
    draft.add("operand_ids", [numbers.instructions[operand] for operand in instruction.operands])
    draft.add("called_computation_ids", [numbers.computations[c] for c in instruction.called_computations])
    if metadata:
        draft.include(writing.metadata(metadata))
    elif "metadata=" in attributes:
        draft.include(_metadata_draft(parse_metadata(operation.attribute("metadata") or "")))
    if instruction.opcode == opcodes.OUTFEED and "outfeed_shape=" not in attributes:
        draft.add("outfeed_shape", shape_draft(instruction.operand_shape(0)))
    if "control-predecessors" in attributes:
        draft.add("control_predecessor_ids", writing.predecessors(instruction))
    return draft


def _metadata_draft(metadata: Metadata) -> MessageBuilder:
    if metadata == NO_METADATA:
        return MessageBuilder(KIND)
    payload = metadata.metadata_payload
    draft = fieldwise_draft("OpMetadata", replace(metadata, metadata_payload=""))
    draft.add("metadata_payload", MessageBuilder("Payload").add("value", payload) if payload else None)
    return MessageBuilder(KIND).add("metadata", draft)


def _shared_draft(instruction: Instruction, shape: bytes) -> MessageBuilder:
    """The fields of an instruction alone: XLA reads constants without values, as dumps omit them."""
    draft = MessageBuilder(KIND).add("opcode", instruction.written_opcode).add("shape", shape, always=True)
    if (literal := instruction.literal) is not None:
        draft.add("literal", literal_draft(literal) if not literal.is_elided else None)
    elif instruction.written_opcode == opcodes.PARAMETER:
        draft.add("parameter_number", instruction.parameter_number)
    add_attributes(draft, instruction)
    return draft
