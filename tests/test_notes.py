"""Notes: what a text says that XLA's grammar does not have, or leaves out; one for each distinct thing, with its place."""

from __future__ import annotations

import pytest

from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.source import Diagnostic
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, attributes_of
from hlo_cli.syntax.text.parser import parse_module
from versions import IS_NEWER_XLA

HEAD = "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n"


def module_of(*lines: str) -> Module:
    """A module with these lines behind a parameter `%p`, from line 5 on."""
    return parse_module(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n")


def placed(diagnostic: Diagnostic) -> str:
    """The message behind line and column."""
    position = diagnostic.position
    assert position is not None
    return f"{position.line}:{position.column} {diagnostic.message}"


# One line, and the note on it. Judged by the grammar of xla/hlo/parser/hlo_parser.cc.
NOTES = (
    ("ROOT %x = f32[2]{0} frob(%p)", "5:23 unknown opcode frob; kept as text"),
    ("ROOT %x = f32[2]{0} Negate-start(%p)", "5:23 unknown opcode Negate-start; kept as text"),
    ("ROOT %x = f32[2]{0} negate(%p), frob=1", "5:35 unknown attribute frob on negate; kept as text"),
    (
        "ROOT %x = f32[2]{0} negate(%p), dimensions={0}",
        "5:35 unknown attribute dimensions on negate; kept as text",
    ),
    ("ROOT %x = f9e4[2]{0} negate(%p)", "5:13 unknown element type f9e4; size counted as 0"),
    (
        "ROOT %x = f32[2,3]{0,0} negate(%p)",
        "5:13 invalid layout of f32[2,3]{0,0}: duplicate layout dimension 0",
    ),
    ("ROOT %x = f32[2]{0} add(%p, ...(+1))", "5:3 operands of add are omitted"),
    ("ROOT %x = f32[2]{0} add(, )", "5:3 operands of add are omitted"),
)


@pytest.mark.parametrize(("line", "note"), NOTES)
def test_a_line_is_noted_where_it_leaves_the_grammar(line: str, note: str) -> None:
    module = module_of(line)
    assert module.errors == ()
    assert [placed(found) for found in module.notes] == [note]
    assert all(found.severity == "note" and found.code for found in module.notes)


# What XLA prints, or has printed at some time, is known: nothing is noted.
KNOWN = (
    "ROOT %x = (f32[1]{0}, s32[1]{0}) topk(%p), k=1, largest=true, is_stable=true",
    "ROOT %x = f32[2]{0} collective-broadcast(%p), replica_groups={{0,1}}, has_dynamic_root=false",
    "ROOT %x = pred[2]{0} compare(%p, %p), direction=LT, type=TOTALORDER, order=TOTAL",
    "ROOT %x = (f32[2]{0}, f32[2]{0}, u32[]) copy-start(%p), is_cross_program_prefetch=true",
    'ROOT %x = ((f32[2]{0}), f32[2]{0}) negate-start(%p), async_execution_thread="t"',
    'ROOT %x = f32[2]{0} negate(%p), metadata={op_name="a, frob=1"}, backend_config={"a":"}", "b":[{}]}',
    "ROOT %x = f32[2]{0} all-reduce(%p), replica_groups=mesh['x'=2,'y'=4] {'x'}, to_apply=%p",
    "ROOT %x = f32[2]{0} all-reduce(%p), replica_groups=mesh['x'=2], device_ids=(1,0) {'x'}, to_apply=%p",
    "ROOT %x = f32[12]{0} constant({...})",
    'ROOT %x = f32[2]{0} add(%p, %p), control-predecessors={%p}, origin={{"p" {1}}}, statistics={visualizing_index=0,a=1}',
)


@pytest.mark.parametrize("line", KNOWN)
def test_what_xla_prints_is_not_noted(line: str) -> None:
    assert [placed(found) for found in module_of(line).notes] == []


def test_the_same_thing_is_noted_once_with_its_count() -> None:
    lines = (f"%x{i} = f32[2]{{0}} negate(%p), frob={i}" for i in range(12))
    module = module_of(*lines, "ROOT %y = f32[2]{0} copy(%p)")
    assert [placed(found) for found in module.notes] == [
        "5:31 unknown attribute frob on negate; kept as text (12 times)"
    ]


def test_notes_are_bounded_and_those_left_out_are_counted() -> None:
    for line in (
        "%x{0} = f32[2]{{0}} frob{0}(%p)",
        "%x{0} = f32[2]{{0}} negate(%p), frob{0}=1",
        "%x{0} = q{0}[2] negate(%p)",
    ):
        module = module_of(*(line.format(i) for i in range(3000)), "ROOT %y = f32[2]{0} copy(%p)")
        assert module.errors == ()
        *kept, last = [found.message for found in module.notes]
        assert len(set(kept)) == len(kept) == 1000
        assert last == "showing 1,000 distinct notes; 2,000 more omitted"


def test_what_is_not_known_prints_as_it_was() -> None:
    text = HEAD + '  %x = f9e4[2]{0} frob(%p), new={a=[1,2] "b, c"}, k={0}\n  ROOT %y = f32[2]{0} copy(%p)\n}\n\n'
    assert str(parse_module(text)) == text


def test_header_attributes_that_are_not_known_are_noted() -> None:
    module = parse_module("HloModule m, is_scheduled=true, frob={1}\nENTRY e { ROOT p = f32[] parameter(0) }")
    assert [placed(found) for found in module.notes] == ["1:33 unknown header attribute frob; kept as text"]


def test_names_given_twice_are_noted() -> None:
    module = module_of("%x = f32[2]{0} negate(%p)", "%x = f32[2]{0} negate(%x)", "ROOT %y = f32[2]{0} copy(%x)")
    assert module.errors == ()
    assert [found.message for found in module.notes] == [
        "duplicate instruction name x in e; references resolve to the last one before them"
    ]
    assert module.entry.instructions[3].operands == (module.entry.instructions[2],)


# The rest of a line, and the error. The fast path leaves attributes unread; that they are wrong is found on asking.
ERRORS = (
    ("negate(%p), dimensions", "5:35 expected an attribute, such as name=value, found 'dimensions'"),
    ("negate(%p), a=", "5:37 expected a value of a, found end of input"),
    ("negate(%p), a=1 b=2", "5:39 expected a comma before the next attribute, found 'b'"),
    ("negate(%p),, a=1", "5:34 expected an attribute, such as name=value, found ','"),
    ("negate(%p), a={1", "5:3 unclosed brace in this instruction"),
    ("negate(%p), a=(1}", "5:39 expected ')' before '}'"),
    ("negate(%q)", "5:30 undefined operand 'q' in e"),
    ("negate(%pp)", "5:30 undefined operand 'pp' in e"),
)  # fmt: skip


@pytest.mark.parametrize(("rest", "error"), ERRORS)
def test_attributes_that_are_none_are_errors_with_their_place(rest: str, error: str) -> None:
    assert [placed(found) for found in module_of(f"ROOT %x = f32[2]{{0}} {rest}").errors] == [error]


def test_a_wrong_operand_has_a_hint() -> None:
    errors = module_of("%first = f32[2]{0} negate(%p)", "ROOT %x = f32[2]{0} copy(%frist)").errors
    assert [(error.message, error.hint) for error in errors] == [
        ("undefined operand 'frist' in e", "did you mean 'first' (line 5)?")
    ]


NAMELESS = """HloModule , is_scheduled=true

%(param_0: f32[2]) -> f32[2] {
  %param_0 = f32[2]{0} parameter(0)
  ROOT %negate = f32[2]{0} negate(%param_0)
}

(param_0: f32[2]) -> f32[2] {
  %param_0 = f32[2]{0} parameter(0)
  ROOT %copy = f32[2]{0} copy(%param_0)
}

{
  param_0 = f32[2]{0} parameter(0)
  ROOT tmp = f32[2]{0} fusion(f32[2]{0} param_0), kind=kLoop, calls=%fused_computation
}
"""


def test_texts_printed_without_names_are_read() -> None:
    """As `print_ids=false`, `is_in_nested_computation=true` and the fingerprint print them."""
    module = parse_module(NAMELESS)
    assert module.errors == ()
    assert module.instruction_count == 6
    assert [(found.code, found.position.line if found.position else 0) for found in module.notes] == [
        ("nameless", 1),
        ("nameless", 3),
        ("unresolved", 15),
    ]


def test_the_table_of_attributes_knows_every_opcode() -> None:
    common = set(attributes_of("negate"))
    assert common == {
        "backend_config", "control-predecessors", "frontend_attributes", "metadata", "origin", "parameter_replication",
        "sharding", "statistics",
    }  # fmt: skip
    for opcode in OPCODE_ARITY:
        assert common <= set(attributes_of(opcode))
    assert "is_scheduled" in HEADER_ATTRIBUTES


NEWER_OPCODES = set() if IS_NEWER_XLA else {"shuffle"}


@pytest.mark.oracle
@pytest.mark.parametrize("opcode", sorted(set(OPCODE_ARITY) - {"async-done", "async-update"} - NEWER_OPCODES))
def test_xla_allows_the_attributes_of_the_table(opcode: str) -> None:
    """jaxlib lists what it allows where it finds something else."""
    hlo = pytest.importorskip("jaxlib._hlo")
    newer = {"custom-call": {"algorithm"}}
    if not IS_NEWER_XLA:
        newer |= {"topk": {"is_stable"}, "dot": {"sparsity_config", "block_scaling_config"}}
        newer |= {"collective-broadcast": {"has_dynamic_root"}, "compare": {"order"}}
        newer |= {"convolution": {"algorithm", "block_scaling_config"}}
    for first in ("p", "i"):
        count = {"convolution": 2}.get(opcode, OPCODE_ARITY[opcode])
        inner = {"parameter": "2", "constant": "1"}.get(opcode, ", ".join([first] * (1 if count is None else count)))
        shape = {"tuple": "(pred[])", "async-start": "((pred[]), pred[])"}.get(opcode, "pred[]")
        text = f"HloModule m\nENTRY e {{ p = pred[] parameter(0) i = s32[] parameter(1) r = {shape} {opcode}({inner}), frob=1 }}"
        with pytest.raises(Exception, match="Allowed attributes") as raised:
            hlo.hlo_module_from_text(text)
        allowed = set(str(raised.value).partition("Allowed attributes: ")[2].partition("\n")[0].rstrip(".").split(", "))
        known = {name for name, rule in attributes_of(opcode).items() if not rule.is_old}
        branches = {"true_computation", "false_computation", "branch_computations"}
        assert known - newer.get(opcode, set()) - branches == allowed - branches
