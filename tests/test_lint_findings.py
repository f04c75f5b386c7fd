"""What each rule says of the text that breaks it, and of its neighbors, as in `data/lint_findings.txt` and `lint_edits.txt`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache

import pytest

from hlo_cli import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import MEANINGS
from lint_findings import NAMED, OF_RULES, Edit, kept, kept_edits, told, told_of


@pytest.mark.parametrize("name", NAMED)
def test_all_that_is_said_of_a_case(name: str) -> None:
    assert told(name, NAMED[name]) == kept()[name]


def test_every_case_is_kept_and_no_other() -> None:
    assert list(kept()) == list(NAMED)


@cache
def edits_of() -> dict[str, dict[Edit, str]]:
    """The edits of each case, and what is said of them."""
    found: dict[str, dict[Edit, str]] = defaultdict(dict)
    for edit, said in kept_edits().items():
        found[edit.name][edit] = said
    return found


@pytest.mark.parametrize("name", sorted({edit.name for edit in kept_edits()}))
def test_all_that_is_said_where_one_word_is_another(name: str) -> None:
    for edit, said in edits_of()[name].items():
        assert told_of(edit) == said, edit


KIB = 1024
MOST = {
    "HLO101.1 min_padding_bytes": 8192 * (128 - 2) * 4,
    "HLO101.2 min_padding_bytes": 128 * (128 - 64) * 4,
    "HLO102.1 min_copy_bytes": 256 * 256 * 4,
    "HLO102.2 min_copy_bytes": 256 * 256 * 4,
    "HLO103.1 min_copy_bytes": 256 * 512 * 4,
    "HLO104.1 min_padding_bytes": 40 * 40 * (128 - 40) * 4,
    "HLO105.1 min_copy_bytes": 256 * 512 * 4,
    "HLO106.1 min_copy_bytes": 256 * 512 * 4,
    "HLO202.1 min_value_bytes": 256 * 512 * 4,
    "HLO204.1 min_copy_bytes": 256 * 512 * 4,
    "HLO205.1 min_constant_bytes": 512 * 512 * 4,
    "HLO206.1 min_argument_bytes": 512 * 512 * 4,
    "HLO207.1 min_prefetch_bytes": 8 * 128 * 4,
    "HLO208.1 min_prefetch_bytes": 8 * 128 * 4,
    "HLO209.1 min_prefetch_bytes": 10 * 8 * 128 * 4,  # in ten iterations
    "HLO301.1 min_kernel_bytes": 256 * KIB,  # the array, which is written and read
    "HLO301.2 min_kernel_bytes": 256 * KIB,
    "HLO301.3 min_kernel_bytes": 256 * KIB,
    "HLO302.1 min_kernel_bytes": 512 * KIB,
    "HLO303.1 min_kernel_bytes": 512 * KIB,
    "HLO304.1 min_kernel_bytes": 1024 * KIB,
    "HLO305.1 min_kernel_bytes": 512 * KIB,
    "HLO401.1 min_prefetch_bytes": 262144 * 4,
    "HLO401.1 min_transfer_bytes": 262144 * 4,
    "HLO402.1 min_prefetch_bytes": 262144 * 4,
    "HLO402.1 min_transfer_bytes": 262144 * 4,
    "HLO403.1 min_transfer_bytes": 256 * KIB,
    "HLO501.1 min_transfer_bytes": 4096 * 64 * 4,
    "HLO502.1 min_transfer_bytes": 4096 * 64 * 4,
    "HLO503.1 min_transfer_bytes": 256 * 256 * 4,
    "HLO509.1 min_transfer_bytes": 256 * 256 * 4,
    "HLO504.1 min_replicated_bytes": 64 * KIB * KIB,
    "HLO510.1 min_replicated_bytes": 64 * KIB * KIB,
    "HLO505.1 min_transfer_bytes": 10 * 4 * 8 * 128 * 4,  # from four devices, in ten iterations
    "HLO505.2 min_transfer_bytes": 4 * 8 * 128 * 4,
    "HLO507.1 min_transfer_bytes": 1024 * KIB,
    "HLO508.1 min_combinable_count": 2,
    "HLO703.1 min_accumulated_elements": 256,
    "HLO707.1 min_kernel_bytes": 1024 * KIB,
    "HLO802.1 min_padding_bytes": 1016 * KIB,
    "HLO803.1 min_kernel_bytes": 3 * 1024 * KIB + 384,
    "HLO804.1 min_kernel_bytes": 12 * 1024 * KIB,
    "HLO804.2 min_kernel_bytes": 12 * 1024 * KIB,
}
"""The largest value of a setting with which the rule still has something to say of its case."""


@pytest.mark.parametrize("name", MOST)
def test_the_smallest_sizes_to_report_are_exact(name: str) -> None:
    case, setting = OF_RULES[name.partition(" ")[0]], name.partition(" ")[2]
    module = parse_module(case.bad.replace("«", "").replace("»", ""))
    settings = replace(case.settings, select=(case.code,), ignore=())
    for value, is_found in ((MOST[name], True), (MOST[name] + 1, False)):
        found = lint_module(module, replace(settings, **{setting: value}))  # type: ignore[arg-type]
        assert bool(found) == is_found, value


def test_only_small_collectives_are_combined() -> None:
    """Of others, each one uses the links well alone."""
    case = OF_RULES["HLO508.1"]
    module = parse_module(case.bad.replace("«", "").replace("»", ""))
    settings = replace(case.settings, select=("HLO508",), ignore=())
    assert not lint_module(module, replace(settings, min_transfer_bytes=8 * 4))
    assert lint_module(module, replace(settings, min_transfer_bytes=8 * 4 + 1))


def test_each_smallest_size_has_a_case() -> None:
    sizes = {name for name, (kind, _) in MEANINGS.items() if kind in ("bytes", "count") and name.startswith("min_")}
    assert sizes - {name.partition(" ")[2] for name in MOST} == {"min_donation_bytes"}  # only where enough is saved
