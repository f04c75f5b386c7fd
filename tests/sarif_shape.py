"""What SARIF 2.1.0 asks of a log, of the objects that are written here: their members, their values, how they agree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

LEVELS = ("none", "note", "warning", "error")
URI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#\[\]]|%[0-9A-F]{2})*")
RULE_ID = re.compile(r"HLO\d{3}")

Member = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def positive(value: Any) -> bool:
    return isinstance(value, float) and value >= 0


def uri(value: Any) -> bool:
    return text(value) and URI.fullmatch(value) is not None


def one_of(*values: str) -> Member:
    return lambda value: value in values


def some(name: str) -> Member:
    return lambda value: isinstance(value, list) and all(is_whole(each, name) for each in value)


def whole(name: str) -> Member:
    return lambda value: is_whole(value, name)


def texts(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(text, value.values()))


REQUIRED: Mapping[str, Mapping[str, Member]] = {
    "log": {"version": one_of("2.1.0"), "runs": some("run")},
    "run": {"tool": whole("tool")},
    "tool": {"driver": whole("driver")},
    "driver": {"name": text},
    "rule": {"id": text},
    "message": {"text": text},
    "invocation": {"executionSuccessful": flag},
    "notification": {"message": whole("message")},
    "result": {"message": whole("message")},
    "region": {"startLine": natural},
    "properties": {"group": natural},
}
OPTIONAL: Mapping[str, Mapping[str, Member]] = {
    "log": {"$schema": uri},
    "run": {
        "columnKind": one_of("utf16CodeUnits", "unicodeCodePoints"),
        "invocations": some("invocation"),
        "results": some("result"),
    },
    "driver": {"version": text, "rules": some("rule"), "informationUri": uri},
    "rule": {
        "name": text,
        "shortDescription": whole("message"),
        "fullDescription": whole("message"),
        "help": whole("message"),
        "helpUri": uri,
        "defaultConfiguration": whole("configuration"),
    },
    "configuration": {"level": one_of(*LEVELS)},
    "invocation": {"toolExecutionNotifications": some("notification")},
    "notification": {"level": one_of(*LEVELS), "locations": some("location")},
    "result": {
        "ruleId": text,
        "ruleIndex": index,
        "level": one_of(*LEVELS),
        "locations": some("location"),
        "partialFingerprints": texts,
        "properties": whole("properties"),
    },
    "properties": {"costBytes": index, "executions": lambda value: value is None or index(value), "seconds": positive},
    "location": {"physicalLocation": whole("physical"), "logicalLocations": some("logical")},
    "physical": {"artifactLocation": whole("artifact"), "region": whole("region")},
    "artifact": {"uri": uri},
    "region": {"startColumn": natural, "endLine": natural, "endColumn": natural},
    "logical": {"fullyQualifiedName": text, "kind": text},
}


def is_whole(value: Any, name: str) -> bool:
    """Whether an object has all that it must have, and nothing that SARIF does not know."""
    required = REQUIRED.get(name, {})
    known = {**OPTIONAL.get(name, {}), **required}
    if not isinstance(value, dict) or not set(required) <= set(value) <= set(known):
        raise AssertionError(f"{name}: {sorted(value)} are not the members of one")
    for member, each in value.items():
        assert known[member](each), f"{name}.{member}: {each!r}"
    return True


def checked(log: str) -> Any:
    """The only run of a log that is well formed: rules and results agree, places are places, fingerprints differ."""
    found = json.loads(log)
    is_whole(found, "log")
    [run] = found["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"].get("rules", ())]
    assert len(set(rules)) == len(rules)
    assert all(map(RULE_ID.fullmatch, rules))
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        for location in result["locations"]:
            region = location["physicalLocation"].get("region")
            if region is not None:
                start, end = ((region[f"{which}Line"], region[f"{which}Column"]) for which in ("start", "end"))
                assert start <= end
    prints = [(each["ruleId"], *each["partialFingerprints"].items()) for each in run["results"]]
    assert len(set(prints)) == len(prints)
    successful = [each["executionSuccessful"] for each in run["invocations"]]
    told = [each.get("toolExecutionNotifications", []) for each in run["invocations"]]
    assert successful == [not each for each in told]
    return run
