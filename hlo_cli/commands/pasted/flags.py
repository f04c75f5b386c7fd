"""Flags that XLA or libtpu refuses: whether each exists, where it belongs, and what is wrong with it.

`flags.csv` lists the flags of XLA's xla.proto and debug_options_flags.cc and of libtpu 0.0.52, with what two
releases of jaxlib say to each; the message is that of xla/parse_flags_from_env.cc or of absl.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pkgutil import get_data
from typing import Final
from unicodedata import name as character_name

from hlo_cli.commands.pasted.parts import text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.source import HloError, nearest

_UNKNOWN: Final = lazy_regex(
    r"(?:Unknown|unknown) (?:command line )?flags?(?: in (?:the )?(?:env(?:ironment)? )?(?:var(?:iable)? "
    r")?(?P<variable>\w+))?:?\s+(?P<flags>[^\n]*)"
)
_VALUE: Final = lazy_regex(r"Couldn't interpret value (?P<value>\S*) for flag (?P<flag>[\w\-]+)")
_ABSL_VALUE: Final = lazy_regex(r"Illegal value '(?P<value>[^'\n]*)' specified for flag '?(?P<flag>[\w\-]+)")
_NOT_FLAGS: Final = lazy_regex(r"[.!]?\s+(?:Perhaps|Did you|Note|See|Please)\b.*$")
_END_OF_STRING: Final = lazy_regex(r"[\"'][}\],]")
"""Where a record of JSON goes on after the message."""
_HYPHENS: Final = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_FLAG: Final = lazy_regex(rf"(?P<dashes>[{_HYPHENS}]*)(?P<name>[A-Za-z]\w*)(?:=(?P<value>.*))?")
_QUOTES: Final = "'\"\u201c\u201d\u2018\u2019`"
"""Before a flag, shells did not remove them: XLA got them. Only after one, they end the sentence around the message."""
_NO_SPACES: Final = "Write each flag in the form --name=value: spaces separate flags, and none are around the = sign."
_COLUMNS: Final = (
    Column("flag", "flag", "name", role="name"),
    Column("status", "status"),
    Column("help", "what to do", person=False),
)


@dataclass(frozen=True, slots=True)
class _Flag:
    """A row of the table of flags."""

    name: str
    status: str
    known: str
    type: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is wrong with a flag, as the end of a sentence, and what to do about it."""

    flag: str
    status: str
    words: str
    help: str


def report_of(pasted: PastedText) -> Report:
    """The report on the flags that a message refuses; HloError if it names none."""
    text = pasted.text
    verdicts = list({each.flag: each for each in (*_values(text), *_unknown(text))}.values())
    if not verdicts:
        raise HloError(f"{pasted.name} names no flag", hint="paste the complete message")
    rows = tuple((each.flag, each.status, each.help) for each in verdicts)
    notes = []
    if any(each.status in ("removed", "unknown", "not in this release") for each in verdicts):
        notes.append(
            "the table of flags is that of XLA in November 2026, jaxlib 0.10.2 and 0.12.0.1, and libtpu 0.0.52"
        )
    return text_report(
        pasted,
        _answer(verdicts),
        means=("XLA ends the process if XLA_FLAGS has a flag that it does not know.",) if "XLA_FLAGS" in text else (),
        tables=(Table("refused_flags", _COLUMNS, rows, noun="flags", person=len(rows) > 1),),
        advice=tuple(_advice(verdicts)),
        numbers={"flags": len(verdicts), "flag": verdicts[0].flag, "status": verdicts[0].status},
        notes=notes,
    )


def _advice(verdicts: list[_Verdict]) -> Iterator[str]:
    """What to do about each flag, which is named if there are others: sentences wrap, cells of a table do not."""
    for help in dict.fromkeys(each.help for each in verdicts):
        flags = [each.flag for each in verdicts if each.help == help]
        is_named = len(verdicts) == 1 or all(flag.lstrip(_HYPHENS) in help for flag in flags)
        yield help if is_named else f"{', '.join(flags)}: {help}"


def _answer(verdicts: list[_Verdict]) -> str:
    if len(verdicts) == 1:
        return f"{verdicts[0].flag} {verdicts[0].words}"
    if len({each.words for each in verdicts}) == 1 and verdicts[0].status == "removed":
        listed = ", ".join(each.flag for each in verdicts[:-1])
        return f"{listed} and {verdicts[-1].flag} were removed from XLA"
    kinds = dict.fromkeys(each.status for each in verdicts)
    count = format_count(len(verdicts), "flags")
    return f"{count} {verb(len(verdicts), 'is', 'are')} refused: " + "; ".join(
        f"{', '.join(each.flag for each in verdicts if each.status == kind)} ({kind})" for kind in kinds
    )


def _unknown(text: str) -> Iterator[_Verdict]:
    for match in _UNKNOWN.finditer(text):
        flags = _NOT_FLAGS.sub("", _END_OF_STRING.split(match["flags"])[0]).strip()
        is_absl = "command line" in match[0]  # absl names the flag without its hyphens
        if not is_absl and flags[:1] in tuple(_QUOTES):
            yield _verdict(flags, match["variable"] or "")  # the flags up to the other mark are not separate ones
            continue
        for word in (flags.replace("'", " ").replace('"', " ") if is_absl else flags).split():
            given = word.strip(",;.")
            given = given if given[:1] in _QUOTES else given.rstrip(_QUOTES + ",;.")
            if not given:
                continue
            yield _verdict(
                f"--{given.lstrip('-')}" if is_absl else given, "LIBTPU" if is_absl else match["variable"] or ""
            )


def _values(text: str) -> Iterator[_Verdict]:
    for match in (*_VALUE.finditer(text), *_ABSL_VALUE.finditer(text)):
        name = match["flag"].lstrip("-")
        known = _flags().get(name)
        wants = f" of type {known.type}" if known and known.type else ""
        value = match["value"] or "nothing"
        words = f"does not take the value {value}"
        yield _Verdict(
            f"--{name}", "wrong value", words, f"Give {name} a value{wants}, as in --{name}={_example(known)}."
        )


def _example(flag: _Flag | None) -> str:
    kind = flag.type if flag else ""
    return {"bool": "true", "string": "TEXT", "float": "1.0"}.get(kind, "1" if "int" in kind else "VALUE")


@cache
def _flags() -> dict[str, _Flag]:
    """The table of flags by name; one of XLA comes before one of libtpu."""
    data = get_data("hlo_cli.commands.pasted", "flags.csv") or b""
    found: dict[str, _Flag] = {}
    for line in data.decode("utf-8").split("\n"):
        if line and not line.startswith(("#", "name,")):
            name, status, known, *kind = line.split(",")
            found.setdefault(name, _Flag(name, status, known, kind[0] if kind else ""))
    return found


def _verdict(word: str, variable: str) -> _Verdict:
    """What is wrong with a flag as it was given."""
    if word[0] in _QUOTES:
        bare = word.strip(_QUOTES)
        return _Verdict(word, "quotes", "has a quotation mark, which XLA takes for a part of it",
                        f"Write {bare} without the quotation marks; inside of XLA_FLAGS, none are needed.")  # fmt: skip
    if ",--" in word:
        listed = " ".join(word.split(","))
        return _Verdict(word, "comma", "is several flags with commas between them, which XLA takes for one",
                        f"Write {listed}: spaces separate flags.")  # fmt: skip
    match = _FLAG.fullmatch(word)
    if match is None:
        return _Verdict(word, "no flag", "is not a flag", _NO_SPACES)
    name, dashes = match["name"], match["dashes"]
    odd = next(((at, each) for at, each in enumerate(dashes, 1) if each != "-"), None)
    if odd is not None:
        return _odd_hyphen(word, name, *odd)
    if dashes != "--":
        if not dashes and name not in _flags():
            return _Verdict(word, "no flag", "is not a flag", _NO_SPACES)
        words = f"begins with {format_count(len(dashes), 'hyphens')}, not two" if dashes else "has no hyphens before it"
        return _Verdict(word, "hyphens", words, f"Write --{word.lstrip('-')}.")
    known = _flags().get(name)
    if name.startswith("tf_"):
        return _Verdict(f"--{name}", "belongs in TF_XLA_FLAGS", "belongs in TF_XLA_FLAGS, not in XLA_FLAGS",
                        f"Set TF_XLA_FLAGS=--{name}.")  # fmt: skip
    if known is not None:
        return _known(known, variable)
    if name.startswith(("xla_tpu_", "xla_jf_", "libtpu_", "xla_sc_", "megascale_")):
        return _of_libtpu(name, "; libtpu 0.0.52 does not have it")
    near = nearest(name, _flags())
    if near is not None:
        return _Verdict(f"--{name}", "misspelled", f"is not a flag of XLA; the nearest is --{near}", f"Write --{near}.")
    return _Verdict(f"--{name}", "unknown", "is not a flag of XLA or libtpu", f"Remove --{name} from XLA_FLAGS.")


def _odd_hyphen(word: str, name: str, at: int, character: str) -> _Verdict:
    place = {1: "first", 2: "second"}.get(at, f"{at}th")
    what = character_name(character, "character").lower()
    known = _flags().get(name)
    exists = "; the flag exists" if known and known.status not in ("removed", "field") else "; no such flag is known"
    return _Verdict(
        word,
        "hyphens",
        f"has {_article(what)} (U+{ord(character):04X}) as its {place} character, not a hyphen{exists}",
        f"Type --{name} again; documents and chats replace two hyphens by a dash.",
    )


def _article(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


_ASYNC: Final = (
    "Asynchronous collectives are on by default; --xla_gpu_disable_async_collectives switches them off by kind."
)


def _known(flag: _Flag, variable: str) -> _Verdict:
    name, shown = flag.name, f"--{flag.name}"
    if flag.status.startswith("tpu"):
        if "TPU" in variable or "LIBTPU" in variable:
            return _Verdict(shown, "not in this release", "is a flag of libtpu 0.0.52, but not of this libtpu",
                            "Use the libtpu that has the flag, or remove it.")  # fmt: skip
        return _of_libtpu(name, "")
    if "LIBTPU" in variable and flag.status != "removed":
        return _Verdict(shown, "belongs in XLA_FLAGS", "is a flag of XLA: it belongs in XLA_FLAGS, not "
                                                       "in LIBTPU_INIT_ARGS",
                        f"Set XLA_FLAGS={shown}.")  # fmt: skip
    if flag.status == "removed":
        help = _ASYNC if "async" in name and name.startswith("xla_gpu_enable") else f"Remove {shown} from XLA_FLAGS."
        since = " (jaxlib 0.10.2 still has it)" if flag.known[0] == "y" else ""
        return _Verdict(shown, "removed", f"was removed from XLA{since}", help)
    if flag.status == "field":
        return _Verdict(shown, "no flag", "is a setting of XLA that no flag sets",
                        "Set it as a compile option, as in "
                        "jit(f).lower(x).compile(compiler_options={...}).")  # fmt: skip
    if flag.status.startswith("alias:"):
        new = flag.status.partition(":")[2]
        return _Verdict(
            shown, "renamed", f"is the old name of --{new}", f"Use --{new}, or the old name before it existed."
        )
    if flag.known == "ny":
        return _Verdict(shown, "not in this release", "is newer than this XLA: jaxlib 0.10.2 does not "
                                                      "have it, 0.12 has it",
                        "Update jaxlib (or TensorFlow), or remove the flag.")  # fmt: skip
    return _Verdict(shown, "not in this release", "exists in XLA, but not in this build of it",
                    "Compare the version: the flag may be newer than this build, or its build may leave "
                    "it out; update or "
                    "remove it.")  # fmt: skip


def _of_libtpu(name: str, more: str) -> _Verdict:
    return _Verdict(
        f"--{name}",
        "belongs in LIBTPU_INIT_ARGS",
        f"is a flag of libtpu: it belongs in LIBTPU_INIT_ARGS, not in XLA_FLAGS{more}",
        f"Set LIBTPU_INIT_ARGS=--{name}=VALUE and remove it from XLA_FLAGS; without a TPU, remove it.",
    )
