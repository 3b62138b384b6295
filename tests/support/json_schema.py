"""Checks JSON against the published schemas: all keywords that these use, and no others."""

import json
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
REMARKS = {"$schema", "$id", "$defs", "title", "description"}


def problems(value: Any, name: str) -> list[str]:
    """What is wrong with a value, by the schema of this name: a place and a reason each."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError:
        return _problems(json.loads(json.dumps(value)), schema, schema, "$")
    return [error.message for error in Draft202012Validator(schema).iter_errors(json.loads(json.dumps(value)))]


def _has_type(value: Any, name: str) -> bool:
    if name in ("number", "integer"):
        return isinstance(value, int if name == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def _problems(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> list[str]:
    found: list[str] = []
    for keyword, wanted in schema.items():
        match keyword:
            case "$ref":
                found += _problems(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, place)
            case "const":
                found += [] if value == wanted else [f"{place}: {value!r} is not {wanted!r}"]
            case "type":
                names = [wanted] if isinstance(wanted, str) else wanted
                found += [] if any(_has_type(value, one) for one in names) else [f"{place}: {value!r} is not {names}"]
            case "required":
                found += [f"{place}: no {key}" for key in wanted if isinstance(value, dict) and key not in value]
            case "properties":
                for key in set(wanted) & (set(value) if isinstance(value, dict) else set()):
                    found += _problems(value[key], wanted[key], root, f"{place}.{key}")
            case "additionalProperties":
                for key in set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else ():
                    if wanted is False:
                        found.append(f"{place}: {key} is not known")
                    else:
                        found += _problems(value[key], wanted, root, f"{place}.{key}")
            case "items":
                for i, item in enumerate(value if isinstance(value, list) else []):
                    found += _problems(item, wanted, root, f"{place}[{i}]")
            case "minimum":
                found += [f"{place}: {value} < {wanted}"] if _has_type(value, "number") and value < wanted else []
            case "maximum":
                found += [f"{place}: {value} > {wanted}"] if _has_type(value, "number") and value > wanted else []
            case "minItems" | "maxItems":
                is_wrong = len(value) < wanted if keyword == "minItems" else len(value) > wanted
                found += [f"{place}: {len(value)} items"] if isinstance(value, list) and is_wrong else []
            case _:
                assert keyword in REMARKS, f"the checker does not know {keyword}"
    return found
