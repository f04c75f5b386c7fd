"""`hlo report` as files: a page for each of several modules with an index, and `--open`."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

import in_process
from browser import browser
from browser import opened as opened_page
from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.commands.modules.loading import load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.report.page import title_of
from hlo_cli.inputs.input import target_texts
from hlo_cli.report.numbers import format_bytes

FIXTURES = Path(__file__).parent.parent / "fixtures"
BUSY = "\n".join(
    (
        "HloModule jit_busy, is_scheduled=true\n\nENTRY e {\n  s0 = f32[999,999]{1,0} parameter(0)",
        *(f"  s{at} = f32[999,999]{{1,0}} negate(s{at - 1})" for at in range(1, 400)),
        "  ROOT r = f32[999,999]{1,0} negate(s399)\n}\n",
    )
)
HOSTILE = "../../<img src=x onerror=alert(1)>\N{RIGHT-TO-LEFT OVERRIDE}"


def run(*words: str | Path, folder: Path, **settings: str) -> in_process.Answer:
    given = {"SOURCE_DATE_EPOCH": "0", **settings}
    return in_process.run(["report", *map(str, words)], folder=folder, settings=given)


def module(name: str, size: int = 8) -> str:
    shape = f"f32[{size}]{{0}}"
    entry = f"ENTRY e {{\n  p = {shape} parameter(0)\n  ROOT n = {shape} negate(p)\n}}\n"
    return f"HloModule {name}, is_scheduled=true\n\n{entry}"


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for at, name in enumerate(("jit_a", "jit_A", "jit_b")):
        (folder / f"{at}.txt").write_text(module(name, 8 * (at + 1)), encoding="utf-8")
    return folder


def test_each_module_has_a_page_in_a_folder(dumps: Path) -> None:
    out, err, code = run("0.txt", "1.txt", "2.txt", "-o", "all/", folder=dumps)
    assert (out, code) == ("", 0), err
    pages = ["jit_A-2.html", "jit_a.html", "jit_b.html"]
    folder = dumps / "all"
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", *pages]
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<td[^>]*><a href="\./([^"]+)">', index) == ["jit_b.html", "jit_A-2.html", "jit_a.html"]
    assert "<h1>jit_b" in (folder / "jit_b.html").read_text(encoding="utf-8")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.html")}
    assert modes == {stat.S_IMODE((dumps / "0.txt").stat().st_mode)}
    assert "note: wrote all/index.html and 3 pages next to it (" in err


def test_several_modules_are_one_file(dumps: Path) -> None:
    """The page of the module that costs most is shown, those of the others are in the file, and it tells its size."""
    out, err, code = run("0.txt", "1.txt", "2.txt", "-o", "all.html", folder=dumps)
    assert (out, code) == ("", 0), err
    assert [path.name for path in dumps.glob("*.html")] == ["all.html"]
    assert not [path for path in dumps.iterdir() if path.name.startswith(".")]
    page = (dumps / "all.html").read_text(encoding="utf-8")
    assert f"note: wrote all.html ({format_bytes(len(page.encode()))})" in err
    shown, *others = page.split("<template")
    assert re.findall("<h1>(.*) on CPU</h1>", shown) == ["jit_b"]
    assert [re.findall("<h1>(.*) on CPU</h1>", each) for each in others] == [["jit_A"], ["jit_a"]]
    assert re.findall(r'<a href="#first\?module=(\d)"[^>]*>(\w+)', shown) == [
        *(("0", "jit_b"), ("1", "jit_A"), ("2", "jit_a")),
        *(("0", "jit_b"), ("1", "jit_A"), ("2", "jit_a")),
    ]


def test_links_tell_modules_of_one_name_apart(dumps: Path) -> None:
    for number in (3, 7):
        path = dumps / f"module_000{number}.jit_b.after_optimizations.txt"
        path.write_text(module("jit_b", 8 * number), encoding="utf-8")
    names = ("0.txt", "module_0003.jit_b.after_optimizations.txt", "module_0007.jit_b.after_optimizations.txt")
    _, err, code = run(*names, "-o", "all.html", folder=dumps)
    assert code == 0, err
    page = (dumps / "all.html").read_text(encoding="utf-8")
    links = page[page.index('id="modules"') : page.index('id="page"')]
    assert re.findall(r'module=\d"[^>]*>([^<]*)<', links) == ["jit_b (0007)", "jit_b (0003)", "jit_a"]


def test_small_modules_are_left_out_of_the_file_and_counted(dumps: Path) -> None:
    """A module below 1% of the cost has a row in the table, and no page."""
    (dumps / "2.txt").write_text(BUSY, encoding="utf-8")
    _, err, code = run("0.txt", "1.txt", "2.txt", "-o", "all.html", folder=dumps)
    assert code == 0, err
    page = (dumps / "all.html").read_text(encoding="utf-8")
    assert "; 2 other modules omitted (<1% of the bytes if all run once)" in err
    assert "2 other modules omitted (&lt;1% of the bytes if all run once)" in page
    assert page.count("<template") == 0
    assert all(f">{name}<" in page for name in ("jit_busy", "jit_a", "jit_A"))


@pytest.mark.oracle
def test_a_name_switches_to_the_page_of_its_module(dumps: Path) -> None:
    run("0.txt", "1.txt", "2.txt", "-o", "all.html", folder=dumps)
    with browser() as chromium, opened_page(chromium, dumps / "all.html") as found:
        page = found.page
        assert page.locator("h1").inner_text() == "jit_b on CPU"
        page.locator("#modules a").nth(1).click()
        page.wait_for_selector("h1:text-is('jit_A on CPU')")
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.locator("#modules a[aria-current]").inner_text() == "jit_A"
        assert "128 B" in page.locator("#memory").inner_text()
        page.locator("nav .links a").nth(1).click()
        page.wait_for_url("**#memory?module=1")  # links within the page stay in it
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.locator("h1").inner_text() == "jit_A on CPU"
        page.locator("#all-modules td a").first.click()
        page.wait_for_selector("h1:text-is('jit_b on CPU')")
        assert found.messages == []
        assert {request.split("#")[0] for request in found.requests} == {(dumps / "all.html").as_uri()}


@pytest.mark.parametrize("target", ["all.html", "all/"])
def test_processes_write_the_same_pages(target: str, dumps: Path) -> None:
    run("0.txt", "1.txt", "2.txt", "-o", target, folder=dumps)
    before = {path.name: path.read_bytes() for path in dumps.rglob("*.html")}
    words = [sys.executable, "-m", "hlo_cli", "report", "0.txt", "1.txt", "2.txt", "-o", target, "--jobs", "2"]
    settings = os.environ | {"SOURCE_DATE_EPOCH": "0", "PYTHONPATH": str(FIXTURES.parent)}
    subprocess.run(words, cwd=dumps, env=settings, check=True, timeout=60)
    assert before
    assert {path.name: path.read_bytes() for path in dumps.rglob("*.html")} == before


def test_an_unreadable_input_does_not_lose_the_others(dumps: Path) -> None:
    (dumps / "1.txt").write_text("nothing", encoding="utf-8")
    inputs = (dumps / "0.txt", dumps / "1.txt", dumps / "2.txt")
    _, err, code = run(*inputs, "-o", "all/", folder=dumps)
    assert code == 2
    assert "1.txt" in err
    assert {path.name for path in (dumps / "all").iterdir()} == {"index.html", "jit_a.html", "jit_b.html"}
    assert str(dumps) not in (dumps / "all" / "index.html").read_text(encoding="utf-8")
    _, err, code = run(*inputs, "-o", "all.html", folder=dumps)
    assert code == 2
    page = (dumps / "all.html").read_text(encoding="utf-8")
    assert page.count("<template") == 1
    assert str(dumps) not in page


def test_names_of_pages_stay_in_the_folder(dumps: Path) -> None:
    (dumps / "0.txt").write_text(module(f'"{HOSTILE}"'), encoding="utf-8")
    inside = dumps / "out"
    inside.mkdir()
    run(dumps / "0.txt", dumps / "2.txt", "-o", inside, folder=dumps)
    run(dumps / "0.txt", dumps / "2.txt", "-o", inside / "all.html", folder=dumps)
    assert not list(dumps.parent.glob("*.html")) + list(dumps.glob("*.html"))
    names = [path.name for path in inside.iterdir()]
    assert len(names) == 4
    assert all(re.fullmatch(r"[\w-][\w.-]*\.html", name) for name in names)
    for path in inside.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "<img" not in text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text


def test_index_as_json(dumps: Path) -> None:
    out, _, code = run("0.txt", "2.txt", "--json", folder=dumps)
    report = json.loads(out)
    assert (report["schema"], code) == ("hlo.report/1", 0)
    rows = report["tables"]["modules"]["rows"]
    assert [(row["module"], row["peak_bytes"], row["padding"]) for row in rows] == [("jit_b", 192, 0), ("jit_a", 64, 0)]
    assert not list(dumps.glob("*.html"))


def test_index_has_the_numbers_of_the_pages() -> None:
    words = ("tpu/v5e_conv", "tpu/v5e_kernel", "--chip", "v5e", "--json")
    rows = json.loads(run(*words, folder=FIXTURES)[0])["tables"]["modules"]["rows"]
    assert len(rows) == 2
    for row in rows:
        report = json.loads(run(row["path"], "--chip", "v5e", "--json", folder=FIXTURES)[0])
        numbers = report["answer"]
        assert row["execution_seconds"] == numbers["schedule"]["execution_seconds"]
        assert row["saving_bytes"] == numbers["layout"]["saving_bytes"]
        assert row["warnings"] == numbers["lint"]["warnings"]
        spaces = {space["space"]: space for space in report["tables"]["spaces"]["rows"]}
        assert row["limit_bytes"] == spaces[row["space"]]["limit_bytes"]
        assert row["fits"] is True
        assert row["chip"] == "TPU v5e"


def test_pages_of_several_modules_need_a_file(dumps: Path) -> None:
    for words in (("--format", "html"), ("--format", "html", "-o", "-")):
        assert run("0.txt", "2.txt", *words, folder=dumps)[2] == 2
    _, err, code = run("0.txt", "2.txt", "-o", "missing/all.html", folder=dumps)
    assert code == 2
    assert "cannot write missing/all.html" in err


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a web browser shows."""
    addresses = list[str]()

    def show(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    return addresses


def test_open_shows_the_page(dumps: Path, opened: list[str]) -> None:
    _, err, code = run("0.txt", "--open", folder=dumps)
    path = Path(opened[0].removeprefix("file://"))
    assert code == 0
    assert f"note: wrote {path}" in err
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    shutil.rmtree(path.parent)
    run("0.txt", "2.txt", "--open", "-o", "my page.html", folder=dumps)
    assert opened[1] == (dumps / "my page.html").as_uri()


def test_without_a_browser_the_page_is_named(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    _, err, code = run("0.txt", "--open", "-o", "x.html", folder=dumps)
    assert code == 2
    assert "error: no web browser found" in err
    assert "open x.html" in err
    assert (dumps / "x.html").exists()


@pytest.mark.parametrize("words", [("--json",), ("-o", "x.json"), ("--format", "html", "-o", "-")])
def test_only_pages_are_opened(words: tuple[str, ...], dumps: Path, opened: list[str]) -> None:
    assert run("0.txt", "--open", *words, folder=dumps)[2] == 2
    assert not opened


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("target_arguments.txt", 'version: TPU_VERSION_VIPERFISH\nvariant: "lite"\n', "jit_f on TPU v5e"),
        ("target_arguments.txt", "version: TPU_VERSION_VIPERFISH\n", "jit_f on TPU v5p"),
        ("target_arguments.txt", "version: TPU_VERSION_NEW\n", "jit_f on TPU"),
        ("gpu_target_config.pbtxt", 'device_description_str: "NVIDIA H100 80GB HBM3"\n', "jit_f on TPU"),
    ],
)
def test_chip_is_that_of_the_dump(name: str, text: str, title: str, tmp_path: Path) -> None:
    body = "HloModule jit_f\n\nENTRY e {\n  ROOT p = f32[8]{0:T(128)} parameter(0)\n}\n"
    (tmp_path / "module_0001.jit_f.after_optimizations.txt").write_text(body, encoding="utf-8")
    (tmp_path / "module_0002.jit_g.target_arguments.txt").write_text("version: TPU_VERSION_JELLYFISH", encoding="utf-8")
    (tmp_path / f"module_0001.jit_f.{name}").write_text(text, encoding="utf-8")
    loaded = load_one([str(tmp_path)], InputOptions())
    assert title_of(loaded, None) == title
    assert title_of(loaded, "v6e") == "jit_f on TPU v6e"
    if name.startswith("gpu"):
        assert chip_in(target_texts(loaded.input)) == "h100"
