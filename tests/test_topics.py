"""Pages of `hlo help`: their commands print what the pages show, and their links lead to pages.

`python tests/test_topics.py --write [TOPIC]…` puts the outputs in anew. The rest of a fence's line is for the tests:
`console DUMP=tpu/v5e_conv` makes a link DUMP to that folder of fixtures/, and `toml FILE=expect.toml` writes the block
to that file; both are there for all commands of the page. With `LINES=7`, the page shows so many lines of each output,
and … if there are more; with `ANSWER`, it shows the lines up to the first blank one. Errors are shown, and with `stderr` notes too.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

import golden
from console import BLOCK, ROOT, outputs
from glossary_columns import COMPUTED, MISSING, columns_in_code, files_with_computed_names, with_columns
from hlo_cli import cli
from hlo_cli.commands.help.catalog import (
    TOPICS,
    CodeBlock,
    GridTable,
    Heading,
    ItemList,
    Page,
    Paragraph,
    Span,
    glossary_items,
    glossary_names,
    key_of,
    plain,
    read_page,
    source_of,
)
from hlo_cli.commands.help.command import INDENT, MAX_WIDTH, render
from hlo_cli.commands.help.pages import html_page as render_html
from hlo_cli.commands.help.terms import meanings_of
from hlo_cli.ir.operations import OPERATIONS
from hlo_cli.render.style import Style
from hlo_cli.report.table_meanings import TABLE_MEANINGS
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
from parsed import files, nodes_of
from parsed import text_of as code_of

FOLDER = ROOT / "hlo_cli" / "commands" / "help" / "topics"
WIDTH = 80 - len(INDENT)
LONGEST = 200  # lines of a page without tables that are made
REFERENCES = ("chips", "glossary")
GLOSSARY = "# Glossary"

Capture = pytest.CaptureFixture[str]

_UNBROKEN = re.compile("://|^ +next: hlo |^ {6,}hlo ")  # addresses and suggested commands are one line each
_FILE = re.compile(r"(?ms)^```\w+ FILE=(\S+)\n(.*?)^```")


def text_of(topic: str) -> str:
    return (FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def answered(text: str, folder: Path) -> str:
    """A page with the outputs of its commands as they are now."""
    for file in _FILE.finditer(text):
        (folder / file[1]).write_text(file[2], encoding="utf-8")

    def block(found: re.Match[str]) -> str:
        settings = dict(word.partition("=")[::2] for word in found[1].split())
        with_stderr, lines = "stderr" in settings, int(settings.get("LINES", 0))
        for name, path in settings.items():
            if path and name != "LINES":
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(ROOT / "fixtures" / path)
        shown = outputs(found[2], folder=folder, width=WIDTH, stderr=with_stderr, errors=True)
        shorten = first_paragraph if "ANSWER" in settings else partial(first_lines, limit=lines)
        return f"```console{found[1]}\n{''.join(map(shorten, shown))}```"

    return BLOCK.sub(block, with_columns(text) if text.startswith(GLOSSARY) else text)


def first_paragraph(output: str) -> str:
    """A command and its output up to the first blank line."""
    head, blank, _ = output.partition("\n\n")
    return f"{head}\n…\n" if blank else output


def first_lines(output: str, limit: int) -> str:
    """A command and the first lines of its output; all lines if the limit is 0."""
    lines = output.splitlines(keepends=True)
    if not limit or len(lines) <= limit + 1:
        return output
    return "".join(lines[: limit + 1]).rstrip("\n") + "\n…\n"


def spans_of(page: Page) -> list[Span]:
    found: list[Span] = []
    for block in page.blocks:
        match block:
            case Heading(_, spans) | Paragraph(spans):
                found += spans
            case ItemList(items):
                found += [span for item in items for span in spans_of(Page("", item))]
            case GridTable(header, rows):
                found += [span for row in (header, *rows) for cell in row for span in cell]
            case CodeBlock():
                pass
    return found


def words_of(text: str) -> list[str]:
    """The letters of a text in alphabetical order: lines of tables are wrapped at other places."""
    return sorted(re.sub(r"[`\s─]", "", text))


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.code) if name == "glossary" else name for name in TOPICS]
)  # the columns of the glossary are those of the code
def topic(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name


def test_every_file_is_listed() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TOPICS)


@pytest.mark.usefixtures("modules_kept")
def test_commands_print_what_the_page_shows(topic: str, tmp_path: Path) -> None:
    text = text_of(topic)
    assert answered(text, tmp_path) == text


def test_a_page_begins_with_its_title_and_a_sentence(topic: str) -> None:
    title, first, *_ = read_page(topic, source_of(topic)).blocks
    assert isinstance(title, Heading)
    assert title.level == 1
    assert isinstance(first, Paragraph)
    assert first.spans[0].text.startswith("This page ")
    assert "".join(span.text for span in first.spans).endswith((".", ":"))


def test_a_page_ends_with_links(topic: str) -> None:
    page = read_page(topic, source_of(topic))
    head, last = page.blocks[-2:]
    assert head == Heading(2, (Span("See also"),))
    assert isinstance(last, Paragraph)
    assert any(span.link.partition("#")[0] in TOPICS for span in last.spans)
    commands = re.findall(r"hlo ([a-z-]+) --help", "".join(span.text for span in last.spans))
    assert set(commands) <= set(cli.COMMANDS)
    assert topic in commands or topic not in cli.COMMANDS, "the page hides the help of the command of its name"


def test_links_lead_to_pages(topic: str) -> None:
    for span in spans_of(read_page(topic, source_of(topic))):
        if span.link and ":" not in span.link:
            assert span.link.partition("#")[0] in TOPICS, span
        if span.kind == "code" and (named := re.fullmatch(r"hlo help ([a-z-]+)( TERM)?", span.text)):
            assert named[1] in {*TOPICS, *cli.COMMANDS}, span


def test_options_exist(topic: str) -> None:
    """In the text, too: every option after a command is one of that command."""
    page = read_page(topic, source_of(topic))
    lines = [span.text for span in spans_of(page) if span.kind == "code"]
    lines += [line for block in page.blocks if isinstance(block, CodeBlock) for line in block.lines]
    for line in lines:
        if found := re.match(r"(?:\$ )?hlo ([a-z-]+) ", line):
            command = import_module(cli.COMMANDS[found[1]][0]).command
            known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
            assert set(re.findall(r" (--?[a-z][a-z-]*)", line.partition("|")[0])) <= known, line


def test_a_page_fits_a_terminal(topic: str) -> None:
    lines = render(read_page(topic, source_of(topic)), Style()).splitlines()
    long = [line for line in lines if len(line) > 80 and " " in line.strip() and not _UNBROKEN.search(line)]
    assert long == []
    assert len(lines) <= LONGEST or topic in REFERENCES
    assert [line for line in text_of(topic).splitlines() if line != line.rstrip() and not line.startswith("$")] == []


def test_every_format_has_every_page(topic: str, capsys: Capture) -> None:
    page = read_page(topic, source_of(topic))
    for form, expected in (("md", f"# {page.title}\n"), ("html", f"<h1>{page.title}</h1>"), ("man", ".SH NAME\n")):
        assert cli.main(["help", topic, "--format", form], standalone=False) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("width", [30, 60, 200])
def test_text_is_wrapped_to_the_width(width: int, topic: str) -> None:
    """Words that are longer than the width stay whole, and code stays as it is."""
    page = read_page(topic, source_of(topic))
    prose = Page(page.name, tuple(block for block in page.blocks if isinstance(block, Heading | Paragraph)))
    lines = render(prose, Style(width=width)).splitlines()
    assert [line for line in lines if len(line) > min(width, MAX_WIDTH) and " " in line.replace("` ", "")] == []


def test_colors_change_no_lines(topic: str) -> None:
    page = read_page(topic, source_of(topic))
    colored, plain = render(page, Style(color=True)), render(page, Style())
    assert "\x1b[1m" in colored
    assert words_of(re.sub(r"\x1b\[\d*m", "", colored)) == words_of(plain)
    assert render(page, Style(ascii=True)).isascii()


def without_script(page: str) -> str:
    """A page without its own script, which is the last element, and no XML."""
    before, _, after = page.rpartition("<script>")
    return before + after.partition("</script>")[2]


def test_the_manual_has_every_page(tmp_path: Path) -> None:
    for name in ("manual.html", "manual.md", "manual.txt"):
        assert cli.main(["help", "--all", "-o", str(tmp_path / name)], standalone=False) == 0
    html = without_script((tmp_path / "manual.html").read_text(encoding="utf-8"))
    assert ElementTree.fromstring(html).tag == "html"
    anchors = set(re.findall(r'id="([^"]+)"', html))
    links = set(re.findall(r'href="#([^"]+)"', html))
    assert links <= anchors
    assert {*TOPICS, *(f"hlo-{command}" for command in cli.COMMANDS)} <= links
    assert 'href="' not in html.replace('href="#', "").replace('href="https://', "")
    markdown = (tmp_path / "manual.md").read_text(encoding="utf-8")
    assert ".md)" not in markdown
    for topic in TOPICS:
        assert f"## {read_page(topic, source_of(topic)).title}\n" in markdown


def test_one_page_links_to_files_of_others() -> None:
    page = read_page("a", "# A\n\n[b](b.md), [c](b.md#part), [x](https://x.y)\n")
    found = re.findall(' href="([^"]+)"', render_html((("", (page,)),), Style()))
    assert found == ["b.html", "b.html#b-part", "https://x.y"]


def test_text_is_escaped_in_html() -> None:
    page = read_page("a", "# A \\<b>\n\n`<i>` <\n\n```text\n<script>\n```\n")
    html = without_script(render_html((("", (page,)),), Style()))
    assert "<script>" not in html
    assert "<i>" not in html
    assert "A &lt;b&gt;" in html


@pytest.mark.parametrize("word", ["oom", "save", "slow", "remat", "growth", "flags", "cache", "mail", "regression"])
def test_the_first_entry_of_a_word_says_what_to_run(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the meaning of a column that happens to have the word in its name."""
    cli.main(["help", word], standalone=False)
    first = capsys.readouterr().out.split("\n- ")[1].split("\n\n")[0]
    assert "`hlo " in first


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["dmup"], "unknown topic 'dmup'", "did you mean 'dump'?"),
        (["zzzzz"], "unknown topic 'zzzzz'", "run `hlo help` to list all topics"),
        (["hlo999"], "unknown rule 'HLO999'", "run `hlo lint --list-rules` to list all rules"),
        (["oom", "--format", "md"], "--format md requires a topic or a command", ""),
        (["glossary", "live", "rnage"], "unknown term 'live rnage'", "did you mean 'live range'?"),
        (["live", "rnage"], "unknown topic 'live rnage'", "did you mean 'live range'?"),
        (["which", "op", "is", "slow"], "unknown topic 'which op is slow'", "run `hlo help slow`"),
        (["--all", "where"], "--all cannot be used with a topic", ""),
        (["--all", "--format", "man"], "--all cannot be used with --format man", ""),
        (["--format", "html"], "--format html requires a topic or --all", ""),
        (["where", "-o", "x.pdf"], "cannot write x.pdf: unsupported format .pdf", "available: .html, .md, .man"),
    ],
)
def test_errors(arguments: list[str], message: str, hint: str, capsys: Capture) -> None:
    assert cli.main(["help", *arguments], standalone=False) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"error: {message}"
    assert [line.strip() for line in lines[1:]] == ([f"help: {hint}"] if hint else [])


def test_an_entry_of_the_glossary(capsys: Capture) -> None:
    assert cli.main(["help", "glossary", "Live", "range"], standalone=False) == 0
    out = capsys.readouterr().out
    assert out.startswith("live range")
    assert len(out.splitlines()) < 8


@pytest.mark.code
def test_every_column_has_a_description() -> None:
    assert MISSING not in text_of("glossary")
    assert files_with_computed_names() == set(COMPUTED)


_RULE = re.compile(r"─+(?:  ─+)+ *")
_UNITS = re.compile(r"[KMGT]?i?B|%|[µnm]?s|[kMGTP]?flops?(?:/s)?|[KMGT]?B/s")
_OTHER_HEADS = {"async-start", "copy-start", "operator", "true for", "what", "SMACT", "TENSO", "DRAMA"}
"""Opcodes that head columns of instructions with that opcode, tables in pages of help, and columns of dcgmi's own."""


def heads_of(screen: str) -> Iterator[str]:
    """The heads of the columns of the tables on a screen, without units; a bar over steps or time has none."""
    lines = screen.splitlines()
    for at, line in enumerate(lines):
        if at and _RULE.fullmatch(line):
            upper = lines[at - 2] if at > 1 else ""
            for rule in re.finditer("─+", line):
                lower, above = (_words_at(text, rule.span()) for text in (lines[at - 1], upper))
                # A head of two lines has the unit below.
                yield lower if lower and not _UNITS.fullmatch(lower) else above


def _words_at(text: str, span: tuple[int, int]) -> str:
    """The head in a column of a line; empty for a part of a title over the table, which is longer than its column."""
    start, end = span
    around = text[max(start - 1, 0) : start] + text[end : end + 1]
    return "" if around.strip() else text[start:end].strip()


def test_every_command_has_its_exit_codes() -> None:
    page = text_of("exit-codes")
    commands = {"INPUT" if name == "overview" else name for name in cli.COMMANDS}
    assert {name for name in commands if f"`hlo {name}`" not in page} == set()


@pytest.mark.code
def test_every_head_on_a_screen_is_a_column_of_the_glossary() -> None:
    named = set(glossary_names(read_page("glossary", source_of("glossary"))))
    screens = (case.read_text(encoding="utf-8", errors="replace") for case in golden.cases())
    heads = {head for screen in screens for head in heads_of(screen) if not head.startswith("0 ")}
    assert len(heads) > 200
    assert {head for head in heads if head and key_of(head) not in named} - _OTHER_HEADS == set()


@pytest.mark.code
def test_every_title_of_a_column_is_explained_as_that_column() -> None:
    entries = dict(_named_entries())
    for name, shown in columns_in_code().items():
        strong = {key_of(span.text) for span in entries[name] if span.kind == "strong"}
        assert {key_of(title) for title in shown.titles if title} <= strong, name
        described = plain(entries[name])
        for command in shown.commands:
            assert re.search(rf"Shown by (?:.*, )?{command}[,.]", described), (name, command)


def _named_entries() -> Iterator[tuple[str, tuple[Span, ...]]]:
    """The entries of the glossary, by the first name of each; columns come last."""
    for block in read_page("glossary", source_of("glossary")).blocks:
        for item in block.items if isinstance(block, ItemList) else ():
            if isinstance(item[0], Paragraph) and item[0].spans[0].kind == "strong":
                yield item[0].spans[0].text, item[0].spans


def test_a_column_is_found_by_its_name_and_its_title(capsys: Capture) -> None:
    for name in ("padded_bytes", "padded bytes", "padded"):
        assert cli.main(["help", "glossary", name], standalone=False) == 0
        assert "padded_bytes" in capsys.readouterr().out


def test_topics_are_completed() -> None:
    from click.shell_completion import ShellComplete

    from hlo_cli.commands.front.command_table import CommandTable

    shell = ShellComplete(CommandTable(cli.COMMANDS), {}, "hlo", "_HLO_COMPLETE")
    assert [item.value for item in shell.get_completions(["help"], "ti")] == ["tiling", "tile-index"]


def test_help_imports_little() -> None:
    import subprocess

    script = (
        "import sys; from hlo_cli import cli; cli.main(sys.argv[1:], standalone=False);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'rich', 'numpy', 'pyparsing', 'markdown_it'}))"
    )
    for arguments, expected in ((["help"], ""), (["help", "where"], "markdown_it")):
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == expected


# --- words that are not topics ---


def explanation(word: str, capsys: Capture) -> str:
    """What `hlo help WORD` shows, in one line."""
    assert cli.main(["help", *word.split()], standalone=False) == 0, word
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("oom", "the program needs more memory than the device has"),
        ("out of memory", "`hlo help memory`: Out-of-memory errors"),
        ("remat", "computed again to save memory"),
        ("tiles", "a block of elements that is contiguous in memory"),
        ("padding", "`hlo lint --explain HLO101`: mostly padding"),
        ("S(5)", "(memory space): TPU: host, pinned host memory"),
        ("S(77)", "a memory space without a public name"),
        ("T(8,128)", "tiles of 8 × 128 elements"),
        ("(2,1)", "tiles of 2 × 1 elements"),
        ("{1,0}", "dimension 1 is minor, and dimension 0 major"),
        ("E(4)", "each element is stored in 4 bits"),
        ("mfu", "the flops of matmuls and convolutions, divided"),
        ("all_reduce", "all-reduce (opcode): reduces across devices"),
        ("copies", "copy (opcode)"),
        ("psum", "an `all-reduce` in HLO"),
        ("bf16", "16 bits per element"),
        ("v5e", "(chip): 16 GiB of HBM"),
        ("hlo101", "More than half of a buffer is padding"),
        ("live ranges", "the steps from definition to last use of a value"),
        ("why-not", "`hlo fuse --why-not`: List producer-consumer pairs"),
        ("donate_argnums", "memory the module may reuse for a result"),
        ("checkpoint", "computed again to save memory"),
        ("nan", "names the first instruction that computes one"),
    ],
)
def test_a_word_is_explained(word: str, meaning: str, capsys: Capture) -> None:
    assert meaning in explanation(word, capsys)


def test_a_word_only_in_prose_leads_to_its_pages(capsys: Capture) -> None:
    text = explanation("Nsight", capsys)
    assert "Pages" in text
    assert "`hlo help profiles`" in text


def test_every_opcode_attribute_and_table_has_a_meaning() -> None:
    for opcode in OPERATIONS:
        assert next(meanings_of(opcode)).startswith(f"**{opcode}** (opcode): "), opcode
    for name in ATTRIBUTE_NAMES:
        assert any(f"**{name}** (attribute of " in each for each in meanings_of(name)), name
    for command, tables in TABLE_MEANINGS.items():
        for name in tables:
            assert any(f"**{name}** (table of `hlo {command}`): " in each for each in meanings_of(name)), name


@pytest.mark.code
def test_every_column_is_in_the_glossary() -> None:
    glossary = read_page("glossary", source_of("glossary"))
    columns = {name for path in files() for name in columns_in(path)} - {"rails"}  # lines of a drawing
    assert len(columns) > 300
    known = {key_of(name) for name in glossary_names(glossary)}
    missing = [
        name for name in sorted(columns) if key_of(name) not in known
    ]  # of the others, the entry has another form
    assert [name for name in missing if not glossary_items(glossary, name)] == []


def columns_in(path: Path) -> Iterator[str]:
    """The names of columns that are constants, which have no place for a value in them."""
    for node in nodes_of(path) if "Column(" in code_of(path) else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


if __name__ == "__main__" and "--write" in sys.argv:
    for each in [name for name in sys.argv[1:] if name in TOPICS] or TOPICS:
        with tempfile.TemporaryDirectory() as temporary:
            written = answered(text_of(each), Path(temporary))
        (FOLDER / f"{each}.md").write_text(written, encoding="utf-8")
