"""What is read without the grammars means what they say."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings

from attribute_values import MAKERS
from hlo_cli.ir.attributes.value_types import AttributeValue, value_text
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.attribute_values import GRAMMARS, plain_groups, plain_sharding
from share import examples
from strategies import seeds

READERS = {Kind.REPLICA_GROUPS: plain_groups, Kind.SHARDING: plain_sharding}
PLAIN = {
    Kind.REPLICA_GROUPS: (
        "[2,4]<=[8]",
        "[4,2]<=[2,4]T(1,0)",
        "[16,2]<=[2,4,4]T(0,2,1)",
        "mesh['axis_0'=8] {'axis_0'}",
        "mesh['a'=4,'b'=2] {'b','a'}",
        "mesh['a'=1,'b'=2] {'b'}",
    ),
    Kind.SHARDING: (
        "{replicated}",
        "{manual}",
        "{maximal device=0}",
        "{devices=[2,1]0,1}",
        "{devices=[2,2]<=[4]}",
        "{devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    ),
}


def by_grammar(kind: Kind, text: str) -> AttributeValue:
    """What the grammar reads."""
    tokens = Tokens(Source("", text))
    try:
        value = GRAMMARS[kind](tokens)
    except HloError:
        return UnparsedText(text)
    return value if tokens.kind == tk.END else UnparsedText(text)


def test_what_compilers_write_is_plain() -> None:
    for kind, texts in PLAIN.items():
        for text in texts:
            assert READERS[kind](text) == by_grammar(kind, text) is not None, text


@given(seeds)
@settings(max_examples=examples(300))
def test_what_is_plain_means_what_the_grammar_says(seed: int) -> None:
    random = Random(seed)
    kind = random.choice(tuple(READERS))
    text = value_text(MAKERS[kind](random)) if random.random() < 0.4 else random.choice(PLAIN[kind])
    for _ in range(random.choice((0, 1, 1, 2))):
        at, more = random.randrange(len(text)), random.choice(("", "", "0", "2", ",", "'a'", " ", text[:5], "=", "١"))
        text = text[:at] + more + text[at + random.randrange(2) :]
        text = text or "{"
    plain = READERS[kind](text)
    assert plain is None or plain == by_grammar(kind, text), text
