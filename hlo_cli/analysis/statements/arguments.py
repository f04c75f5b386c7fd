"""The arguments of a program as users call them, and what they are: weights, or data."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lazy_regex import lazy_regex

_PART: Final = lazy_regex(r"[\[./]?[^\[./]+")
_WORD: Final = lazy_regex(r"[a-z]+")
_WEIGHT_WORDS: Final = frozenset(
    ("params", "param", "parameters", "weights", "weight", "kernel", "variables", "state", "opt", "model")
)
_VOCABULARY_WORDS: Final = frozenset(
    ("embedding", "embed", "embeddings", "embedder", "emb", "wte", "vocab", "vocabulary", "unembed", "head", "logits")
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the entry with its label, which is empty if the dump does not tell it."""

    parameter: Instruction
    label: str

    @property
    def is_weight(self) -> bool:
        """Whether the label says that it is a parameter of the model, or the state of its optimizer."""
        return not _WEIGHT_WORDS.isdisjoint(_WORD.findall(self.label.lower()))

    @property
    def is_of_vocabulary(self) -> bool:
        """Whether the label names an embedding or an output layer."""
        return not _VOCABULARY_WORDS.isdisjoint(_WORD.findall(self.label.lower()))

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers."""
        shape = self.parameter.shape
        return isinstance(shape, ArrayShape) and str(shape.element_type)[0] in "su"

    @property
    def rank(self) -> int:
        """The number of its dimensions, 0 for tuples."""
        return self.parameter.shape.rank if isinstance(self.parameter.shape, ArrayShape) else 0


def argument_of(parameter: Instruction) -> Argument:
    """The argument of a parameter of the entry.

    >>> from hlo_cli import parse_module
    >>> line = '''p = s32[8] parameter(0), metadata={op_name="data['ids']"}'''
    >>> argument = argument_of(parse_module(f"ENTRY e {{ ROOT {line} }}").entry.parameters[0])
    >>> argument.label, argument.is_weight, argument.is_integer
    ("data['ids']", False, True)
    """
    label = parameter.metadata.op_name if "metadata=" in parameter.raw[1] else ""
    return Argument(parameter, label)


def shared_label(labels: Iterable[str]) -> str:
    """What the labels begin with, up to a whole part: `params` of `params['a']` and `params['b']`.

    >>> shared_label(["state['params']['wq']", "state['params']['wo']"]), shared_label(["a", "b"])
    ("state['params']", '')
    """
    given = list(dict.fromkeys(labels))
    if len(given) < 2:
        return given[0] if given else ""
    parts = [_PART.findall(label) for label in given]
    return "".join(found[0] for found in takewhile(lambda found: len(set(found)) == 1, zip(*parts, strict=False)))
