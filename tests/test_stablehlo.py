"""StableHLO as text: the forms of MLIR, what becomes of operations, and where errors are."""

import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import hlo_cli
from hlo_cli import HloError, Module, cli
from hlo_cli.cli import main
from hlo_cli.inputs.stablehlo import artifact_in
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.source import Source
from hlo_cli.syntax.literal_dense import literal_of
from hlo_cli.syntax.stablehlo.grammar import read_document
from hlo_cli.syntax.stablehlo.read_stablehlo import read_stablehlo
from hlo_cli.syntax.stablehlo.values import hlo_sharding, mesh_of, shape_of
from share import every


def read(text: str) -> Module:
    return read_stablehlo(Source("a.mlir", text))


def program(*lines: str, arguments: str = "%a: tensor<4x8xf32>", results: str = "tensor<4x8xf32>") -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"module @m {{\n  func.func public @main({arguments}) -> {results} {{\n{body}\n  }}\n}}\n"


def root_of(*lines: str, arguments: str = "%a: tensor<4x8xf32>", results: str = "tensor<4x8xf32>") -> str:
    """The last instruction of a program, as HLO writes it."""
    module = read(program(*lines, arguments=arguments, results=results))
    assert not (module.errors)
    assert not (module.notes)
    root = module.entry.root
    assert root is not None
    operands = ", ".join(each.name for each in root.operands)
    attributes = "".join(f", {each}" for each in root.attributes)
    return f"{root.shape.to_string(layout=False)} {root.opcode}({root.text.argument or operands}){attributes}"


# Expected: `lowered.as_text(dialect="hlo")` of jaxlib 0.10.2 for the same operations, or StableHLO's specification.
OPERATIONS = [
    ("stablehlo.add %a, %a : tensor<4x8xf32>", "f32[4,8] add(a, a)"),
    ('"stablehlo.add"(%a, %a) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>', "f32[4,8] add(a, a)"),
    ('"mhlo.log_plus_one"(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>', "f32[4,8] log-plus-one(a)"),
    ("stablehlo.compare  GE, %a, %a,  TOTALORDER : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>",
     "pred[4,8] compare(a, a), direction=GE, type=TOTALORDER"),
    (('"stablehlo.compare"(%a, %a) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = '
     "#stablehlo<comparison_direction NE>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>"),
     "pred[4,8] compare(a, a), direction=NE"),
    ("stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>",
     "f32[8,4] transpose(a), dimensions={1,0}"),
    ('"stablehlo.transpose"(%a) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<4x8xf32>) -> tensor<8x4xf32>',
     "f32[8,4] transpose(a), dimensions={1,0}"),
    ("stablehlo.slice %a [1:3, 0:8:2] : (tensor<4x8xf32>) -> tensor<2x4xf32>",
     "f32[2,4] slice(a), slice={[1:3:1], [0:8:2]}"),
    (('"stablehlo.slice"(%a) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 8>, strides = array<i64: '
     "1, 1>}> : (tensor<4x8xf32>) -> tensor<2x8xf32>"), "f32[2,8] slice(a), slice={[1:3], [0:8]}"),
    ("stablehlo.iota dim = 1 : tensor<8x8xi32>", "s32[8,8] broadcast(iota), dimensions={1}"),
    ("stablehlo.reverse %a, dims = [0, 1] : tensor<4x8xf32>", "f32[4,8] reverse(a), dimensions={0,1}"),
    ("stablehlo.reduce_precision %a, format = e5m10 : tensor<4x8xf32>",
     "f32[4,8] reduce-precision(a), exponent_bits=5, mantissa_bits=10"),
    (("stablehlo.dot_general %a, %a, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGHEST, "
     "DEFAULT] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>"),
     ("f32[4] dot(a, a), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}, "
     "operand_precision={highest,default}")),
    (('"stablehlo.dot_general"(%a, %a) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], '
     "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, "
     "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : "
     "(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>"),
     "f32[4] dot(a, a), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}"),
    ("stablehlo.bitcast_convert %a : (tensor<4x8xf32>) -> tensor<4x8x4xi8>", "s8[4,8,4] bitcast-convert(a)"),
    ("stablehlo.convert %a : (tensor<4x8xf32>) -> tensor<4x8xf8E4M3FN>", "f8e4m3fn[4,8] convert(a)"),
    ("stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x8xf32>) -> tensor<i32>",
     "s32[] get-dimension-size(a), dimensions={1}"),
    ("stablehlo.cholesky %a, lower = true : tensor<4x8xf32>", "f32[4,8] cholesky(a), lower=true"),
    (('"stablehlo.triangular_solve"(%a, %a) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose '
     "NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>"),
     "f32[4,8] triangular-solve(a, a), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    ("stablehlo.partition_id : tensor<ui32>", "u32[] partition-id()"),
    (('"stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, '
     "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>"),
     "f32[4,8] collective-permute(a), channel_id=3, source_target_pairs={{0,1},{1,0}}"),
    (('"stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, -1]]> : '
     "tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<8x8xf32>"),
     "f32[8,8] all-gather(a), replica_groups={{0,1},{2}}, dimensions={0}, use_global_device_ids=true"),
    (("stablehlo.custom_call @f(%a) {api_version = 2 : i32, backend_config = \"x\\22y\", has_side_effect = true} : "
     "(tensor<4x8xf32>) -> tensor<4x8xf32>"),
     ('f32[4,8] custom-call(a), custom_call_target="f", custom_call_has_side_effect=true, '
     'api_version=API_VERSION_STATUS_RETURNING, backend_config="x\\"y"')),
    (("stablehlo.custom_call @mhlo.erf(%a) {mhlo.attributes = {}, mhlo.version = 1 : i64} : "
     "(tensor<4x8xf32>) -> tensor<4x8xf32>"), "f32[4,8] erf(a)"),
    ("chlo.atan %a : tensor<4x8xf32> -> tensor<4x8xf32>", "f32[4,8] atan2(a, broadcast)"),
    ("chlo.square %a : tensor<4x8xf32> -> tensor<4x8xf32>", "f32[4,8] multiply(a, a)"),
    ("stablehlo.dynamic_reshape %a, %s : (tensor<4x8xf32>, tensor<1xi32>) -> tensor<32xf32>", "f32[32] reshape(a)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), OPERATIONS)
def test_operations_become_instructions(text: str, expected: str) -> None:
    result = text.rpartition(" : ")[2].rpartition("-> ")[2]
    arguments = "%a: tensor<4x8xf32>, %s: tensor<1xi32>"
    assert root_of(f"%0 = {text}", f"return %0 : {result}", arguments=arguments, results=result) == expected


def test_a_broadcast_drops_what_grows_first() -> None:
    """`XlaBuilder::BroadcastInDim` of xla/hlo/builder: to the operand's own sizes, without those of 1, to the result."""
    text = program(
        "%0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>",
        "return %0 : tensor<4x8xf32>",
        arguments="%a: tensor<4x1xf32>",
    )
    made = [f"{each.shape} {each.opcode}" for each in read(text).entry.instructions]
    assert made[1:] == ["f32[4,1]{1,0} broadcast", "f32[4]{0} reshape", "f32[4,8]{1,0} broadcast"]


# --- regions ---

WHILE = program(
    "%c = stablehlo.constant dense<3> : tensor<i32>",
    "%z = stablehlo.constant dense<0> : tensor<i32>",
    "%n = stablehlo.negate %a : tensor<4x8xf32>",
    "%0:2 = stablehlo.while(%i = %z, %x = %a) : tensor<i32>, tensor<4x8xf32> attributes {k = 1 : i32}",
    "cond {",
    "  %1 = stablehlo.compare LT, %i, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "  stablehlo.return %1 : tensor<i1>",
    "} do {",
    "  %1 = stablehlo.add %x, %n : tensor<4x8xf32>",
    "  %2 = stablehlo.add %i, %c : tensor<i32>",
    "  stablehlo.return %2, %1 : tensor<i32>, tensor<4x8xf32>",
    "}",
    "return %0#1 : tensor<4x8xf32>",
)


def test_a_loop_takes_what_it_captures_and_copies_constants() -> None:
    module = read(WHILE)
    assert not module.notes
    assert not module.errors
    loop = module.instruction("while")
    assert str(loop.shape) == "(s32[], f32[4,8]{1,0}, f32[4,8]{1,0})"
    body, condition = loop.called_computations
    assert [each.opcode for each in condition.instructions].count("constant") == 1
    assert body.root is not None
    assert [each.opcode for each in body.root.operands] == ["add", "add", "get-tuple-element"]
    assert str(loop.operands[0].operands[-1].name) == "negate"


def test_a_branch_takes_what_it_captures() -> None:
    module = read(
        program(
            '%0 = "stablehlo.if"(%p) ({',
            "  %1 = stablehlo.add %a, %b : tensor<4x8xf32>",
            "  stablehlo.return %1 : tensor<4x8xf32>",
            "}, {",
            "  stablehlo.return %b : tensor<4x8xf32>",
            "}) : (tensor<i1>) -> tensor<4x8xf32>",
            "return %0 : tensor<4x8xf32>",
            arguments="%p: tensor<i1>, %a: tensor<4x8xf32>, %b: tensor<4x8xf32>",
        )
    )
    root = module.entry.root
    assert root is not None
    assert root.opcode == "conditional"
    assert [each.opcode for each in root.operands] == ["parameter", "tuple", "parameter"]
    assert [str(each.parameters[0].shape) for each in root.called_computations] == [
        "(f32[4,8]{1,0}, f32[4,8]{1,0})",
        "f32[4,8]{1,0}",
    ]


def test_a_reduction_in_short_form_has_a_computation() -> None:
    module = read(
        program(
            "%c = stablehlo.constant dense<0.0> : tensor<f32>",
            "%0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] : "
            "(tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>",
            "return %0 : tensor<4xf32>",
            results="tensor<4xf32>",
        )
    )
    root = module.entry.root
    assert root is not None
    assert root.attribute("dimensions") == "{1}"
    [called] = root.called_computations
    assert [each.opcode for each in called.instructions] == ["parameter", "parameter", "maximum"]


def test_several_results_are_a_tuple() -> None:
    module = read(
        program("return %a, %a : tensor<4x8xf32>, tensor<4x8xf32>", results="(tensor<4x8xf32>, tensor<4x8xf32>)")
    )
    root = module.entry.root
    assert root is not None
    assert (root.opcode, str(root.shape)) == ("tuple", "(f32[4,8]{1,0}, f32[4,8]{1,0})")


# --- what is around operations ---


def test_donation_and_devices_are_in_the_header() -> None:
    text = program("return %a : tensor<4x8xf32>", arguments="%a: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}")
    module = read(text.replace("@m {", "@m attributes {mhlo.num_partitions = 4 : i32} {"))
    assert [str(each) for each in module.header[:1]] == ["input_output_alias={ {}: (0, {}, may-alias) }"]
    assert module.num_partitions == 4
    text = program("return %a : tensor<4x8xf32>", arguments="%a: tensor<4x8xf32> {jax.buffer_donor = true}")
    assert [each.parameter_number for each in read(text).buffer_donor] == [0]


LOCATED = """#loc1 = loc("w")
module @m {
  func.func public @main(%arg0: tensor<4xf32> loc("w")) -> tensor<4xf32> {
    %0 = stablehlo.sine %arg0 : tensor<4xf32> loc(#loc9)
    return %0 : tensor<4xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc4 = loc("a.py":7:15 to :18)
#loc5 = loc("b.py":13:2 to 14:54)
#loc6 = loc("f"(#loc4))
#loc7 = loc("<module>"(#loc5))
#loc8 = loc(callsite(#loc6 at #loc7))
#loc9 = loc("jit(f)/sin"(#loc8))
"""


def test_locations_are_metadata() -> None:
    module = read(LOCATED)
    [argument] = module.entry.parameters
    assert (argument.name, argument.metadata.op_name) == ("w", "w")
    root = module.entry.root
    assert root is not None
    assert root.metadata.op_name == "jit(f)/sin"
    place = module.location(root)
    assert place is not None
    assert (place.file, place.line) == ("a.py", 7)
    assert root.span is not None
    assert module.source.position(root.span.start) == (4, 5)


def test_locations_in_a_circle_end() -> None:
    text = LOCATED.replace("callsite(#loc6 at #loc7)", "callsite(#loc8 at #loc8)")
    root = read(text).entry.root
    assert root is not None
    assert root.metadata.op_name == "jit(f)/sin"
    assert read(text.replace("#loc9 = ", "#loc9 = loc(#loc9)\n#loc10 = ")).entry.root is not None


# Expected: what jaxlib 0.10.2 prints for arguments with these shardings.
@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ('<@m, [{"d"}, {}]>', "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
        ('<@m, [{"t", "d"}, {}]>', "{devices=[8,1]<=[2,4]T(1,0)}"),
        ('<@m, [{}, {"t"}]>', "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
        ('#sdy.sharding<@m, [{"d"}, {"t"}]>', "{devices=[2,4]<=[8]}"),
        ("<@m, [{}, {?}]>", "{replicated}"),
        ("<@one, []>", "{maximal device=3}"),
        ('<@m, [{"t":(1)2}, {}]>', "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"),
        ("<@unknown, []>", None),
    ],
)
def test_shardings_of_shardy(sharding: str, expected: str | None) -> None:
    meshes = {"m": mesh_of('<["d"=2, "t"=4]>'), "one": mesh_of("<[], device_ids=[3]>")}
    assert hlo_sharding(sharding, meshes) == expected


@pytest.mark.parametrize(
    ("body", "type_", "expected"),
    [
        ("1.000000e-01", "tensor<f32>", "0.1"),
        ("0x7F800000", "tensor<f32>", "inf"),
        ("[0x7FC00000, -0.0]", "tensor<2xf32>", "{nan, -0}"),
        ("[0x7FC0, 1.5]", "tensor<2xbf16>", "{nan, 1.5}"),
        ("[true, false]", "tensor<2xi1>", "{1, 0}"),
        ("[(1.0,2.0), (0x7F800000,0.0)]", "tensor<2xcomplex<f32>>", "{(1, 2), (inf, 0)}"),
        ('"0x0000803F0000004000004040"', "tensor<3xf32>", "{1, 2, 3}"),
        ("[1, -8]", "tensor<2xi4>", "{1, -8}"),
        ("18446744073709551615", "tensor<ui64>", "18446744073709551615"),
        ("[]", "tensor<0x3xf32>", "{  }"),
        ("2", "tensor<2x1xi8>", "{ {2}, {2} }"),
    ],
)
def test_constants(body: str, type_: str, expected: str) -> None:
    assert literal_of(body, shape_of(type_)) == expected


def test_large_constants_are_read_when_needed() -> None:
    body = "3F800000" * 300
    text = program(
        f'%0 = stablehlo.constant dense<"0x{body}"> : tensor<300xi32>', "return %0 : tensor<300xi32>",
        results="tensor<300xi32>",
    )  # fmt: skip
    root = read(text).entry.root
    assert root is not None
    assert isinstance(root.literal, ArrayLiteral)
    assert root.literal.array().tolist() == [int.from_bytes(bytes.fromhex("3F800000"), "little")] * 300
    assert root.attribute("metadata") is None
    wrong = read(text.replace("3F800000", "3F80000", 1)).entry.root
    assert wrong is not None
    with pytest.raises(HloError, match=r"a\.mlir:3:"):
        str(wrong.literal)


# --- what is not known ---


def test_unknown_operations_are_custom_calls_with_a_note() -> None:
    module = read(
        program(
            "%0 = chlo.erf_inv %a : tensor<4x8xf32> -> tensor<4x8xf32>",
            '%1 = "my.dialect.thing"(%0) <{x = #my.attr<a{b}[1]>, y = [1 : i32]}> ({',
            "^bb0(%q: tensor<f32>):",
            '  "my.yield"(%q) : (tensor<f32>) -> ()',
            "}) : (tensor<4x8xf32>) -> tensor<4x8xf32>",
            "%2 = other.form %1, [a, b], key = <x, y> {z} : tensor<4x8xf32>",
            "return %2 : tensor<4x8xf32>",
        )
    )
    targets = [each.string("custom_call_target") for each in module.entry.instructions[1:]]
    assert targets == ["chlo.erf_inv", "my.dialect.thing", "other.form"]
    assert [str(each) for each in module.notes] == [
        f"a.mlir:{line}:5: note: {name} is read as a custom call, of unknown cost"
        for line, name in ((3, "chlo.erf_inv"), (4, "my.dialect.thing"), (8, "other.form"))
    ]


def test_an_operation_that_does_not_fit_is_a_custom_call() -> None:
    module = read(
        program('%0 = "stablehlo.sort"(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>', "return %0 : tensor<4x8xf32>")
    )
    root = module.entry.root
    assert root is not None
    assert root.string("custom_call_target") == "stablehlo.sort"
    assert [each.message for each in module.notes] == [
        "stablehlo.sort is read as a custom call, of unknown cost: it needs 1 region of one block"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (program("%0 = stablehlo.add %a, %b : tensor<4x8xf32>"), "a.mlir:3:5: error: undefined value '%b'"),
        (program("%0 = stablehlo.add %a, : tensor<"), "a.mlir:3:36: error: unclosed '<'"),
        (program("return %a : tensor<4x8xf32>")[:-5], "a.mlir:4:2: error: expected '}' at the end of a region"),
        (program("%0 = stablehlo.slice %a [0:1 : tensor<f32>"), "a.mlir:3:29: error: unclosed '['"),
        (
            program("%c = stablehlo.constant dense<[1, 2]> : tensor<3xi32>"),
            "a.mlir:3:35: error: the constant has 2 values",
        ),
        ("module @m {}", "a.mlir:1:1: error: no operations of StableHLO found"),
        ('"stablehlo.map"() ({ ' * 3000, "nested too deeply"),
        ("%0 = stablehlo.add %a " + "{x = " * 3000, "nested too deeply"),
        ("%0 = stablehlo.add %a : " + "tuple<" * 3000, "unclosed"),
        ("%0 = stablehlo.add %a : " + "tuple<" * 3000 + ">" * 3000, "nested too deeply"),
        ("%0 = stablehlo.constant dense<1> : tensor<" + "9" * 5000 + "xi32>", "note"),
    ],
)
def test_errors_have_places(text: str, expected: str) -> None:
    try:
        module = read(text)
    except HloError as error:
        found = str(error)
    else:
        found = "\n".join(map(str, module.notes))
    assert expected in found, found


def test_lines_without_a_function_take_parameters() -> None:
    module = read("%3 = stablehlo.add %1, %2#1 : tensor<4xf32>\n%4 = stablehlo.sine %3 : tensor<4xf32>\n")
    assert [each.name for each in module.entry.parameters] == ["_1", "_2"]
    root = module.entry.root
    assert root is not None
    assert root.opcode == "sine"


def test_a_function_that_calls_itself_is_no_loop() -> None:
    text = program("%0 = call @main(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "return %0 : tensor<4x8xf32>")
    [note] = read(text).notes
    assert "function @main is not in the text, or calls itself" in note.message


# --- programs that JAX lowers, as XLA reads them (fixtures/stablehlo, by jaxlib 0.10.2) ---

STABLEHLO = Path(__file__).parent.parent / "fixtures" / "stablehlo"
SIMPLIFIED = {"complex", "map_all_to_all", "output_sharding"}
"""XLA expands exp of complex numbers, and has instructions that nothing uses."""
UNFOLDED = {"gelu"}
"""XLA replaces erfc by polynomials."""


@pytest.mark.parametrize("path", sorted(STABLEHLO.glob("*.mlir")), ids=lambda path: path.stem)
def test_programs_are_those_of_xla(path: Path) -> None:
    ours, theirs = hlo_cli.load(path), hlo_cli.load(path.with_suffix(".hlo"))
    found = hlo_cli.diff(ours, theirs).without(("num_partitions",))
    if path.stem in UNFOLDED:
        assert [each.message for each in ours.notes] == ["chlo.erfc is read as a custom call, of unknown cost"]
        return
    assert ours.notes == ours.errors == ()
    assert found.is_same_program == (path.stem not in SIMPLIFIED)
    assert len(found.pairs) >= theirs.instruction_count - 25
    plumbing = ("constant", "parameter", "tuple")
    named = [(one, two) for one, two in found.pairs.items() if two.metadata.op_name and one.opcode not in plumbing]
    assert named or path.stem == "constant_types"
    same = [one for one, two in named if one.metadata.op_name == two.metadata.op_name]
    assert len(same) >= 0.9 * len(named), [(one, one.metadata, two.metadata) for one, two in named if one not in same]
    placed = [(one, two) for one, two in named if one in same and theirs.location(two) is not None]
    assert all(ours.location(one) == theirs.location(two) for one, two in placed)


# --- where it is read ---


def test_every_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lowered.mlir"
    path.write_text(LOCATED)
    assert hlo_cli.load(str(path)).name == hlo_cli.load(LOCATED).name == "m"
    for command in ("layout", "parse", "memspace", "fuse", "lint", "schedule", "shard", "graph"):
        assert main([command, str(path)], standalone=False) == 0, command
    assert "f32[4]{0}" in capsys.readouterr().out
    assert main(["diff", str(path), str(path)], standalone=False) == 0


def test_the_generic_form_is_read_as_the_other() -> None:
    generic = """"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{jax.buffer_donor = true}], function_type = (tensor<4xf32>) -> tensor<4xf32>,
      res_attrs = [{jax.result_info = "r"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.sine"(%arg0) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.mode<DEFAULT>>}> :
        (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32} : () -> ()
"""
    module = read(generic)
    assert module.name == "m"
    assert [each.opcode for each in module.entry.instructions] == ["parameter", "sine"]
    assert len(module.buffer_donor) == 1
    assert not module.notes


def test_spans_are_first_lines() -> None:
    document = read_document(Source("a.mlir", WHILE))
    function = document.operations[0].regions[0].operations[0]
    loop = function.regions[0].operations[3]
    assert WHILE[loop.span.start : loop.span.end].endswith("attributes {k = 1 : i32}")


# --- what jax.export serializes ---

EXPORTED = (STABLEHLO / "mlp.exported").read_bytes()


def test_the_program_of_an_artifact_is_read_without_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the function `mlp` of fixtures/lowered_programs.py."""
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    module = hlo_cli.load(EXPORTED)
    assert [each.opcode for each in module.entry.instructions][-2:] == ["add", "tanh"]
    platform, *arguments = [str(each.shape) for each in module.entry.parameters]
    assert platform == "s32[]"  # the first argument of a program for several platforms
    assert arguments == ["f32[4,8]{1,0}", "f32[8,5]{1,0}", "f32[5]{0}"]
    assert module.name == "jit_mlp"


def test_the_code_of_kernels_is_passed_over(tmp_path: Path) -> None:
    """Reactant prints the code of kernels in other dialects, before the program that calls them."""
    code = """  llvm.func internal @kernel(%arg0: !llvm.ptr<1>) attributes {a = "{"} {
    %1 = llvm.load %arg0 {alignment = 8 : i64} : !llvm.ptr<1> -> f64
    llvm.cond_br %1, ^bb1, ^bb1
  ^bb1:
    llvm.return
  }
  llvm.mlir.global private constant @text("a") {addr_space = 0 : i32}
"""
    line = '%0 = "enzymexla.kernel_call"(%a) <{fn = @kernel}> : (tensor<4x8xf32>) -> tensor<4x8xf32>'
    text = program(line, "%1 = stablehlo.sine %0 : tensor<4x8xf32>", "return %1 : tensor<4x8xf32>")
    path = tmp_path / "a.mlir"
    path.write_text(text.replace("{\n", "{\n" + code, 1))
    module = hlo_cli.load(path)
    assert [each.opcode for each in module.entry.instructions] == ["parameter", "custom-call", "sine"]
    assert ["enzymexla.kernel_call" in note.message for note in module.notes] == [True]


@pytest.mark.parametrize("name", ["every_operation", "shardings"])
def test_each_operation_of_an_artifact_is_that_of_jaxlib(name: str, tmp_path: Path) -> None:
    """Expected: the text that jaxlib reads the artifact as (fixtures/portable_artifacts.py)."""
    shutil.copyfile(STABLEHLO / f"{name}.expected", tmp_path / "expected.mlir")
    ours, expected = hlo_cli.load(STABLEHLO / f"{name}.bytecode"), hlo_cli.load(tmp_path / "expected.mlir")
    assert hlo_cli.diff(ours, expected).is_same_program
    assert [each.message for each in ours.notes if "jax.export" not in each.message] == [
        each.message for each in expected.notes
    ]


def test_what_an_artifact_states_is_read_without_its_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expected: the arguments of `jax.export.export` in fixtures/lowered_programs.py; an operation is of the future."""
    artifact = artifact_in(EXPORTED)
    assert artifact is not None
    assert (artifact.name, artifact.platforms, artifact.has_gradient) == ("mlp", ("cpu", "tpu"), True)
    assert artifact.arguments == ("f32[4,8]", "f32[8,5]", "f32[5]")
    assert artifact.results == ("f32[4,5]",)
    assert artifact.producer.startswith("StableHLO_v1.")
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    path = tmp_path / "f.exported"
    path.write_bytes(EXPORTED.replace(b"dot_general_v2", b"dot_generic_v9"))
    with pytest.raises(HloError, match=r"f.exported is an exported program that cannot be read: vhlo.dot_generic_v9 "):
        hlo_cli.load(path)
    assert cli.main(["memspace", str(path), "--format", "screen"], standalone=False) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert "Program of jax.export: mlp for cpu and tpu: 3 arguments, 1 result" in screen
    assert f"Written by {artifact.producer}; serialization {artifact.version}, calling convention 10." in screen
    assert "Compiles for 1 device. Has its gradient." in screen


@pytest.mark.parametrize(
    "line",
    [
        '%0 = "stablehlo.transpose"(%a) {permutation = array<i64: 9, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>',
        '%0 = "stablehlo.reverse"(%a) {dimensions = array<i64: -9>} : (tensor<4x8xf32>) -> tensor<4x8xf32>',
    ],
)
def test_dimensions_that_do_not_exist_are_kept(line: str) -> None:
    module = read(program(line, "return %0 : tensor<4x8xf32>"))
    assert module.entry.root is not None
    assert "9" in (module.entry.root.attribute("dimensions") or "")


@pytest.mark.parametrize("part", every(6, range(6)))
def test_damaged_artifacts_are_errors(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    for at in range(len(EXPORTED) - 1 - 17 * part, 0, -17 * 6):
        if at < len(EXPORTED) // 2:  # what follows is the program of the gradient, and what the exporter states
            with pytest.raises(HloError):
                hlo_cli.load(EXPORTED[:at])
        for content in (b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\x01\x01\x01\x01"):
            with suppress(HloError):  # anything else is a traceback
                hlo_cli.load(EXPORTED[:at] + content + EXPORTED[at + 4 :])
