"""Holds CONTRIBUTING.md to the tree: its paths are there, its table is short, and its drawing has every room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_architecture import ARROWS, ROOMS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TASKS = re.findall(r"^\| (an? [^|]+) \| ([^|]+) \|$", TEXT, re.MULTILINE)


def section(title: str) -> str:
    """What stands below a heading."""
    return TEXT.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:hlo_cli|tests|fixtures)/[a-z_\d/.]*)`", TEXT))))
def test_paths_are_there(path: str) -> None:
    assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()


def test_a_dump_is_walked_in_ten_lines() -> None:
    assert len(re.findall(r"^\d+\. ", section("From `hlo memspace FILE` to the screen"), re.MULTILINE)) == 10


def test_tasks_touch_few_files() -> None:
    touched = {task: len(re.findall(r"`hlo_cli/[^`]+`", files)) for task, files in TASKS}
    assert len(touched) >= 12
    assert max(touched.values()) <= 3
    assert sum(count == 1 for count in touched.values()) >= 8


def test_the_drawing_has_every_part_and_room() -> None:
    drawn = set(re.findall(r"\w+", section("Architecture").split("| part |")[0]))
    assert {part for part in ARROWS if part not in drawn} <= {"scan_modules", "cli"}
    rooms = {room for part, plan in ROOMS.items() if part != "commands" for room in plan}
    assert rooms - drawn == set()
