"""Are texts refused that report no failure, although they have the words of one: settings, programs, logs, and prose?"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hlo_cli.syntax.compiler_messages.causes import CAUSES
from hlo_cli.syntax.compiler_messages.compiler_errors import parse_compiler_errors
from hlo_cli.syntax.compiler_messages.evidence import is_severe
from in_process import run

_PARTS = re.split(r"^=== ", (Path(__file__).parent / "data" / "harmless.txt").read_text(), flags=re.MULTILINE)[1:]
HARMLESS = {part.partition("\n")[0]: part.partition("\n")[2] for part in _PARTS}
"""Texts by what they are; each is refused by a release that knew no causes."""


def test_texts_without_a_failure_are_refused(tmp_path: Path) -> None:
    answered = {}
    for at, (name, text) in enumerate(HARMLESS.items()):
        path = tmp_path / f"{at}.txt"
        path.write_text(text)
        out, _, code = run([path.name], folder=tmp_path, settings=dict(os.environ))
        if code != 2:
            answered[name] = out[:200]
    assert len(HARMLESS) >= 200
    assert answered == {}


# The same words, in the forms in which systems write them when they fail.
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("E0512 13:37:00.1 1 a.cc:3] heartbeat timeout: the leader did not respond", "time limit"),
        ("[rank3]: TimeoutError: timed out", "time limit"),
        ("2025-01-01 10:00:00 worker 7: connect to 10.0.0.1:1234 timed out", "connection"),
        ("ssh: connect to host n7 port 22: Connection refused", "connection"),
        ("OSError: [Errno 32] Broken pipe", "connection"),
        ("cp: /ckpt/7: No space left on device", "disk"),
        ("bash: ./run.sh: Permission denied", "permission"),
        ("make: *** [Makefile:3: all] Segmentation fault (core dumped)", "signal"),
        ("Killed", "signal"),
        ("worker 3 finished with exit code 137", "exit of a process"),
        ("    Exit Code:    137", "exit of a process"),
        ("step 10 loss: nan\nstep 11 loss: nan", "not a number"),
        ("ERROR: nan loss at step 7", "not a number"),
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "scheduling of a pod"),
        ("Warning  Evicted  3m  kubelet  The node was low on resource: memory.", "end of a node"),
        ("RuntimeError: Error(s) in loading state_dict: Missing key(s) in state_dict: 'a'", "structure of a tree"),
        ("ncclSystemError: System call failed", "code of a device library"),
        ("IndexError: index 7 is out of bounds for axis 0 with size 7", "index"),
        ("Traceback (most recent call last):\n  File 'a'\nFoo: the value is not supported", "unsupported operation"),
        ("INFO retry 1 after timeout\nERROR timed out after 3 tries", "time limit"),
    ],
)
def test_failures_in_the_same_words_are_known(text: str, cause: str) -> None:
    first = parse_compiler_errors(text)[0]
    assert first.rule is not None
    assert first.rule.key == cause


@pytest.mark.parametrize("line", ['raise TimeoutError("timed out")', "test_error PASSED", "0 errors, 0 failed", ""])
def test_lines_of_programs_and_tests_are_not_severe(line: str) -> None:
    assert not is_severe(line)


@pytest.mark.parametrize("prefix", ["", "INFO ", "# ", "we fixed: ", "test_a PASSED "])
def test_no_cause_is_found_in_words_alone(prefix: str) -> None:
    words = ("timeout", "heartbeat", "index", "nan", "evicted", "connection", "deprecated", "exit code 0")
    assert CAUSES
    assert not any(error.rule for word in words for error in parse_compiler_errors(f"{prefix}the {word} of the house"))
