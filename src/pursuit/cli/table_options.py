"""The options of commands that read files, declared once: a command has a parameter for all of them."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints

from pursuit.cli.app import (
    Decimal,
    Drop,
    Encoding,
    Group,
    Kind,
    Missing,
    MissingInforms,
    Queries,
    QuestionsFile,
    TestShare,
    Time,
)

REPEATED = ("missing", "drop")
"""Options that may be given several times; none are an empty list."""


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the text of a file is read."""

    missing: Missing = None
    encoding: Encoding = None
    decimal: Decimal = None

    def reading(self) -> dict[str, Any]:
        """As the functions take them that read files, those of training by `load_task`."""
        from pursuit.tasks.tables import parse_kinds

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if "kind" in given:
            given["kinds"] = parse_kinds(given.pop("kind") or ())
        return {name: () if value is None and name in REPEATED else value for name, value in given.items()}


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(ReadingOptions):
    """Also which columns of the file are asked for, and as what."""

    drop: Drop = None
    kind: Kind = None


@dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions):
    """Also what training on the file needs to know."""

    missing_informs: MissingInforms = False
    group: Group = None
    time: Time = None
    queries: Queries = None
    questions: QuestionsFile = None
    test_share: TestShare = None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of a parameter that is a dataclass as options of its own, in its place."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            types = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
                for field in fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def spread_out(**given: Any) -> None:
        together = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **together)

    spread_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread_out
