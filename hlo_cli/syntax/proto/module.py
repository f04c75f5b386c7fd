"""A module in a proto as the HLO text that XLA prints for it in a dump.

Mirrors `HloModule::Print` of xla/hlo/ir/hlo_module.cc. What belongs to the configuration of the compiler and not to
the module is in no `HloModuleProto`: whether shardings may propagate, and which parameters pass through.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.aliasing import Alias, BufferDonor, ComputationLayout
from hlo_cli.ir.origin import Recovery
from hlo_cli.ir.strings import quoted
from hlo_cli.ir.values import value_text
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.computations import RawComputation, Schedule, computation_text, print_order
from hlo_cli.syntax.proto.instructions import Texts, sanitized
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.values import frontend_attributes_of, original_array_of


def module_text(module: Message) -> str:
    """The text of a `HloModuleProto`; HloError if it holds no computation, or one that does not hang together."""
    computations = {c.id: c for c in map(RawComputation, module.messages("computations"))}
    if not computations:
        raise HloError("the proto holds no computation")
    schedule = _schedule(module)
    parts = [", ".join((f"HloModule {sanitized(module.text('name'))}", *_header(module, schedule))) + "\n"]
    if tables := _stack_tables(module.message("stack_frame_index")):
        parts.append(tables + "\n")
    names = {number: computation.name for number, computation in computations.items()}
    texts, entry = Texts(), _entry(module)
    parts.extend(
        computation_text(computation, texts, names, schedule, is_entry=computation.id == entry) + "\n"
        for computation in print_order(computations)
    )
    return "\n".join(parts) + "\n"


def _entry(module: Message) -> int:
    if module.has("entry_computation_id"):
        return module.integer("entry_computation_id")
    name = module.text("entry_computation_name")
    named = (c for c in module.messages("computations") if c.text("name") == name)
    return next((c.integer("id") for c in named), 0)


def _schedule(module: Message) -> Schedule:
    sequences = module.message("schedule").messages("sequences")
    return {each.integer("key"): each.message("value").integers("instruction_ids") for each in sequences}


def _header(module: Message, schedule: Schedule) -> Iterator[str]:
    if schedule:
        yield "is_scheduled=true"
    aliases = tuple(map(_alias, module.message("input_output_alias").messages("entries")))
    if aliases:
        yield f"input_output_alias={value_text(aliases)}"
    donors = tuple(map(_donor, module.message("buffer_donor").messages("entries")))
    if donors:
        yield f"buffer_donor={value_text(donors)}"
    if module.has("host_program_shape"):
        program = module.message("host_program_shape")
        parameters = tuple(map(shape_of, program.messages("parameters")))
        yield f"entry_computation_layout={ComputationLayout(parameters, shape_of(program.message('result')))}"
    assignment = module.message("device_assignment")
    for name, field in (("replica_count", "replica_count"), ("num_partitions", "computation_count")):
        if (count := assignment.integer(field)) > 1:
            yield f"{name}={count}"
    if (attributes := frontend_attributes_of(module.message("frontend_attributes"))).entries:
        yield f"frontend_attributes={attributes}"
    entries = module.message("original_value_recovery_table").messages("entries")
    if entries:
        yield "origin_recovery_table={\n" + "".join(f"  {_recovery(entry)}\n" for entry in entries) + "}"


def _alias(entry: Message) -> Alias:
    return Alias(
        entry.integers("output_shape_index"),
        entry.integer("parameter_number"),
        entry.integers("parameter_shape_index"),
        entry.word("kind"),
    )


def _donor(entry: Message) -> BufferDonor:
    return BufferDonor(entry.integer("parameter_number"), entry.integers("parameter_shape_index"))


def _recovery(entry: Message) -> Recovery:
    inner = entry.message("recovery_module")
    return Recovery(
        original_array_of(entry.message("old_original_array")),
        original_array_of(entry.message("new_original_array")),
        module_text(inner) if inner.numbers else "",
    )


def _stack_tables(index: Message) -> str:
    """The four tables as XLA prints them: a frame's parent counts from 1 there, and 1 stands for none."""
    if not index.numbers:
        return ""
    rows = {
        "FileNames": map(quoted, index.texts("file_names")),
        "FunctionNames": map(quoted, index.texts("function_names")),
        "FileLocations": map(_file_location, index.messages("file_locations")),
        "StackFrames": map(_stack_frame, index.messages("stack_frames")),
    }
    return "\n".join(
        f"{section}\n" + "".join(f"{number} {row}\n" for number, row in enumerate(listed, 1))
        for section, listed in rows.items()
    )


def _file_location(location: Message) -> str:
    fields = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    return "{" + " ".join(f"{name}={location.integer(name)}" for name in fields) + "}"


def _stack_frame(frame: Message) -> str:
    parent = frame.integer("parent_frame_id") + 1
    return f"{{file_location_id={frame.integer('file_location_id')} parent_frame_id={parent}}}"
