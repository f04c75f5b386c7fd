"""Makes the index of messages of JAX and of the libraries on it.

    python tests/make_message_index.py FOLDER…

Each FOLDER is a package, such as site-packages/jax or site-packages/flax. The index keeps no sentence: a row has the
family of a message (`message_families`), a letter for the system, hashes of its first words, and the roles of its holes,
which the expressions in the sources tell: facts that say which message a text is, and where its values stand.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hlo_cli.syntax.compiler_messages.message_families import GENERAL, family_of
from hlo_cli.syntax.compiler_messages.message_index import HOLE, LEAST_WORDS, MOST_WORDS, row_text, word_hash

INDEX = Path(__file__).parent.parent / "hlo_cli" / "syntax" / "compiler_messages" / "message_index.txt"
LETTERS = {"flax": "f", "optax": "t", "orbax": "o", "equinox": "e", "chex": "c", "haiku": "h"}
_SKIPPED = re.compile(r"(?:^|/)(?:_?test\w*|tools|colab\w*|[\w]*_test\w*)(?:/|\.py)|_test_util")
_PERCENT = re.compile(r"%(?:\(\w+\))?[-+#0 ]*\d*(?:\.\d+)?[srdfgxi]")
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")

Message = list["str | tuple[str]"]
"""Texts, and the expressions between them."""

# --- messages in sources ---


def parts_of(node: ast.expr, names: dict[str, list[Message]]) -> list[Message]:
    """The messages that an expression may be; none if it has no text."""
    match node:
        case ast.Constant(value=str(text)):
            return [[text]]
        case ast.JoinedStr(values=values):
            return [[str(each.value) if isinstance(each, ast.Constant) else (_source(each),) for each in values]]
        case ast.Name(id=name):
            return names.get(name, [])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, two = (parts_of(each, names) for each in (left, right))
            if not one and not two:
                return []
            return [[*a, *b] for a in one or [[(_source(left),)]] for b in two or [[(_source(right),)]]][:4]
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            values = right.elts if isinstance(right, ast.Tuple) else [right]
            return [_percent(each, values) for each in parts_of(left, names)]
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return [_formatted(each, node) for each in parts_of(value, names)]
        case ast.Call(args=[first, *_]) if _source(node.func).endswith("dedent"):
            return parts_of(first, names)
        case ast.IfExp(body=body, orelse=other):
            return [*parts_of(body, names), *parts_of(other, names)]
        case _:
            return []


def _source(node: ast.AST) -> str:
    return ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)


def _percent(message: Message, values: Sequence[ast.expr]) -> Message:
    """A message in whose texts %s and the like are replaced by expressions."""
    found: Message = []
    rest = list(values)
    for part in message:
        if isinstance(part, str):
            for index, text in enumerate(_PERCENT.split(part)):
                if index:
                    found.append((_source(rest.pop(0)) if rest else "value",))
                found.append(text)
        else:
            found.append(part)
    return found


def _formatted(message: Message, call: ast.Call) -> Message:
    """A message in whose texts {} and the like are replaced by the arguments of str.format."""
    found: Message = []
    rest = [_source(each) for each in call.args]
    named = {each.arg: _source(each.value) for each in call.keywords if each.arg}
    for part in message:
        if not isinstance(part, str):
            found.append(part)
            continue
        at = 0
        for field in _FIELD.finditer(part):
            found.append(part[at : field.start()])
            at = field.end()
            name = re.split(r"[:!]", field[1] or "")[0]
            if field[1] is not None:
                found.append(
                    (named.get(name, name) if name and not name.isdigit() else rest.pop(0) if rest else "value",)
                )
        found.append(part[at:])
    return found


_DOCUMENTED = 200
"""Characters of the docstring of a function that users call; helpers have a line or none."""


class Messages(ast.NodeVisitor):
    """Collects what a module raises, warns of, and logs: exception, message, function."""

    def __init__(self) -> None:
        """Begins without messages."""
        self.found: list[tuple[str, Message, str]] = []
        self.functions: list[str] = []
        self.names: list[dict[str, list[Message]]] = [{}]

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        is_documented = len(ast.get_docstring(node) or "") >= _DOCUMENTED
        self.functions.append(node.name if is_documented else f"_{node.name}")
        self.names.append(dict(self.names[-1]))
        for each in ast.walk(node):
            match each:
                case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                    self.names[-1].setdefault(name, []).extend(parts_of(value, {}))
                case ast.AugAssign(target=ast.Name(id=name), value=value):
                    self.names[-1].setdefault(name, []).extend(parts_of(value, {}))
        self.generic_visit(node)
        self.names.pop()
        self.functions.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter

    def visit_Assign(self, node: ast.Assign) -> None:
        """Notes a text of the module that a message may be made of."""
        if len(self.names) == 1 and isinstance(node.targets[0], ast.Name):
            self.names[0].setdefault(node.targets[0].id, []).extend(parts_of(node.value, {}))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Notes the message of an exception, a warning, a log, or a function that checks."""
        name = _source(node.func).rpartition(".")[2]
        if name in ("warn", "warning", "error") or re.search(
            r"(?:Error|Exception)$|(?i:raise|check|fail|assert)", name
        ):
            for each in node.args[: 1 if name in ("warn", "warning", "error") else 3]:
                for message in parts_of(each, self.names[-1]):
                    is_log = name in ("warning", "error") and len(node.args) > 1
                    self._add(name, _percent(message, node.args[1:]) if is_log else message)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Notes the message of an assertion."""
        for message in parts_of(node.msg, self.names[-1]) if node.msg is not None else ():
            self._add("AssertionError", message)
        self.generic_visit(node)

    def _add(self, exception: str, message: Message) -> None:
        self.found.append((exception, message, self.functions[0] if len(self.functions) == 1 else ""))


def messages_in(folder: Path) -> Iterator[tuple[str, str, Message, str]]:
    """The file, the exception, the message, and the function of each message of a package."""
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder.parent).as_posix()
        if not _SKIPPED.search(place):
            visitor = Messages()
            visitor.visit(ast.parse(path.read_text()))
            for exception, message, function in visitor.found:
                yield place, exception, message, function


# --- rows ---

_ROLES = (
    ("c", r"^len\("),
    ("s", r"shape|sizes\b"),
    ("t", r"dtype|aval|\bty\b|type|str_short"),
    ("n", r"ndim|rank"),
    ("a", r"ax[ei]s|dim"),
    ("h", r"shard|spec|mesh"),
    ("p", r"tree|treedef"),
    ("c", r"^len\(|size|num_|count|\bn\b|\bk\b"),
    ("N", r"name|fun|prim|__class__|\bop\b"),
)
"""What an expression in a hole tells of its value, the most telling first."""


def _role(expression: str) -> str:
    return next((role for role, words in _ROLES if re.search(words, expression)), "v")


def words_of(message: Message) -> list[str]:
    """The hashes of the words of a message and the roles of its holes, from its first word on.

    Words that touch a hole are part of it, as in `{count} argument{plural}`.
    """
    marked = "".join(each if isinstance(each, str) else f"\0{_role(each[0])}\0" for each in message)
    found = list[str]()
    for match in re.finditer(r"\w*(?:\0(\w)\0\w*)+|\w+", marked):
        found.append(HOLE + match[1] if match[1] else word_hash(match[0]))
        if found[0][0] == HOLE or (len(found) > 1 and found[-1][0] == found[-2][0] == HOLE):
            found.pop()
        if sum(each[0] != HOLE for each in found) == MOST_WORDS:
            break
    return found


def _family(exception: str, message: Message) -> str:
    plain = "".join(each if isinstance(each, str) else " X " for each in message)
    found = family_of(f"{exception}: {plain}")
    return (found or GENERAL).code


def _function(function: str, place: str, message: Message) -> str:
    """A function that users call: not a method, nor a private one, nor one that the message names itself."""
    is_public = re.search(r"_src/(?:numpy|lax|nn|image|scipy|random|ops)/|_src/(?:api|pjit)\.py", place)
    text = "".join(each for each in message if isinstance(each, str))
    name = re.sub(r"_(?:shape|dtype|sharding|abstract|typecheck|batching|jvp|transpose)\w*$", "", function.strip("_"))
    return name if is_public and function[:1] != "_" and name not in text and len(name) > 2 else ""


def rows_of(folders: Sequence[Path]) -> list[str]:
    """The rows of the index, each sequence of words once, with the rarest two words that follow each other as anchor."""
    kept = dict[tuple[str, ...], tuple[str, str, str]]()
    for folder in folders:
        for place, exception, message, function in messages_in(folder):
            words = tuple(words_of(message))
            system = LETTERS.get(folder.name) or ("p" if "pallas" in place or "mosaic" in place else "j")
            # NaN has a rule of its own, in compiler_errors.
            if exception != "FloatingPointError" and sum(each[0] != HOLE for each in words) >= LEAST_WORDS:
                kept.setdefault(words, (_family(exception, message), system, _function(function, place, message)))
    pairs = {
        words: [at for at in range(len(words) - 1) if HOLE not in words[at][0] + words[at + 1][0]] for words in kept
    }
    counts = Counter(words[at] + words[at + 1] for words, places in pairs.items() for at in places)
    rows = list[str]()
    for words, (family, system, function) in kept.items():
        if places := pairs[words]:
            anchor = min(places, key=lambda at: counts[words[at] + words[at + 1]])
            rows.append(row_text(family, system, words, anchor, function))
    return sorted(rows)


def main(folders: Sequence[Path]) -> None:
    """Writes the index."""
    INDEX.write_text("\n".join(rows_of(folders)) + "\n", encoding="ascii")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
