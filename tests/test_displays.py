"""What notebooks, rich, and data frames show of values: the numbers of the commands, bounded, and harmless."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import hlo_cli
from dumps import FIXTURES
from hlo_cli import cli
from hlo_cli.displayed import Displayed, Tabular
from hlo_cli.ir.instruction import Instruction
from hlo_cli.notebook import records_of, report_of
from hlo_cli.render.machine import field_of
from hlo_cli.report.table import Cell

CONV = FIXTURES / "tpu/v5e_conv"
SCAN = FIXTURES / "tpu/v5p_scan"
HOSTILE = "<img src=x onerror=alert(1)>"
MAX_BYTES = 200_000


def shape_of(text: str) -> Tabular:
    shape = hlo_cli.parse_shape(text)
    assert isinstance(shape, hlo_cli.ArrayShape | hlo_cli.TupleShape | hlo_cli.BufferShape)
    return shape


def proto_of(text: str) -> bytes:
    return hlo_cli.module_to_bytes(hlo_cli.parse_module(text))


def layout_of(text: str) -> hlo_cli.Layout:
    layout = hlo_cli.parse_shape(text).layout
    assert layout is not None
    return layout


def memory_of_text() -> hlo_cli.MemoryAnalysis:
    """Of a dump without the compiler's own numbers next to it, which commands prefer."""
    return hlo_cli.memory_analysis(hlo_cli.parse_module((SCAN / "after_optimizations.txt").read_text()))


BEFORE, AFTER = (FIXTURES / f"traces/cpu_edit/{name}.xplane.pb.gz" for name in ("before", "after"))


VALUES: dict[str, Callable[[], Displayed]] = {
    "Module": lambda: hlo_cli.load(CONV),
    "Computation": lambda: hlo_cli.load(CONV).entry,
    "Instruction": lambda: next(each for each in hlo_cli.load(CONV).entry if each.opcode == "fusion"),
    "ArrayShape": lambda: shape_of("bf16[300,70]{1,0:T(8,128)(2,1)}"),
    "TupleShape": lambda: shape_of("(f32[8], (s8[2,3]{0,1}, token[]))"),
    "BufferShape": lambda: shape_of("b(f32[3,5]{1,0:T(2,2)})"),
    "Layout": lambda: layout_of("bf16[300,70]{1,0:T(8,128)(2,1)}"),
    "MemoryAnalysis": memory_of_text,
    "MemorySpaceUsage": lambda: memory_of_text().spaces[1],
    "OverlapAnalysis": lambda: hlo_cli.analyze_overlap(hlo_cli.load(CONV)),
    "ModuleDiff": lambda: hlo_cli.diff(hlo_cli.load(CONV), hlo_cli.load(SCAN)),
    "Profile": lambda: hlo_cli.profile(AFTER),
    "ProfileComparison": lambda: hlo_cli.compare_profiles(hlo_cli.profile(BEFORE), hlo_cli.profile(AFTER)),
    "FusionList": lambda: hlo_cli.fusions_of(hlo_cli.load(CONV)),
    "KernelList": lambda: hlo_cli.kernels_of(hlo_cli.load(CONV)),
    "FindingList": lambda: hlo_cli.lint_module(hlo_cli.load(CONV)),
    "Finding": lambda: hlo_cli.lint_module(hlo_cli.load(CONV))[0],
}


@cache
def value_of(name: str) -> Displayed:
    """The value of a name, made once."""
    return VALUES[name]()


@cache
def table_of(name: str) -> Tabular:
    value = value_of(name)
    assert isinstance(value, Tabular)
    return value


@cache
def bundle_of(name: str) -> dict[str, str]:
    """Its displays."""
    return value_of(name)._repr_mimebundle_()


class Reader(HTMLParser):
    """Checks that elements are closed in order, and keeps what could do harm and the text."""

    VOID = frozenset(("img", "br", "hr", "input", "meta", "link", "path", "rect"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.harmful: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.harmful += [name for name in names if name.startswith("on") or name in ("href", "src")]
        self.harmful += [tag] if tag in ("script", "img", "iframe", "object", "link", "meta", "base") else []
        self.ids += [names["id"] or ""] if "id" in names else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("name", VALUES)
def test_every_value_has_text_and_html(name: str) -> None:
    value = value_of(name)
    bundle = bundle_of(name)
    assert {"text/plain", "text/html"} <= bundle.keys() <= {"text/plain", "text/html", "image/svg+xml"}
    assert value._repr_html_() == bundle["text/html"]
    assert sum(map(len, bundle.values())) < MAX_BYTES
    assert report_of(value).answer.split("\n")[0][:40] in bundle["text/plain"].replace("\n", " ")
    found = read(bundle["text/html"])
    assert found.harmful == []
    assert found.ids == []
    assert "--top" not in "".join(bundle.values())


@pytest.mark.parametrize("name", ["ArrayShape", "Layout", "MemoryAnalysis", "MemorySpaceUsage", "OverlapAnalysis"])
def test_what_can_be_drawn_has_a_picture(name: str) -> None:
    picture = bundle_of(name)["image/svg+xml"]
    assert picture.startswith("<svg ")
    assert read(picture).harmful == []


def test_media_types_can_be_selected() -> None:
    value = shape_of("f32[3,5]{1,0:T(2,2)}")
    assert list(value._repr_mimebundle_(include=["text/plain"])) == ["text/plain"]
    assert "text/html" not in value._repr_mimebundle_(exclude=["text/html"])
    assert value._repr_mimebundle_(include=["application/pdf"]) == {}


def test_a_shape_shows_its_tiles() -> None:
    shape = shape_of("f32[3,5]{1,0:T(2,2)}")
    text = shape._repr_mimebundle_()["text/plain"]
    assert text.startswith("Needs 96 bytes for 60 bytes of data (38% padding)")
    assert "│  12  13 │  16  17 │  20 ·21 │" in text
    assert "·23" in "".join(read(shape._repr_html_()).text)


def test_an_instruction_is_explained_and_a_computation_lists_its_own() -> None:
    """Also those of a fused computation, which do not know the module that they are in."""
    instruction = value_of("Instruction")
    assert isinstance(instruction, Instruction)
    assert report_of(instruction).answer.startswith("Fusion with 2 operands and 5 instructions")
    fused = instruction.called_computations[0]
    assert report_of(fused).answer == f"{len(fused)} instructions in {fused.name}"
    assert fused.root is not None
    assert fused.root.name in fused.root._repr_html_()
    assert repr([instruction]) == f"[<fusion {instruction.name}>]"


def test_costs_are_computed_once_for_a_module() -> None:
    module = hlo_cli.load(CONV)
    assert hlo_cli.cost_analysis(module) is hlo_cli.cost_analysis(module)
    assert hlo_cli.cost_analysis(module) is not hlo_cli.cost_analysis(hlo_cli.load(CONV))


def test_the_same_value_has_the_same_display() -> None:
    for name in ("Module", "MemoryAnalysis", "FindingList"):
        assert VALUES[name]()._repr_mimebundle_() == bundle_of(name)


def test_hostile_names_are_text() -> None:
    """Protos can have any name; texts only some, but any op_name."""
    name = "N" * len(HOSTILE)
    text = f'''HloModule {name}
ENTRY e {{
  {name} = f32[2000,2000]{{1,0}} parameter(0), metadata={{op_name="</style></svg>{HOSTILE}\033[31m"}}
  ROOT n = f32[2000,2000]{{0,1}} copy({name}), metadata={{op_name="{HOSTILE}" source_file="{HOSTILE}" source_line=3}}
}}'''
    module = hlo_cli.load(proto_of(text).replace(name.encode(), HOSTILE.encode()))
    values = (module, hlo_cli.memory_analysis(module), hlo_cli.kernels_of(module), hlo_cli.lint_module(module))
    for value in values:
        bundle = value._repr_mimebundle_()
        for kind in bundle.keys() - {"text/plain"}:
            assert read(bundle[kind]).harmful == [], (type(value), kind)
        assert "\x1b" not in "".join(bundle.values())
    for value in values[:2]:
        assert HOSTILE in "".join(read(value._repr_html_()).text).replace("\u200b", "")


def test_damaged_values_show_their_text() -> None:
    whole = shape_of("f32[2,3]{1,0}")
    assert isinstance(whole, hlo_cli.ArrayShape)
    damaged = hlo_cli.ArrayShape(whole.element_type, (2, 3), (False, False), layout_of("f32[2]{0}"))
    assert damaged._repr_mimebundle_() == {"text/plain": "f32[2,3]{0}"}
    assert damaged._repr_html_() == ""


def test_slices_of_results_are_shown_too() -> None:
    kernels = hlo_cli.kernels_of(hlo_cli.load(CONV))
    assert isinstance(kernels, tuple)
    assert kernels[2:4] == tuple(kernels)[2:4]
    assert kernels[0] is next(iter(kernels))
    assert [record["instruction"] for record in kernels[2:4].to_records()] == [
        kernel.instruction.name for kernel in kernels[2:4]
    ]
    assert kernels[2:4]._repr_mimebundle_()["text/plain"].startswith("2 of the kernels of the module")
    assert list(kernels[:0].to_records()) == []
    found = hlo_cli.lint_module(hlo_cli.load(CONV))
    assert [record["code"] for record in found[:1].to_records()] == [found[0].code]


def test_results_can_be_copied_and_sent() -> None:
    found = hlo_cli.lint_module(hlo_cli.load(CONV))
    for other in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert type(other) is type(found)
        assert [str(each) for each in other] == [str(each) for each in found]
        assert other.to_records() == found.to_records()


def rows_of(arguments: list[str], table: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    cli.main([*arguments, "--format", "json"], standalone=False)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["tables"][table]["rows"]
    return rows


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with indices as text."""
    return [
        {key: field_of(_cell(cell)) if isinstance(cell, list | dict) else cell for key, cell in row.items()}
        for row in rows
    ]


def _cell(value: Any) -> Cell:
    return tuple(map(_cell, value)) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("name", "table", "arguments", "of_command"),
    [
        ("Module", None, ["parse", str(CONV), "--instructions"], "instructions"),
        ("Module", "values", ["parse", str(CONV)], "values"),
        ("Module", "opcodes", ["parse", str(CONV)], "opcodes"),
        ("MemoryAnalysis", None, ["memspace", "copy.txt", "--space", "all"], "live_values"),
        ("MemoryAnalysis", "buffers", ["memspace", "copy.txt", "--space", "all"], "buffers"),
        ("MemoryAnalysis", "spaces", ["memspace", "copy.txt", "--space", "all"], "spaces"),
        ("OverlapAnalysis", None, ["schedule", str(CONV)], "pairs"),
        ("FusionList", None, ["fuse", str(CONV)], "fusions"),
        ("KernelList", None, ["fuse", str(CONV)], "kernels"),
        ("ModuleDiff", "changes", ["diff", str(CONV), str(SCAN)], "changes"),
        ("Profile", None, ["profile", str(AFTER)], "operations"),
        ("ProfileComparison", None, ["profile", str(AFTER), "--against", str(BEFORE)], "changes"),
        ("ProfileComparison", "unchanged", ["profile", str(AFTER), "--against", str(BEFORE)], "unchanged"),
        ("TupleShape", None, ["layout", "(f32[8], (s8[2,3]{0,1}, token[]))"], "leaves"),
    ],
)
def test_records_are_the_rows_of_the_command(
    name: str,
    table: str | None,
    arguments: list[str],
    of_command: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.txt").write_text((SCAN / "after_optimizations.txt").read_text())
    assert table_of(name).to_records(table) == comparable(rows_of(arguments, of_command, capsys))


def test_records_of_findings_are_the_rows_of_lint(capsys: pytest.CaptureFixture[str]) -> None:
    value = table_of("FindingList")
    rows = rows_of(["lint", str(CONV)], "findings", capsys)
    path = re.compile(r"/after_optimizations\.txt$")
    assert [{**row, "path": path.sub("", str(row["path"]))} for row in value.to_records()] == [
        {**row, "path": path.sub("", row["path"])} for row in rows
    ]


def test_a_memory_space_has_the_rows_of_all_memory() -> None:
    rows = [record for record in table_of("MemoryAnalysis").to_records() if record["space"] == "VMEM"]
    own = table_of("MemorySpaceUsage").to_records()
    assert own == [{key: record[key] for key in own[0]} for record in rows]
    buffers = [record for record in table_of("MemoryAnalysis").to_records("buffers") if record["space"] == "VMEM"]
    names = ("value", "start", "end", "bytes", "kind", "shape", "op_name", "reused_by")
    expected = [{name: record[name] for name in names} for record in buffers]
    found = [{name: record[name] for name in names} for record in table_of("MemorySpaceUsage").to_records("buffers")]
    assert found == expected


def test_unknown_tables_are_errors_that_name_the_others() -> None:
    with pytest.raises(hlo_cli.HloError, match="unknown table 'x'") as raised:
        hlo_cli.load(CONV).to_records("x")
    assert "instructions" in (raised.value.diagnostics[0].hint or "")


def test_cells_are_plain() -> None:
    cells = {
        type(cell)
        for value in map(value_of, VALUES)
        if isinstance(value, Tabular)
        for record in value.to_records()
        for cell in record.values()
    }
    assert cells == {bool, int, float, str, type(None)}
    assert records_of(report_of(value_of("FusionList")).main_table)


@pytest.mark.oracle
def test_data_frames_have_types() -> None:
    pandas = pytest.importorskip("pandas")
    memory = table_of("MemoryAnalysis")
    frame = pandas.DataFrame(memory.to_records())
    kinds = {name: frame[name].dtype.kind for name in ("bytes", "start", "end", "padding")}
    assert kinds == {"bytes": "i", "start": "i", "end": "i", "padding": "f"}
    by_space = frame.groupby("space")["bytes"].sum().to_dict()
    peaks = {record["space"]: record["peak_bytes"] for record in memory.to_records("spaces")}
    assert by_space == peaks
    pairs = pandas.DataFrame(hlo_cli.analyze_overlap(hlo_cli.load(CONV)).to_records())
    assert pairs["unoverlapped"].dtype == bool
    assert pairs["bytes"].sum() == 85504


def test_rich_prints_the_screen() -> None:
    from io import StringIO

    from rich.console import Console

    for name in ("ArrayShape", "Module", "FindingList"):
        screen = StringIO()
        Console(file=screen, width=60, color_system=None).print(value_of(name))
        assert max(map(len, screen.getvalue().splitlines())) <= 60
        assert screen.getvalue().strip()
    colored = StringIO()
    Console(file=colored, width=60, force_terminal=True, color_system="standard").print(value_of("ArrayShape"))
    assert "\x1b[" in colored.getvalue()


def test_errors_in_notebooks_name_the_line_the_place_and_the_help() -> None:
    with pytest.raises(hlo_cli.HloError) as raised:
        hlo_cli.parse_module("HloModule m\nENTRY e { ROOT n = f32[2] negate(q) }\n", strict=True)
    lines = raised.value._render_traceback_()
    assert lines[0].startswith("HloError in line ")
    assert lines[0].endswith("strict=True)")
    assert any("negate(q)" in line for line in lines[1:])
    with pytest.raises(hlo_cli.HloError) as raised:
        hlo_cli.load(object())
    lines = raised.value._render_traceback_()
    assert lines[1] == "error: a value of type object is not a program"
    assert lines[2].startswith("  help: pass a jitted function")


def test_values_do_not_load_what_shows_them() -> None:
    code = (
        "import sys, hlo_cli\n"
        f"module = hlo_cli.load({str(CONV)!r})\n"
        "hlo_cli.kernels_of(module); hlo_cli.lint_module(module)\n"
        "print(sorted(m for m in sys.modules if m.startswith(('hlo_cli.notebook', 'hlo_cli.commands', 'hlo_cli.render', 'rich', 'click'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        timeout=60,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(hlo_cli.__file__).parent.parent,
    )
    assert done.stdout == "[]\n"


BLOCK = re.compile(r"(?ms)^```python( JAX)?\n(>>> .*?)^```")


@pytest.mark.parametrize("jax", [False, pytest.param(True, marks=pytest.mark.oracle)])
def test_the_examples_of_the_help_page_run(jax: bool, tmp_path: Path) -> None:
    """In a process of their own: once JAX is imported, others cannot fork."""
    if jax and find_spec("jax") is None:
        pytest.skip("jax is not installed")
    root = Path(hlo_cli.__file__).parent.parent
    page = (root / "hlo_cli/commands/help/topics/notebooks.md").read_text(encoding="utf-8")
    blocks = [found[2] for found in BLOCK.finditer(page) if bool(found[1]) == jax]
    assert blocks
    (tmp_path / "DUMP").symlink_to(CONV)
    (tmp_path / "page.txt").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "page.txt"],
        timeout=300,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_help_page_names_tables_that_exist() -> None:
    page = (Path(hlo_cli.__file__).parent / "commands/help/topics/notebooks.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:4] for line in page.split("other tables")[1].splitlines() if line.startswith("| ")]
    tables = {value.strip(): re.findall(r"`([a-z_]+)`", others) for value, _, others in rows}
    values = {"module": "Module", "memory": "MemoryAnalysis", "overlap": "OverlapAnalysis", "findings": "FindingList"}
    values |= {"fusions, kernels": "KernelList", "diff": "ModuleDiff"}
    values |= {"profile": "Profile", "compared profiles": "ProfileComparison"}
    for name, kind in values.items():
        assert tables[name]
        for table in tables[name]:
            assert isinstance(table_of(kind).to_records(table), list)
