"""What a screen looks like depends on the terminal and on what its user set, never on how Python buffers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from hlo_cli.render.width import cell_width

NAMES = ("PYTHONUNBUFFERED", "TERM", "NO_COLOR", "COLUMNS", "FORCE_COLOR", "HLO_ASCII", "LINES")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
TEXT = """HloModule jit_step, is_scheduled=true

ENTRY e {
  p = f32[128,256]{1,0} parameter(0), metadata={op_name="p['embedding']['table']"}
  n = f32[128,256]{1,0} negate(p), metadata={op_name="jit(step)/model/layers_11/mlp/neg" source_file="m.py" source_line=7}
  ROOT r = f32[256,128]{0,1} transpose(n), dimensions={1,0}, metadata={op_name="jit(step)/model/layers_11/mlp/transpose"}
}
"""


def answer(
    path: Path, *, unbuffered: bool, term: str, no_color: bool, columns: str, width: int, is_terminal: bool
) -> str:
    """What `hlo parse --instructions` prints in such an environment."""
    given = {"PYTHONUNBUFFERED": "1" * unbuffered, "TERM": term, "NO_COLOR": "1" * no_color, "COLUMNS": columns}
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= {name: value for name, value in given.items() if value} | {"PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "hlo_cli", "parse", str(path), "--instructions"]
    if not is_terminal:
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts: list[bytes] = []
    try:
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    except OSError:  # Linux tells the end of a terminal by an error
        pass
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


TERMS = ("xterm-256color", "dumb", "")


@pytest.mark.parametrize(
    ("width", "terms", "colors"),
    [
        (200, TERMS[:2], (False,)),
        *(pytest.param(width, TERMS, (False, True), marks=pytest.mark.slow) for width in (60,)),
        *(pytest.param(width, TERMS, (False, True), marks=pytest.mark.long) for width in (80, 120, 200)),
    ],
)
def test_a_screen_in_every_environment(
    width: int, terms: tuple[str, ...], colors: tuple[bool, ...], tmp_path: Path
) -> None:
    """Width is that of COLUMNS, else of the terminal; color and glyphs are those of the terminal."""
    path = tmp_path / "step.hlo"
    path.write_text(TEXT)
    cases = list(product((False, True), terms, colors, ("", "100")))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        screens = list(
            pool.map(
                lambda case: answer(
                    path,
                    unbuffered=case[0],
                    term=case[1],
                    no_color=case[2],
                    columns=case[3],
                    width=width,
                    is_terminal=True,
                ),
                cases,
            )
        )
    seen = dict(zip(cases, screens, strict=True))
    for (unbuffered, term, no_color, columns), screen in seen.items():
        plain = COLOR.sub("", screen)
        assert max(map(cell_width, plain.splitlines())) <= int(columns or width)
        assert bool(COLOR.search(screen)) == (not no_color and term != "dumb")
        assert plain.isascii() == (term == "dumb")
        assert screen == seen[not unbuffered, term, no_color, columns]
        assert plain == COLOR.sub("", seen[unbuffered, term, colors[0], columns])
        if width == 200:
            wide, hundred = (COLOR.sub("", seen[unbuffered, term, no_color, each]) for each in ("", "100"))
            assert ("layers_11/mlp/transpose" in wide, "layers_11/mlp/transpose" in hundred) == (True, False)


def test_a_pipe_is_the_same_in_every_environment(tmp_path: Path) -> None:
    path = tmp_path / "step.hlo"
    path.write_text(TEXT)
    first, *others = (
        answer(path, unbuffered=unbuffered, term=term, no_color=False, columns=columns, width=0, is_terminal=False)
        for unbuffered, term, columns in ((False, "xterm-256color", ""), (True, "dumb", "60"), (True, "", "200"))
    )
    assert first.startswith("#name\t")
    assert others == [first] * 2
