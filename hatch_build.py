"""Build hook: compiles the reader of lines where there is a C compiler, and adds the man pages of commands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EXTENSION = "hlo_cli/syntax/text/fast_lines"


class Build(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled reader, which is optional, and `share/man/man1/hlo.1` and the other pages.

    An editable installation has no man pages; its compiled reader is next to the C file. With HLO_PURE in the
    environment, or without a compiler, the wheel has Python files alone and runs everywhere.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes all of it to where a build may, and maps each file to its place."""
        if (library := self._compiled(is_editable=version == "editable")) is not None:
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"cp311-abi3-{platform}"
            if version != "editable":
                build_data["force_include"][str(library)] = f"{EXTENSION}{library.suffixes[-2]}{library.suffix}"
        if version != "editable":
            self._add_man_pages(build_data)

    def _add_man_pages(self, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from hlo_cli.cli import COMMANDS, QUESTIONS
        from hlo_cli.commands.help.pages import man_pages

        folder = Path(self.root) / "build" / "man"
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in man_pages(COMMANDS, QUESTIONS).items():
            path = folder / name
            path.write_text(page, encoding="utf-8")
            section = name.rpartition(".")[2]
            build_data["shared_data"][str(path)] = f"share/man/man{section}/{name}"

    def _compiled(self, *, is_editable: bool) -> Path | None:
        """The compiled reader; None without a compiler for it, which is no error: Python reads the same."""
        # another interpreter, Windows, or a free-threaded build has no stable interface that this could use
        is_usual = sys.implementation.name == "cpython" and os.name == "posix"
        if os.environ.get("HLO_PURE") or not is_usual or sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None
        source = Path(self.root) / f"{EXTENSION}.c"
        folder = source.parent if is_editable else Path(self.root) / "build" / "compiled"
        library = folder / f"{source.stem}.abi3.so"
        link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
        compiler = shlex.split(os.environ.get("CC") or "cc")
        include = sysconfig.get_paths()["include"]
        command = [*compiler, "-O2", "-fPIC", *link, f"-I{include}", str(source), "-o", f"{library}.new"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            os.replace(f"{library}.new", library)
        except (OSError, subprocess.SubprocessError):
            return None
        return library
