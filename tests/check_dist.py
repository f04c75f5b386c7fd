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
    """Raises an error unless the folder holds one wheel and one sdist, and the installed wheel answers."""
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "tests/" in name or name.endswith(".pyc")]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "env"
        venv.create(home, with_pip=True)
        run(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve())
        version = run(home / "bin" / "hlo", "--version")
        assert version.split()[1] in wheel.name
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
