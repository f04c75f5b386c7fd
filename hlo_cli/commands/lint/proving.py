"""Does a hint come true? It is applied to the module, which is measured before and after, here and by XLA.

Donated arguments, arguments that are not passed, and other layouts of arguments and results are changes that a module
can show. Other hints are changes of the program, which a compiler would have to see from the source. XLA is asked in a
process of its own: the program before optimizations is compiled for a CPU with the change and without, if `--python`
names an environment with jaxlib.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import module_cost
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import is_file
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.lint.advice import argument_of, donated, donations_of, needed_bytes, whole_argument
from hlo_cli.lint.rule import LintContext
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Finding
from hlo_cli.report.table import Column, Table, rows_from
from hlo_cli.source import HloError, joined_by_and
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.reduction.draft import Draft, draft_of

# --- what is proven ---


@dataclass(frozen=True, slots=True)
class Proof:
    """A hint with what it promises, and what the change saves in our analyses and in XLA's compilation, in bytes.

    `why` is why the hint is not applied, or not compiled, if it is not. `change` is what was done. `count` findings of
    a rule that are not applied for one reason are one proof, of the first; so are donations that only save together.
    """

    finding: Finding
    change: str = ""
    promised_bytes: int | None = None
    measured_bytes: int | None = None
    compiled_bytes: int | None = None
    why: str = ""
    count: int = 1

    @property
    def verdict(self) -> str:
        """Whether the hint comes true; a tenth less than promised is true, as alignment takes some.

        >>> finding = Finding("warning", "", code="HLO203")
        >>> [Proof(finding, "x", 100, measured).verdict for measured in (100, 40, 0, None)]
        ['true', 'less', 'false', 'not applied']
        """
        found = self.measured_bytes if self.compiled_bytes is None else self.compiled_bytes
        if found is None or self.promised_bytes is None:
            return "not applied"
        if found <= 0:
            return "false"
        return "true" if found >= _KEPT * self.promised_bytes else "less"


_KEPT: Final = 0.9
"""The share of what a hint promises that counts as true: buffers are aligned to 64 bytes and more."""


def proofs(
    module: Module, found: Sequence[Finding], settings: LintSettings, *, before: Module | None = None, python: str = ""
) -> tuple[Proof, ...]:
    """A proof for each hint that can be applied, then one for each rule and reason of the others with a known cost.

    Equal changes are made once. Arguments that only save memory together are one proof, with the saving of all.

    `before` is the same program before optimizations, which XLA can compile, with the Python of an environment.
    """
    context = LintContext(module, settings)
    answered: dict[tuple[str | None, str], tuple[_Change, list[Finding]]] = {}
    others: dict[tuple[str | None, str], Proof] = {}
    for finding in found:
        if finding.cost_bytes is None:
            continue
        change = "no hint to apply" if finding.hint is None else _change(context, finding)
        if isinstance(change, str):
            before_it = others.get(key := (finding.code, change), Proof(finding, "", 0, why=change, count=0))
            total = (before_it.promised_bytes or 0) + finding.cost_bytes
            others[key] = replace(before_it, promised_bytes=total, count=before_it.count + 1)
            continue
        answered.setdefault((finding.code, change.words), (change, []))[1].append(finding)
    proven = [*others.values()]
    for change, answers in answered.values():
        proof = _proof(context, change, answers[0], before, python)
        if change.is_joint:
            total = sum(each.cost_bytes or 0 for each in answers)
            proven.append(replace(proof, promised_bytes=total, count=len(answers)))
        else:
            proven += [replace(proof, finding=each, promised_bytes=each.cost_bytes) for each in answers]
    return tuple(sorted(proven, key=lambda proof: (proof.measured_bytes is None, -(proof.promised_bytes or 0))))


# --- the changes that a module can show ---


@dataclass(frozen=True, slots=True)
class _Change:
    """A change in words, how it is made to a module, and whether it saves memory or traffic.

    `is_of_program` if it can be made before optimizations as well, where instructions have other names. `is_joint` if
    it answers several findings, whose costs are shares of one saving.
    """

    words: str
    apply: Callable[[Module], Module]
    saves_traffic: bool = False
    is_of_program: bool = False
    is_joint: bool = False


def _change(context: LintContext, finding: Finding) -> _Change | str:
    """The change of a hint; or why there is none."""
    made = _CHANGES.get(finding.code or "")
    if made is None:
        return "a change of the source"
    module = context.module
    if finding.instruction is None or finding.computation != module.entry.name:
        return "not in the entry computation"
    instruction = module.entry.instruction(finding.instruction)
    return (instruction and made(context, instruction)) or "a change of the source"


def _donation(context: LintContext, argument: Instruction) -> _Change | None:
    """The arrays of the argument, all of them, donated; with those of the others if savings do not add up."""
    donations = donations_of(context.analyses.memory, context.settings.min_donation_bytes)
    wholes = {each: whole_argument(context.user_name(each.argument), each.argument) for each in donations.arguments}
    own = next((each for each in wholes if each.argument is argument), None)
    if own is None:
        return None
    is_joint = donations.saved_by(own) is None
    chosen = tuple(each for each, whole in wholes.items() if is_joint or whole == wholes[own])
    words = f"{joined_by_and(tuple(dict.fromkeys(wholes[each] for each in chosen)))} donated"
    return _Change(words, lambda module: donated(module, chosen), is_of_program=True, is_joint=is_joint)


def _not_passed(context: LintContext, argument: Instruction) -> _Change | None:
    """The argument removed."""
    number = argument.parameter_number
    if number is None:
        return None

    def apply(module: Module) -> Module:
        parameter = module.entry.parameters[number]
        if any(parameter in each.operands for each in module.entry.instructions) or parameter.is_root:
            raise HloError("the program before optimizations reads the argument")
        draft = draft_of(module)
        return _read(draft.with_entry(draft.entry.replaced({parameter.name: None})))

    return _Change(f"{context.user_name(argument)} not passed", apply, is_of_program=True)


def _layout(context: LintContext, copy: Instruction) -> _Change | None:
    """The argument in the layout of its copy, or the result in that of what is copied; without the copy."""
    argument, written = argument_of(copy.operands[0]), copy.shape
    if copy.opcode != opcodes.COPY or not isinstance(written, ArrayShape):
        return None
    if argument is copy.operands[0]:
        shape = argument.shape
        words = f"{context.user_name(argument)} in layout {written.layout}"
    elif argument is None and isinstance(copy.operands[0].shape, ArrayShape):
        shape, words = None, f"the result in layout {copy.operands[0].shape.layout}"
    else:
        return None

    def apply(module: Module) -> Module:
        draft = draft_of(module)
        entry = draft.entry
        operand = entry[copy.name].operands[0]
        if "#" in operand:
            raise HloError("an element of a tuple is copied")
        changed = entry.replaced({copy.name: None}).redirected({copy.name: operand})
        if shape is not None:
            changed = changed.replaced({operand: replace(changed[operand], shape=written)})
        lines = {line.name: line.shape for line in changed.lines}
        root = changed[changed.root]
        if root.opcode == opcodes.TUPLE and "#" not in "".join(root.operands):
            # Its elements have the layouts of what is in it now.
            elements = tuple(lines[name] for name in root.used)
            changed = changed.replaced({root.name: replace(root, shape=TupleShape(elements))})
        return _read(draft.with_entry(changed))

    return _Change(words, apply, saves_traffic=True)


_CHANGES: Final[Mapping[str, Callable[[LintContext, Instruction], _Change | None]]] = {
    "HLO102": _layout,
    "HLO203": _donation,
    "HLO206": _not_passed,
}
"""The rules whose hints are changes that a module can show."""


def _read(draft: Draft) -> Module:
    return parse_module(draft.to_string())


# --- the measurements ---


def _proof(context: LintContext, change: _Change, finding: Finding, before: Module | None, python: str) -> Proof:
    module, promised = context.module, finding.cost_bytes
    try:
        changed = change.apply(module)
    except HloError as error:
        return Proof(finding, change.words, promised, why=error.diagnostic.message)
    if change.saves_traffic:
        measured = int(module_cost(module).bytes_accessed - module_cost(changed).bytes_accessed)
    else:
        memory = context.analyses.memory
        after = memory_analysis(changed, target=memory.target, generation=memory.generation)
        measured = needed_bytes(memory) - needed_bytes(after)
    proof = Proof(finding, change.words, promised, measured)
    if not python:
        return proof
    if not change.is_of_program or before is None:
        why = "XLA chooses layouts anew" if not change.is_of_program else "no program before optimizations in the input"
        return replace(proof, why=why)
    try:
        return replace(proof, compiled_bytes=_compiled_saving(before, change.apply(before), python))
    except HloError as error:
        return replace(proof, why=error.diagnostic.message)


_SCRIPT: Final = """
import json, os, sys
os.environ["JAX_PLATFORMS"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "cpu", "3"
import jax
from jaxlib import _hlo, _jax
client = jax.devices("cpu")[0].client
devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
found = []
for text in json.load(sys.stdin):
    program = _jax.mlir.hlo_to_stablehlo(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    sizes = client.compile_and_load(program, devices, _jax.CompileOptions()).get_compiled_memory_stats()
    found.append(sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
                 + sizes.temp_size_in_bytes)
print(json.dumps(found))
"""
"""Compiles programs for a CPU, and prints the bytes of each: `CompiledMemoryStats` of xla/pjrt/pjrt_executable.h."""
_SECONDS: Final = 600.0
"""Seconds for both compilations: a hundred times what a program of ten thousand instructions takes."""


def _compiled_saving(before: Module, after: Module, python: str) -> int:
    """The bytes that XLA's compilation of a program needs less after a change; HloError if it fails."""
    found = next((path for path in _pythons(python) if is_file(path)), None)
    if found is None:
        raise HloError(f"{python} is not a virtual environment", hint="such as --python .venv")
    texts = json.dumps([draft_of(each).to_string() for each in (before, after)])
    try:
        done = subprocess.run(
            [found, "-c", _SCRIPT], input=texts, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise HloError(f"XLA took more than {_SECONDS:g} s") from None
    if done.returncode:
        words = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise HloError(f"XLA does not compile it: {words[:_LONGEST_ERROR]}")
    old, new = json.loads(done.stdout.splitlines()[-1])
    return int(old - new)


_LONGEST_ERROR: Final = 120  # what fits a line of a table


def _pythons(python: str) -> Iterator[str]:
    yield os.path.join(python, "bin", "python")
    yield os.path.join(python, "Scripts", "python.exe")
    yield python


# --- the table ---


def proof_table(found: Sequence[Proof], *, is_compiled: bool) -> Table:
    """What each hint promises, and what it saves."""
    columns: tuple[Column[Proof], ...] = (
        Column("code", "rule", of=lambda proof: proof.finding.code),
        Column("findings", "findings", "count", of=lambda proof: proof.count),
        Column(
            "instruction",
            "instruction",
            "name",
            person=False,
            of=lambda proof: proof.finding.instruction if proof.count == 1 else None,
        ),
        Column("promised_bytes", "promised", "bytes", of=lambda proof: proof.promised_bytes),
        Column("measured_bytes", "measured", "bytes", like="promised_bytes", of=lambda proof: proof.measured_bytes),
        Column(
            "compiled_bytes",
            "compiled",
            "bytes",
            like="promised_bytes",
            person=is_compiled,
            of=lambda proof: proof.compiled_bytes,
        ),
        Column("verdict", "verdict", of=lambda proof: proof.verdict),
        Column("change", "change", person=False, of=lambda proof: proof.change or None),
        Column("reason", "reason", person=False, of=lambda proof: proof.why or None),
        Column(
            "how",
            "change",
            machine=False,
            of=lambda proof: "; ".join(filter(None, (proof.change, proof.why))),
        ),
    )
    return Table("proofs", columns, rows_from(columns, found), noun="hints", title="Proofs of hints", main=False)
