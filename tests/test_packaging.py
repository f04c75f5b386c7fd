"""What is installed: the wheel holds the package, its types and the command, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hlo_cli
from hlo_cli.cli import COMMANDS
from hlo_cli.commands.help.catalog import TOPICS

ROOT = Path(__file__).parent.parent
ENDS = ("py", "pyi", "md", "js", "css", "csv", "txt")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without an environment of its own."""
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env={**os.environ, "HLO_PURE": "1"})
    (built,) = target.iterdir()
    return built


def test_wheel_runs_everywhere(wheel: Path) -> None:
    assert wheel.name == f"hlo_cli-{hlo_cli.__version__}-py3-none-any.whl"


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    release = f"hlo_cli-{hlo_cli.__version__}"
    assert {name.split("/")[0] for name in names} == {"hlo_cli", f"{release}.dist-info", f"{release}.data"}
    files = {each.relative_to(ROOT).as_posix() for end in ENDS for each in (ROOT / "hlo_cli").rglob(f"*.{end}")}
    assert {name for name in names if name.startswith("hlo_cli/")} == files | {"hlo_cli/py.typed"}
    assert {"hlo_cli/render/web/js/report.js", "hlo_cli/render/web/css/base.css"} <= files
    assert f"{release}.dist-info/licenses/LICENSE" in names


@pytest.mark.parametrize("has_compiler", [True, False])
def test_a_wheel_is_built_with_and_without_a_compiler(has_compiler: bool, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if has_compiler and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "HLO_PURE")}
    if not has_compiler:
        environment["PATH"] = str(tmp_path)
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=environment)
    (built,) = tmp_path.glob("*.whl")
    libraries = [name for name in zipfile.ZipFile(built).namelist() if name.endswith(".so")]
    assert len(libraries) == has_compiler
    assert ("-py3-none-any" in built.name) == (not has_compiler)


def test_wheel_holds_a_man_page_for_each_command_and_topic(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    place = f"hlo_cli-{hlo_cli.__version__}.data/data/share/man/"
    pages = {name.removeprefix(place) for name in names if name.startswith(place)}
    commands = {f"man1/{name}.1" for name in ("hlo", *(f"hlo-{name}" for name in COMMANDS))}
    assert pages == commands | {f"man7/hlo-{topic}.7" for topic in TOPICS}


def test_wheel_says_what_it_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    information = f"hlo_cli-{hlo_cli.__version__}.dist-info/"
    metadata = archive.read(information + "METADATA").decode()
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    needed = [line.split(": ")[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    runtime = {line.split(">")[0] for line in needed if "extra ==" not in line}
    assert runtime == {"click", "markdown-it-py", "numpy", "pyparsing", "rich"}
    assert "hlo = hlo_cli.__main__:main" in archive.read(information + "entry_points.txt").decode()


def test_wheel_answers(wheel: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hlo_cli", "--version"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"hlo {hlo_cli.__version__}\n"
