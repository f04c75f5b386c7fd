"""Build hook: writes the man pages of all commands and topics, and adds them to the wheel's data files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `share/man/man1/hlo.1` and the other pages; an editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes the pages to a directory that a build may fill, and maps each to its place."""
        if version == "editable":
            return
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
