"""Reader of `*.priority_fusion_dump.txt`, a `FusionProcessDumpProto` in protobuf's text format.

Mirrors xla/service/gpu/fusion_process_dump.proto. Fields that are not known are skipped.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess, FusionStep, IneligibleStep, PriorityStep
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.source import HloError, Source, Span, quoted_token
from hlo_cli.syntax.compiler_files.text_format import TOKEN, value_text, whole_number

_WHAT: Final = "a priority fusion dump, which has fusion_steps"
_STEPS: Final = "fusion_steps"
_DEVICE: Final = "gpu_device_info"
_MODULE: Final = "hlo_module_before_fusion"
_START = re.compile(r"\s*+(?:goo\.gle/debug\w*+)?")
_REST = re.compile(r"[\s,;]*+([^\s]{0,50})")


@no_garbage_collection()
def parse_fusion_process(source: Source) -> FusionProcess:
    """Parses a dump of priority fusion; HloError, with the place, for text that is none.

    >>> text = 'fusion_steps {\\n  producer_ineligible {\\n    producer_name: "a"\\n    reason: "why"\\n  }\\n}\\n'
    >>> parse_fusion_process(Source("d.txt", text)).steps
    (IneligibleStep(producer='a', reason='why'),)
    """
    return _Reader(source).read()


@dataclass(slots=True)
class _Reader:
    """Reads one text from its begin to its end; `path` are the names of the open messages."""

    source: Source
    path: list[str] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)
    device: dict[str, str] = field(default_factory=dict)
    steps: list[FusionStep] = field(default_factory=list)
    module_text: str = ""
    has_known: bool = False

    def read(self) -> FusionProcess:
        """The whole dump."""
        text = self.source.text
        start = _START.match(text)
        at = start.end() if start is not None else 0
        while True:
            match = TOKEN.match(text, at)
            if match is None:
                if self.has_known and self._is_at_end(at):
                    break
                raise self._error(at)
            name, value, opening, closing, end = match.groups()
            if end is not None:
                break
            if opening is not None:
                self._open(name)
            elif closing is not None:
                if not self.path:
                    raise self._error(match.start(4))
                self._close(match.start(4))
            else:
                self._set(name, value)
            at = match.end()
        if not self.has_known:
            raise HloError(f"expected {_WHAT}", Span(0, min(len(text), 1)), source=self.source)
        return FusionProcess(
            tuple(self.steps),
            value_text(self.device.get("name", '""')),
            self._figure("memory_bandwidth"),
            self._figure("core_count"),
            self.module_text,
            is_truncated=bool(self.path) or match is None,
        )

    def _figure(self, name: str) -> int:
        """A whole number about the device, 0 if it is not known."""
        return whole_number(self.device.get(name, ""))

    def _open(self, name: str) -> None:
        self.path.append(name)
        if len(self.path) == 1:
            self.has_known |= name in (_STEPS, _DEVICE)
        elif len(self.path) == 2:
            self.fields = {}

    def _close(self, at: int) -> None:
        if len(self.path) == 2 and self.path[0] == _STEPS and (step := self._step(self.path[1], at)) is not None:
            self.steps.append(step)
        self.path.pop()

    def _set(self, name: str, value: str) -> None:
        if not self.path:
            if name == _MODULE:
                self.has_known = True
                self.module_text = value_text(value)
        elif len(self.path) == 2:
            self.fields.setdefault(name, []).append(value)
        elif self.path == [_DEVICE]:
            self.device[name] = value

    def _step(self, kind: str, at: int) -> FusionStep | None:
        """The step in the fields that were read; None for a kind that is not known."""
        match kind:
            case "update_priority":
                consumers = tuple(value_text(value) for value in self.fields.get("consumer_names", ()))
                times = self._number("us_fused", at), self._number("us_unfused", at)
                return PriorityStep(self._name("producer_name"), consumers, *times)
            case "producer_ineligible":
                return IneligibleStep(self._name("producer_name"), self._name("reason"))
        if "fusion_name" not in self.fields:
            return None
        return FusedStep(self._name("fusion_name"), self._name("producer_name"), self._name("consumer_name"))

    def _name(self, name: str) -> str:
        values = self.fields.get(name)
        return value_text(values[-1]) if values else ""

    def _number(self, name: str, at: int) -> float:
        values = self.fields.get(name)
        if not values:
            return 0.0
        try:
            return float(values[-1])
        except ValueError:
            message = f"expected a number as {name}, found {quoted_token(values[-1][:50])}"
            raise HloError(message, Span(at, at + 1), source=self.source) from None

    def _is_at_end(self, at: int) -> bool:
        """Whether no line follows that at an offset, so that the text was cut there."""
        return "\n" not in self.source.text[at:].strip()

    def _error(self, at: int) -> HloError:
        rest = _REST.match(self.source.text, at)
        start, end = rest.span(1) if rest is not None else (at, at)
        token = quoted_token(self.source.text[start:end])
        expected = (
            f"expected a field in a priority fusion dump, found {token}" if self.has_known else f"expected {_WHAT}"
        )
        return HloError(expected, Span(start, max(end, start)), source=self.source)
