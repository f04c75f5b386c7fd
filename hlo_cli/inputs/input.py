"""Inputs named on the command line, as texts and protos: files, directories of dumps, globs, standard input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from types import MappingProxyType
from typing import BinaryIO

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.compression import MAXIMUM_BYTES
from hlo_cli.inputs.directory import (
    Directory,
    no_dumps_error,
    not_selected_error,
    read_directory,
    select_dumps,
    walk_directories,
)
from hlo_cli.inputs.dumps import (
    DumpName,
    matching_stages,
    not_found_error,
    parse_dump_name,
    select_stages,
    siblings_of,
    skip_auxiliary,
)
from hlo_cli.inputs.files import STDIN, missing, read_file, read_stdin, url_error
from hlo_cli.inputs.texts import modules_in_text
from hlo_cli.source import HloError, Source

_HEADER_NAME = re.compile(r"[ \t\n]*HloModule[ \t]+([^\s,]+)")
_LOOKS_LIKE_HLO = re.compile(r"^[ \t]*(?:HloModule|ENTRY) ", re.MULTILINE)
_SHAPE = re.compile(r"\(?[a-z]\w*\[[\d,<=]*\](?:\Z|[{,)])")
LONGEST_PATTERN = 1000  # characters; the time to expand a pattern grows with their square
_NUMBERED = re.compile(r"(.+)#([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Input:
    """One module's text and origin; of a proto, its bytes. `program` is its name in a trace, such as `jit_f(8)`.

    `choice` is the rank of the selected stage among several, `module_choice` a note on the selected module, `remark` a
    note on dumps that are not read; `siblings` are the files that XLA wrote about this dump, kind to path.
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

    @property
    def size(self) -> int:
        """The length of the text or of the proto."""
        return len(self.source.text) if self.proto is None else len(self.proto)

    @property
    def looks_like_hlo(self) -> bool:
        """Whether the content is a module, for files not named as dumps."""
        return self.proto is not None or _LOOKS_LIKE_HLO.search(self.source.text) is not None

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
        """Names that select the module: its name, that with XLA's number, and that of its program in a trace."""
        return tuple(name for name in (self.module, self.dump.label if self.dump else None, self.program) if name)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for standard error on the stage and the module that were selected, and on dumps that were not read."""
        stage = f"using stage {self.stage}, {self.choice}" if self.choice else None
        return tuple(note for note in (self.module_choice, stage, self.remark) if note)


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
    found = [each for argument in named for each in _inputs_of(argument, request)]
    place = _place(named[0]) if len(named) == 1 else f"these {len(named)} inputs"
    if stage is not None:
        found = _of_stage(found, stage, place)
    if module is not None:
        found = _of_module(found, module, place)
    return tuple(found)


def select_module(inputs: Sequence[Input]) -> Input:
    """The largest of several modules, with a note on the choice; the first among equals.

    >>> small, large = (Input(Source(f"d/{n}.txt", "x" * n), None, module=f"jit_{n}", argument="d/") for n in (1, 2))
    >>> select_module([small, large]).module_choice
    'using jit_2, the largest of 2 modules in d/; use --module to select another'
    """
    if not inputs:
        raise HloError("no modules found")
    largest = max(inputs, key=lambda each: each.size)
    if len(inputs) == 1:
        return largest
    name, places = largest.module or largest.source.name, {_place(each.argument) for each in inputs}
    place = f" in {places.pop()}" if len(places) == 1 else ""
    note = f"using {name}, the largest of {len(inputs)} modules{place}; use --module to select another"
    return replace(largest, module_choice=note)


def _inputs_of(argument: str, request: _Request) -> Iterator[Input]:
    if argument == "-":
        return _modules(STDIN, None, read_stdin(request.stdin, maximum_bytes=request.maximum_bytes), argument, request)
    if os.path.isdir(argument):
        return _of_directory(argument, request)
    if os.path.lexists(argument):
        return _of_file(argument, argument, request)
    if (paths := glob_paths(argument)) is not None:
        return _of_glob(paths, argument, request)
    if (numbered := _NUMBERED.fullmatch(argument)) and os.path.isfile(numbered[1]):
        return _of_numbered(argument, numbered[1], request)
    raise missing(argument)


def _of_file(path: str, argument: str, request: _Request) -> Iterator[Input]:
    return _modules(path, path, read_file(path, maximum_bytes=request.maximum_bytes), argument, request)


def _of_numbered(argument: str, path: str, request: _Request) -> Iterator[Input]:
    content = read_file(path, maximum_bytes=request.maximum_bytes)
    listed = list(_modules(path, path, content, argument, request, every_stage=True))
    if not any(each.source.name == argument for each in listed):
        count = "1 module" if len(listed) == 1 else f"{len(listed)} modules"
        raise HloError(f"module '{argument}' not found: {path} contains {count}")
    yield from (each for each in listed if each.source.name == argument)


def glob_paths(pattern: str) -> list[str] | None:
    """The paths that a glob matches, HloError if there are none; None if the argument is not a glob.

    >>> glob_paths("a/b.txt")
    """
    import glob  # most arguments are existing files
    from shlex import quote

    if len(pattern) > LONGEST_PATTERN or not glob.has_magic(pattern):
        return None
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths and (error := url_error(pattern)) is not None:
        raise error
    if not paths:
        hint = f"to explain a shape, run `hlo layout {quote(pattern)}`" if _SHAPE.match(pattern) else None
        raise HloError(f"no files match '{pattern}'", hint=hint)
    # of a pipe that has a dump's name, nothing may ever come; a link that leads nowhere is an error when it is read
    return skip_auxiliary([path for path in paths if os.path.isfile(path) or os.path.isdir(path) or _is_broken(path)])


def _is_broken(path: str) -> bool:
    return not os.path.exists(path)


def _of_glob(paths: Sequence[str], pattern: str, request: _Request) -> Iterator[Input]:
    for path in paths:
        yield from _of_directory(path, request) if os.path.isdir(path) else _of_file(path, pattern, request)


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
            for each in _of_file(path, folder, request):
                count += 1
                yield replace(each, choice=choice, remark=remark)
                remark = None
        for each in () if directory.dumps else _of_loose_files(directory, folder, request):
            count += 1
            yield each
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
            found = list(_of_file(os.path.join(directory.path, name), argument, request))
            yield from (each for each in found if each.looks_like_hlo)


def _modules(
    name: str, path: str | None, content: str | bytes, argument: str, request: _Request, *, every_stage: bool = False
) -> Iterator[Input]:
    """The modules of one text, or that of a proto; one stage of a module that XLA printed at several."""
    siblings = siblings_of(*os.path.split(path)) if path else MappingProxyType({})
    own = parse_dump_name(os.path.basename(path)) if path else None
    if isinstance(content, bytes):
        from hlo_cli.inputs.xplane import is_trace, modules_in

        if is_trace(content):
            yield from _traced(name, path, modules_in(content, name), argument, siblings)
            return
        module = own.module if own else None
        yield Input(Source(name, ""), path, module, own, siblings, argument=argument, proto=content)
        return
    found = modules_in_text(content, name)
    dumps = [parse_dump_name(each.file_name) if each.file_name else None for each in found]
    marked = [dump for dump in dumps if dump is not None]
    kept: list[tuple[int, str | None]] = [(index, None) for index in range(len(found))]
    if len(marked) == len(found) and not every_stage:
        kept = select_stages(marked, request.stage, name)
    for index, choice in kept:
        dump = dumps[index] or own
        header = _HEADER_NAME.match(found[index].text)
        yield Input(
            Source(name if len(found) == 1 else f"{name}#{index + 1}", found[index].text, found[index].first_line),
            path,
            module=(dump.module if dump else None) or (header[1] if header else None),
            dump=dump,
            siblings=siblings,
            choice=choice,
            remark=found[index].remark,
            argument=argument,
        )


def _traced(
    name: str, path: str | None, found: Sequence[tuple[str, bytes, str]], argument: str, siblings: Mapping[str, str]
) -> Iterator[Input]:
    """The programs in a profiler's trace, as protos."""
    for number, (module, proto, program) in enumerate(found, 1):
        source = Source(name if len(found) == 1 else f"{name}#{number}", "")
        yield Input(source, path, module, None, siblings, None, None, None, argument, proto, program)


def _of_stage(inputs: Sequence[Input], stage: str, place: str) -> list[Input]:
    """The inputs of a stage, and those already selected by it in directories or streams; HloError if there are none."""
    kept = set(matching_stages(stage, [each.stages for each in inputs]))
    kept |= {i for i, each in enumerate(inputs) if each.stage and (each.path is None or os.path.isdir(each.argument))}
    if not kept:
        raise not_found_error("stage", stage, [each.stage for each in inputs], place)
    return [inputs[i] for i in sorted(kept)]


def _of_module(inputs: Sequence[Input], module: str, place: str) -> list[Input]:
    kept = matching_stages(module, [each.names for each in inputs])
    if not kept:
        raise not_found_error("module", module, [each.module for each in inputs], place)
    return [inputs[i] for i in kept]


def _place(argument: str) -> str:
    if argument == "-":
        return STDIN
    return argument.rstrip("/") + "/" if os.path.isdir(argument) else argument
