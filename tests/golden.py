"""Golden cases: `fixtures/golden/COMMAND/CASE.txt` holds a command line and, below it, what it printed.

    $ COLUMNS=120 hlo layout tpu/v5e_conv/
    … standard output …
    [stderr]
    … standard error, if there was any …
    [exit 2]

It runs in `fixtures/`, 80 columns wide, without color; where an argument such as `oom_messages.TPU_HBM` names a text
of a module of tests, in a folder that holds it as a file of that name, and all of `fixtures/`. `python tests/golden.py --write [PART-OF-NAME]…` writes the
outputs anew, without `--write` it says which differ.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import in_process

FIXTURES = Path(__file__).parent.parent / "fixtures"
GOLDEN = FIXTURES / "golden"
ENVIRONMENT = {
    "COLUMNS": "80",
    "LINES": "30",
    "NO_COLOR": "1",
    "TERM": "xterm-256color",
    "PYTHONUTF8": "1",
    "SOURCE_DATE_EPOCH": "0",
}
CLEARED = ("FORCE_COLOR", "CLICOLOR_FORCE", "HLO_ASCII", "LC_ALL", "LC_CTYPE")

_TEXT = re.compile(r"[a-z_]+\.[A-Z_]+")
_SETTING = re.compile(r"[A-Z_][A-Z0-9_]*=")


def cases() -> list[Path]:
    """Every golden case."""
    return sorted(GOLDEN.glob("*/*.txt"))


def name_of(case: Path) -> str:
    """`layout/tiles` for `fixtures/golden/layout/tiles.txt`."""
    return case.relative_to(GOLDEN).with_suffix("").as_posix()


def answered(case: Path) -> str:
    """What the file of a case should hold: its command line, and what that prints now."""
    first = case.read_text(encoding="utf-8").partition("\n")[0]
    if not first.startswith("$ "):
        raise ValueError(f"{name_of(case)}: the first line should be a command line, as $ hlo layout 'f32[2]'")
    line = first.removeprefix("$ ")
    if (pipe := in_process.pipe_of(line)) is not None:
        out, err, _ = _here(pipe[0])
        out, code = in_process.through(out, pipe[1], folder=FIXTURES, settings=ENVIRONMENT), 0
    else:
        out, err, code = _in_a_shell(line) if _needs_a_shell(line) else _here(line)
    parts = [first + "\n", _ended(out)]
    if err:
        parts += ["[stderr]\n", _ended(err)]
    if code:
        parts.append(f"[exit {code}]\n")
    return "".join(parts)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _needs_a_shell(line: str) -> bool:
    """Whether something stands outside quotes that only a shell understands."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    tokens.whitespace_split = True
    return any(token and set(token) <= set("|<>;&") for token in tokens)


def _here(line: str) -> tuple[str, str, int]:
    """Run `[NAME=value]… hlo ARGUMENT…` in this process."""
    words = shlex.split(line)
    settings = {}
    while _SETTING.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    if words.pop(0) != "hlo":
        raise ValueError(f"not a command line of hlo: {line}")
    plain = ("NO_COLOR",) if "FORCE_COLOR" in settings else ()
    cleared = {*CLEARED, *plain} - settings.keys()
    run = partial(in_process.run, words, settings=ENVIRONMENT | settings, cleared=cleared)
    texts = [word for word in words if _TEXT.fullmatch(word)]
    if not texts:
        return run(folder=FIXTURES)
    with TemporaryDirectory() as folder:
        for path in FIXTURES.iterdir():
            Path(folder, path.name).symlink_to(path)
        for text in texts:
            module, _, name = text.partition(".")
            Path(folder, text).write_text(getattr(import_module(module), name), encoding="utf-8")
        return run(folder=Path(folder))


def _in_a_shell(line: str) -> tuple[str, str, int]:
    environment = {k: v for k, v in os.environ.items() if k not in CLEARED} | ENVIRONMENT
    environment["PYTHONPATH"] = str(FIXTURES.parent)
    script = f'hlo() {{ "{sys.executable}" -m hlo_cli "$@"; }}\n{line}'
    done = subprocess.run(
        ["sh", "-c", script], cwd=FIXTURES, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.stdout.decode(), done.stderr.decode(), done.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the cases anew, or say which of them differ."""
    parser = argparse.ArgumentParser(description="Golden outputs of the command line.")
    parser.add_argument("--write", action="store_true", help="write what differs")
    parser.add_argument("names", nargs="*", help="only cases whose name holds one of these")
    chosen = parser.parse_args(arguments)
    different = 0
    for case in cases():
        if chosen.names and not any(name in name_of(case) for name in chosen.names):
            continue
        wanted = answered(case)
        if wanted != case.read_text(encoding="utf-8"):
            different += 1
            print(f"{'written' if chosen.write else 'differs'}: {name_of(case)}")
            if chosen.write:
                case.write_text(wanted, encoding="utf-8", newline="\n")
    return int(bool(different) and not chosen.write)


if __name__ == "__main__":
    sys.exit(main())
