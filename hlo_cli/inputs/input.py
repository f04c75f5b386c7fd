"""Which modules a command line names: files, directories, globs, standard input; and the files next to a module."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import (
    Directory,
    DumpName,
    SiblingKind,
    matching_stages,
    names_modules,
    no_dumps_error,
    not_found_error,
    not_selected_error,
    parse_dump_name,
    present_file,
    read_directory,
    select_dumps,
    select_stages,
    siblings_of,
    skip_auxiliary,
    stage_named,
    walk_directories,
)
from hlo_cli.inputs.files import (
    STDIN,
    exists,
    is_file,
    is_folder,
    missing,
    open_bounded,
    paths_matching,
    read_bounded,
    read_file,
    read_stdin,
    unreadable,
)
from hlo_cli.inputs.forms import MAXIMUM_BYTES, decompress, is_remote
from hlo_cli.inputs.logs import (
    AFTER_BLOCK,
    BEGINNING,
    HEAD,
    WIDEST,
    EmbeddedModule,
    find_modules,
    has_odd_characters,
    is_cut_header,
)
from hlo_cli.source import HloError, Source

if TYPE_CHECKING:
    from hlo_cli.inputs.executables import StoredModule

# --- modules in a text ---
# The modules in a text: a dump is read at once, anything else is recognized first.


_STARTS: Final = ("", "/", "E")
"""How a line after a complete line begins, besides spaces."""


def _modules_in_text(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules and parts of modules in a text; `name` is that of its file.

    PastedTextError for a text that is not a module and can be explained, HloError for one without HLO.

    >>> [found] = _modules_in_text("It fails at a = f32[] add(b, c) today.", "-")
    >>> found.text.strip()
    'a = f32[] add(b, c)'
    """
    if not text.startswith("HloModule"):
        from hlo_cli.inputs.stablehlo import is_refused, is_stablehlo  # most texts are dumps

        if is_stablehlo(text) and not is_refused(text):
            return (EmbeddedModule(text),)
    if _is_dump(text) and not (
        _may_be_wrapped(text) or has_odd_characters(text) or AFTER_BLOCK.search(text) or is_cut_header(text)
    ):
        return find_modules(text)
    from hlo_cli.inputs.pasted.read import read_text  # most texts are dumps

    return read_text(text, name)


def _is_dump(text: str) -> bool:
    """Whether a text begins with a module in the lines that XLA prints."""
    return text.startswith("HloModule ") and "\n" in text[:HEAD] and ") -&gt; " not in text[:HEAD]


def _may_be_wrapped(text: str) -> bool:
    """Whether a terminal may have broken lines: a line follows one of the longest and does not look like HLO."""
    lines = text[:BEGINNING].split("\n")
    width = max(map(len, lines))
    if width > WIDEST:
        return False
    return any(len(one) == width and other[:1] not in _STARTS and other[:2] != "  " for one, other in pairwise(lines))


# --- inputs of a command line ---
# Inputs named on the command line, as texts and protos: files, directories of dumps, globs, standard input.


_HEADER_NAME = re.compile(r"[ \t\n]*HloModule[ \t]+([^\s,]+)")
_LOOKS_LIKE_HLO = re.compile(r"^[ \t]*(?:HloModule|ENTRY) ", re.MULTILINE)
_SHAPE = re.compile(r"\(?[a-z]\w*\[[\d,<=]*\](?:\Z|[{,)])")
LONGEST_PATTERN = 1000  # characters; the time to expand a pattern grows with their square
_NUMBERED = re.compile(r"(.+)#([1-9]\d*)")  # `file#2` is the second module of a file with several


@dataclass(frozen=True, slots=True)
class Input:
    """One module's text and origin; of a proto, its bytes. `program` is its name in a trace, such as `jit_f(8)`.

    `choice` is the rank of the selected stage among several, `module_choice` a note on the selected module, `remark` a
    note on dumps that are not read; `siblings` are the files that XLA wrote about this dump, kind to path.
    `options` are the bytes of the `CompileOptionsProto` in an executable.
    """

    source: Source
    path: str | None
    module: str | None = None
    dump: DumpName | None = None
    siblings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    choice: str | None = None
    module_choice: str | None = None
    remark: str | None = None
    argument: str = ""
    proto: bytes | None = None
    program: str | None = None
    options: bytes | None = None

    @property
    def size(self) -> int:
        """The length of the text or of the proto."""
        return len(self.source.text) if self.proto is None else len(self.proto)

    @property
    def looks_like_hlo(self) -> bool:
        """Whether the content is a module, for files not named as dumps."""
        text = self.source.text
        if self.proto is not None or _LOOKS_LIKE_HLO.search(text) is not None:
            return True
        from hlo_cli.inputs.stablehlo import is_stablehlo  # most files are named as dumps

        return is_stablehlo(text)

    @property
    def stage(self) -> str | None:
        """The stage of compilation from the file's name: `after_optimizations`, or a pass."""
        return self.dump.stage if self.dump else None

    @property
    def target(self) -> str | None:
        """The target that the module was compiled for, if the file's name has it: `cpu`, `sm_8.0_gpu`."""
        return self.dump.target if self.dump else None

    @property
    def stages(self) -> tuple[str, ...]:
        """Names that select the stage."""
        return self.dump.aliases if self.dump else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names that select the module: its name, those with XLA's number, and that of its program in a trace."""
        numbered = (self.dump.label, self.dump.id) if self.dump else ()
        return tuple(name for name in (self.module, *numbered, self.program) if name)

    @property
    def stage_note(self) -> str:
        """The note on the stage that was selected among several; empty if the module has only one."""
        return f"using stage {self.stage}, {self.choice}" if self.choice else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for standard error on the stage and the module that were selected, and on dumps that were not read."""
        return tuple(note for note in (self.module_choice, self.stage_note, self.remark) if note)


@dataclass(frozen=True, slots=True)
class _Request:
    stage: str | None
    module: str | None
    stdin: BinaryIO | None
    maximum_bytes: int


def read_inputs(
    arguments: Sequence[str],
    *,
    stage: str | None = None,
    module: str | None = None,
    stdin: BinaryIO | None = None,
    maximum_bytes: int = MAXIMUM_BYTES,
) -> tuple[Input, ...]:
    """The modules that the arguments name; no argument means standard input.

    >>> import io
    >>> [input] = read_inputs(["-"], stdin=io.BytesIO(b"HloModule jit_f\\n\\nENTRY e {\\n}\\n"))
    >>> input.source.name, input.module
    ('<stdin>', 'jit_f')
    """
    request = _Request(stage, module, stdin, maximum_bytes)
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once")
    named = skip_auxiliary(arguments) if arguments else ["-"]
    candidates = [candidate for argument in named for candidate in _inputs_of(argument, request)]
    place = _place(named[0]) if len(named) == 1 else f"these {len(named)} inputs"
    if stage is not None:
        candidates = _of_stage(candidates, stage, place)
    if module is not None:
        candidates = _of_module(candidates, module, place)
    return tuple(candidates)


def select_module(inputs: Sequence[Input]) -> Input:
    """The largest of several modules, with a note on the choice; the first among equals.

    >>> small, large = (Input(Source(f"d/{n}.txt", "x" * n), None, module=f"jit_{n}", argument="d/") for n in (1, 2))
    >>> select_module([small, large]).module_choice
    'using jit_2, the largest of 2 modules in d/; use --module to select another'
    """
    if not inputs:
        raise HloError("no modules found")
    largest = max(inputs, key=lambda candidate: candidate.size)
    if len(inputs) == 1:
        return largest
    name, places = largest.module or largest.source.name, {_place(candidate.argument) for candidate in inputs}
    place = f" in {places.pop()}" if len(places) == 1 else ""
    note = f"using {name}, the largest of {len(inputs)} modules{place}; use --module to select another"
    return replace(largest, module_choice=note)


def notes_on_stages(notes: Sequence[tuple[str | None, str]]) -> Iterator[str]:
    """The notes on the selected stages of several modules, each a stage and its note: one a stage.

    >>> list(notes_on_stages([("optimized", "using stage optimized, the latest of 2 in d/")] * 32))
    ['32 modules, each at its latest stage, optimized']
    """
    by_stage: dict[str | None, list[str]] = {}
    for stage, note in notes:
        if note:
            by_stage.setdefault(stage, []).append(note)
    for stage, same in by_stage.items():
        yield same[0] if len(same) == 1 else f"{len(same):,} modules, each at its latest stage, {stage}"


def _inputs_of(argument: str, request: _Request) -> Iterator[Input]:
    if argument == "-":
        return _modules(STDIN, None, read_stdin(request.stdin, maximum_bytes=request.maximum_bytes), argument, request)
    numbered = _NUMBERED.fullmatch(argument)
    if numbered and is_remote(argument):  # the part of a URL after # is never sent to a server
        return _of_numbered(argument, numbered[1], request)
    if is_folder(argument):
        return _of_directory(argument, request)
    if exists(argument):
        return _of_file(argument, argument, request)
    if (paths := glob_paths(argument)) is not None:
        return _of_glob(paths, argument, request)
    if numbered and is_file(numbered[1]):
        return _of_numbered(argument, numbered[1], request)
    raise missing(argument)


def _of_file(path: str, argument: str, request: _Request) -> Iterator[Input]:
    return _modules(path, path, read_file(path, maximum_bytes=request.maximum_bytes), argument, request)


def _of_numbered(argument: str, path: str, request: _Request) -> Iterator[Input]:
    content = read_file(path, maximum_bytes=request.maximum_bytes)
    listed = list(_modules(path, path, content, argument, request, every_stage=True))
    if not any(candidate.source.name == argument for candidate in listed):
        count = "1 module" if len(listed) == 1 else f"{len(listed)} modules"
        raise HloError(f"module '{argument}' not found: {path} contains {count}")
    yield from (candidate for candidate in listed if candidate.source.name == argument)


def glob_paths(pattern: str) -> list[str] | None:
    """The paths that a glob matches, HloError if there are none; None if the argument is not a glob.

    >>> glob_paths("a/b.txt")
    """
    import glob  # most arguments are existing files
    from shlex import quote

    if len(pattern) > LONGEST_PATTERN or not glob.has_magic(pattern):
        return None
    elsewhere = paths_matching(pattern)
    paths = sorted(glob.glob(pattern, recursive=True)) if elsewhere is None else list(elsewhere)
    if not paths:
        hint = f"to explain a shape, run `hlo layout {quote(pattern)}`" if _SHAPE.match(pattern) else None
        raise HloError(f"no files match '{pattern}'", hint=hint)
    # of a pipe that has a dump's name, nothing may ever come; a link that leads nowhere is an error when it is read
    readable = (path for path in paths if os.path.isfile(path) or os.path.isdir(path) or _is_broken(path))
    return skip_auxiliary(list(readable) if elsewhere is None else paths)


def _is_broken(path: str) -> bool:
    return not os.path.exists(path)


def _of_glob(paths: Sequence[str], pattern: str, request: _Request) -> Iterator[Input]:
    for path in paths:
        yield from _of_directory(path, request) if is_folder(path) else _of_file(path, pattern, request)


def _of_directory(folder: str, request: _Request) -> Iterator[Input]:
    """The modules of a directory or, if it has no dumps, those of its subdirectories and of files that hold HLO."""
    count, skipped = 0, list[DumpName]()
    for directory in walk_directories(folder):
        if directory.is_unreadable:
            read_directory(directory.path)  # raises its error
        selected, others = select_dumps(directory, request.stage, request.module)
        skipped += others
        remark = directory.remark
        for path, choice in selected:
            for candidate in _of_file(path, folder, request):
                count += 1
                yield replace(candidate, choice=choice, remark=remark)
                remark = None
        for candidate in () if directory.dumps else _of_loose_files(directory, folder, request):
            count += 1
            yield candidate
    if not count:
        raise (
            not_selected_error(skipped, request.stage, request.module, _place(folder))
            if skipped
            else (no_dumps_error(folder))
        )


def _of_loose_files(directory: Directory, argument: str, request: _Request) -> Iterator[Input]:
    """The files of a directory that are not named as dumps but hold HLO."""
    for name in directory.others:
        with suppress(HloError):
            candidates = list(_of_file(os.path.join(directory.path, name), argument, request))
            yield from (candidate for candidate in candidates if candidate.looks_like_hlo)


def _modules(
    name: str, path: str | None, content: str | bytes, argument: str, request: _Request, *, every_stage: bool = False
) -> Iterator[Input]:
    """The modules of one text, or that of a proto; one stage of a module that XLA printed at several."""
    siblings = siblings_of(*os.path.split(path)) if path else MappingProxyType({})
    own = parse_dump_name(os.path.basename(path)) if path else None
    if isinstance(content, bytes):
        from hlo_cli.inputs.executables import is_trace, modules_in_executable, modules_in_trace

        if is_trace(content):
            yield from _traced(name, path, modules_in_trace(content, name), argument, siblings)
            return

        if (converted := _artifact(name, content)) is not None:
            text, remark = converted
            module = _name_in(text)
            yield Input(Source(name, text), path, module, own, siblings, remark=remark, argument=argument)
            return
        if stored := modules_in_executable(content, name, limit=request.maximum_bytes):
            yield from _stored(name, path, stored, argument, request, every_stage=every_stage)
            return
        from hlo_cli.inputs.pasted.binary_messages import message_text
        from hlo_cli.inputs.pasted.envelopes import PastedTextError
        from hlo_cli.inputs.pasted.unwrapping import recognized_bytes

        if (pasted := message_text(content, name) or recognized_bytes(content, name)) is not None:
            raise PastedTextError(pasted)
        module = own.module if own else None
        yield Input(Source(name, ""), path, module, own, siblings, argument=argument, proto=content)
        return
    modules = _modules_in_text(content, name)
    dumps = [parse_dump_name(module.file_name) if module.file_name else None for module in modules]
    marked = [dump for dump in dumps if dump is not None]
    kept: list[tuple[int, str | None]] = [(index, None) for index in range(len(modules))]
    if len(marked) == len(modules) and not every_stage:
        kept = select_stages(marked, request.stage, name)
    for index, choice in kept:
        dump = dumps[index] or own
        text = modules[index].text
        yield Input(
            Source(name if len(modules) == 1 else f"{name}#{index + 1}", text, modules[index].first_line),
            path,
            module=(dump.module if dump else None) or _name_in(text),
            dump=dump,
            siblings=siblings,
            choice=choice,
            remark=modules[index].remark,
            argument=argument,
        )


def _artifact(name: str, content: bytes) -> tuple[str, str] | None:
    """The StableHLO of a serialized program, and a note on it; None for other bytes."""
    if content.startswith(b"\n"):  # field 1 of a proto, and no offset of a FlatBuffer, which are multiples of 4
        return None
    from hlo_cli.inputs.stablehlo import artifact_in, text_of  # rarely needed

    artifact = artifact_in(content)
    if artifact is None:
        return None
    try:
        return text_of(artifact)
    except HloError as error:
        from hlo_cli.inputs.pasted.envelopes import PastedText, PastedTextError

        message = f"{name} is an exported program that cannot be read: {error.diagnostic.message}"
        raise PastedTextError(PastedText("exported", name, "", data=content), message) from error


def _name_in(text: str) -> str | None:
    """The name of the module in a text; None if it has none."""
    header = _HEADER_NAME.match(text)
    if header is not None:
        return header[1]
    from hlo_cli.inputs.stablehlo import stablehlo_name  # most texts are dumps

    return stablehlo_name(text)


def _traced(
    name: str,
    path: str | None,
    programs: Sequence[tuple[str, bytes, str]],
    argument: str,
    siblings: Mapping[str, str],
) -> Iterator[Input]:
    """The programs in a profiler's trace, as protos."""
    for number, (module, proto, program) in enumerate(programs, 1):
        source = Source(name if len(programs) == 1 else f"{name}#{number}", "")
        yield Input(source, path, module, None, siblings, None, None, None, argument, proto, program)


def _stored(
    name: str,
    path: str | None,
    stored: Sequence[StoredModule],
    argument: str,
    request: _Request,
    *,
    every_stage: bool,
) -> Iterator[Input]:
    """The module in an executable at the requested stage, by default as it runs."""
    dumps = [stage_named(module.name, module.target, module.stage) for module in stored]
    kept: list[tuple[int, str | None]] = [(index, None) for index in range(len(stored))]
    if not every_stage:
        kept = select_stages(dumps, request.stage, name)
    for index, choice in kept:
        source = Source(name if len(stored) == 1 else f"{name}#{index + 1}", "")
        module = stored[index]
        made = Input(source, path, module.name, dumps[index], choice=choice, argument=argument, proto=module.proto)
        yield replace(made, options=module.options)


def _of_stage(inputs: Sequence[Input], stage: str, place: str) -> list[Input]:
    """The inputs of a stage, and those already selected by it in directories or streams; HloError if there are none."""
    kept = set(matching_stages(stage, [candidate.stages for candidate in inputs]))
    kept |= {
        i
        for i, candidate in enumerate(inputs)
        if candidate.stage and (candidate.path is None or is_folder(candidate.argument))
    }
    if not kept:
        raise not_found_error("stage", stage, [candidate.stage for candidate in inputs], place)
    return [inputs[i] for i in sorted(kept)]


def _of_module(inputs: Sequence[Input], module: str, place: str) -> list[Input]:
    kept = matching_stages(module, [candidate.names for candidate in inputs])
    if not kept:
        raise not_found_error("module", module, [candidate.module for candidate in inputs], place)
    return [inputs[i] for i in kept]


def _place(argument: str) -> str:
    if argument == "-":
        return STDIN
    return argument.rstrip("/") + "/" if is_folder(argument) else argument


# --- all modules, one by one ---
# Every module that the user names, in any number of files: the files are listed first and read one by one.


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A file to read modules from; `stage` and `module` select among several in it.

    With `is_guess`, the file may hold no HLO and is then skipped; `choice` is the rank of the selected stage in its
    directory, and `remark` is a note on dumps in it that are not read.
    """

    path: str
    stage: str | None = None
    module: str | None = None
    choice: str | None = None
    is_guess: bool = False
    remark: str | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it counts as a module before it is read: it is not a guess, and no module is selected in it.

        >>> ModuleRef("a.txt").is_certain, ModuleRef("a.txt", module="jit_step").is_certain
        (True, False)
        """
        return not self.is_guess and self.module is None


def list_modules(
    arguments: Sequence[str], *, stage: str | None = None, module: str | None = None
) -> Iterator[ModuleRef]:
    """The files that the arguments name: of a directory with dumps, the latest stage of each module.

    A directory without dumps stands for all of its subdirectories, each a directory of dumps of its own.

    No argument means standard input. HloError if a directory holds no dumps, or if no file name has the requested
    stage or module.

    >>> [piece.path for piece in list_modules(["a.txt", "a-buffer-assignment.txt", "-"])]
    ['a.txt', '-']
    """
    if list(arguments).count("-") > 1:
        raise HloError("cannot read stdin more than once")
    skipped: list[DumpName] = []
    count = 0
    for argument in skip_auxiliary(arguments) if arguments else ["-"]:
        for piece in _in_argument(argument, stage, module, skipped):
            count += 1
            yield piece
    if not count and skipped:
        raise not_selected_error(skipped, stage, module, " ".join(arguments))


def read_module_ref(piece: ModuleRef) -> tuple[Input, ...]:
    """The modules in a file, none if it was a wrong guess; HloError if it cannot be read.

    >>> read_module_ref(ModuleRef("/no/such/file.txt", is_guess=True))
    ()
    """
    try:
        candidates = read_inputs([piece.path], stage=piece.stage)
    except HloError:
        if piece.is_guess:  # any other file of a folder: without HLO, it is no error
            return ()
        raise
    if piece.is_guess:
        candidates = tuple(candidate for candidate in candidates if candidate.looks_like_hlo)
    if piece.module is not None:
        candidates = tuple(
            candidates[i] for i in matching_stages(piece.module, [candidate.names for candidate in candidates])
        )
    if piece.choice is not None:
        candidates = tuple(replace(candidate, choice=piece.choice) for candidate in candidates)
    return (replace(candidates[0], remark=piece.remark), *candidates[1:]) if candidates and piece.remark else candidates


def _in_argument(argument: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterator[ModuleRef]:
    if is_folder(argument):
        candidates = list(_in_folder(argument, stage, module, skipped))
        if not candidates and not skipped:
            raise no_dumps_error(argument)
        yield from candidates
    elif not exists(argument) and (paths := glob_paths(argument)) is not None:
        for path in paths:
            yield from (
                _in_folder(path, stage, module, skipped) if is_folder(path) else _file(path, stage, module, skipped)
            )
    else:
        yield from _file(argument, stage, module, skipped)


def _file(path: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterable[ModuleRef]:
    """A file given as an argument, unless its name has another stage or module."""
    dump = parse_dump_name(os.path.basename(path))
    if dump is None:
        return [ModuleRef(path, stage, module)]
    if stage is not None and not matching_stages(stage, [dump.aliases]):
        skipped.append(dump)
        return []
    if module is not None and dump.label and not matching_stages(module, [dump.names]):
        skipped.append(dump)
        return []
    return [ModuleRef(path, module=None if dump.label else module)]


def _in_folder(folder: str, stage: str | None, module: str | None, skipped: list[DumpName]) -> Iterator[ModuleRef]:
    """The dumps of a directory; if it has none, its other files and the dumps of its subdirectories."""
    for directory in walk_directories(folder):
        if directory.is_unreadable:
            yield ModuleRef(directory.path)  # an error when it is read
            continue
        if not directory.dumps:
            paths = (os.path.join(directory.path, name) for name in directory.others)
            yield from (ModuleRef(path, stage, module, is_guess=True) for path in paths)
        selected, others = select_dumps(directory, stage, module)
        skipped += others
        within = None if names_modules(directory) else module
        for number, (path, choice) in enumerate(selected):
            yield ModuleRef(path, module=within, choice=choice, remark=None if number else directory.remark)


# --- modules in memory ---
# A module that a Python program already has in memory: a text, or the bytes of a proto or of a file.


_NAME: Final = "this text"
"""What errors call the content, which has no path."""


def read_content(content: str | bytes, *, stage: str | None = None, module: str | None = None) -> Input:
    """The module in a text or in bytes, which may be compressed; the largest of several, if `module` selects none.

    HloError, which says what the content is instead, if it has no HLO.

    >>> read_content("HloModule m\\n\\nENTRY e { ROOT p = f32[2] parameter(0) }\\n").module
    'm'
    >>> read_content("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: this text is a jaxpr, not a module
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    try:
        chosen = select_module(read_inputs(["-"], stage=stage, module=module, stdin=io.BytesIO(data)))
    except HloError as error:
        named = (
            replace(diagnostic, message=diagnostic.message.replace(STDIN, _NAME)) for diagnostic in error.diagnostics
        )
        raise HloError.of(named) from None
    source = chosen.source
    name = source.name.removeprefix(STDIN)
    return replace(chosen, source=Source(name, source.text, source.first_line))


# --- files of the compiler ---
# Texts that are not modules: the files that XLA wrote about a dump's memory, and pasted error messages.


def read_sibling(dump: Input, kind: SiblingKind, *, maximum_bytes: int = MAXIMUM_BYTES) -> Source | None:
    """The text of a file that XLA wrote about this dump, read now; None if there is no such file.

    >>> read_sibling(Input(Source("m.txt", "HloModule m"), None), "live-range") is None
    True
    """
    path = dump.siblings.get(kind)
    return None if path is None else read_plain(path, maximum_bytes=maximum_bytes)


def read_plain(path: str, *, stdin: BinaryIO | None = None, maximum_bytes: int = MAXIMUM_BYTES) -> Source:
    """A text of any kind, decompressed; `-` is standard input, or the stream given in its place.

    >>> import io
    >>> read_plain("-", stdin=io.BytesIO(b"Out of memory allocating 64 bytes.\\r\\n")).text
    'Out of memory allocating 64 bytes.\\n'
    """
    name = STDIN if path == "-" else path
    try:
        data = _bytes_of(path, stdin, maximum_bytes)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None
    data = decompress(data, name, maximum_bytes=maximum_bytes)
    if b"\0" in data:
        raise HloError(f"{name} is a binary file, not text")
    text = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n")
    if not text.strip():
        raise HloError(f"{name} is empty")
    return Source(name, text)


def _bytes_of(path: str, stdin: BinaryIO | None, maximum_bytes: int) -> bytes:
    """The bytes of standard input or of a file, bounded; of a pipe at most `maximum_bytes`."""
    if path == "-":
        return read_bounded(sys.stdin.buffer if stdin is None else stdin, STDIN, maximum_bytes)
    with open_bounded(path, stream_bytes=maximum_bytes) as file:
        return file.read()


# --- files with the target ---
# The files with the compiler's target next to a dump.


_KINDS: Final = ("target_arguments.txt", "gpu_target_config.pbtxt")
_MAX_BYTES: Final = 1 << 20  # XLA writes some KB; what else has such a name is not worth reading


def target_texts(dump: Input) -> Iterator[str]:
    """The texts of the files with the target, which begin like the dump's file; none for what is not from a directory.

    Mirrors `target_arguments.txt` of libtpu, and `gpu_target_config.pbtxt` of xla/service/dump.cc.

    >>> from hlo_cli import parse_module
    >>> list(target_texts(Input(parse_module("ROOT r = f32[2] negate(f32[2] a)").source, None)))
    []
    """
    return (text for kind in _KINDS if (text := text_beside(dump, kind)) is not None)


def text_beside(dump: Input, kind: str) -> str | None:
    """The text of a file about the same compilation, which begins like the dump's file; None if there is none.

    `kind` is the end of its name, such as `debug_options`.
    """
    if dump.path is None or dump.dump is None:
        return None
    folder, name = os.path.split(dump.path)
    stage = f"{dump.target}_{dump.stage}" if dump.target else dump.dump.stage
    before, start_of_stage, _ = name.partition(stage)
    path = present_file(os.path.join(folder, before + kind)) if start_of_stage else None
    if path is None:
        return None
    with suppress(HloError):
        return read_plain(path, maximum_bytes=_MAX_BYTES).text
    return None
