"""Checks built distributions: `python tests/check_dist.py dist` installs the wheel in an empty environment and runs it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PAGES = ("man1/hlo.1", "man1/hlo-layout.1", "man7/hlo-tiling.7")


def check(folder: Path) -> None:
    """Raises an error unless the folder holds one sdist, a wheel of Python, and at most one more; all must answer."""
    (sdist,) = folder.glob("*.tar.gz")
    (pure,) = folder.glob("*-none-any.whl")
    others = [wheel for wheel in folder.glob("*.whl") if wheel != pure]
    assert len(others) <= 1
    check_wheel(pure, sdist, "in Python")
    for wheel in others:
        check_wheel(wheel, sdist, "compiled")


def check_wheel(wheel: Path, sdist: Path, reader: str) -> None:
    """Installs a wheel in an empty environment, and runs it; `reader` is a part of what it says of its reader."""
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "tests/" in name or name.endswith(".pyc")]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "env"
        venv.create(home, with_pip=True)
        run(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve())
        version = run(home / "bin" / "hlo", "--version")
        assert version.split()[1] in wheel.name
        assert reader in run(home / "bin" / "hlo", "--version", "-v")
        assert "38,912" in run(home / "bin" / "hlo", "layout", "bf16[300,70]{1,0:T(8,128)(2,1)}", "--format", "screen")
        assert run(home / "bin" / "hlo", "help", "tiling")
        missing = [page for page in PAGES if not (home / "share" / "man" / page).is_file()]
        assert not missing, f"man pages are missing: {', '.join(missing)}"
    print(f"{wheel.name} and {sdist.name}: {version.strip()} installs and runs")


def run(*command: str | Path) -> str:
    """The output of a command, which must succeed."""
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    check(Path(sys.argv[1]))
