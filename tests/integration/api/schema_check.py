"""As much of JSON Schema as the description of the interface uses, and no more."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "array": list,
    "object": dict,
}
KNOWN = {
    *("type", "format", "anyOf", "enum", "items", "$ref", "description"),
    *("properties", "required", "additionalProperties"),
}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str = "$") -> list[str]:
    """Where the value does not fit; raises for a schema that this cannot check."""
    unknown = set(schema) - KNOWN
    assert not unknown, f"{where}: the check does not know {unknown}"
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return faults(value, target, root, where)
    if "anyOf" in schema:
        tries = [faults(value, one, root, where) for one in schema["anyOf"]]
        return [] if any(not one for one in tries) else [f"{where}: fits none: {tries}"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{where}: {value!r} is not listed"]
    if "type" not in schema:
        return []
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        return [f"{where}: {value!r} is no {kind}"]
    return _format(value, schema, where) + _parts(value, schema, root, where)


def _format(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    try:
        if schema.get("format") == "date-time":
            at = dt.datetime.fromisoformat(value)
            return [] if at.utcoffset() == dt.timedelta() else [f"{where}: not in UTC"]
        if schema.get("format") == "uuid":
            uuid.UUID(value)
    except ValueError:
        return [f"{where}: {value!r} is no {schema['format']}"]
    return []


def _parts(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str) -> list[str]:
    found = []
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += faults(item, schema["items"], root, f"{where}[{number}]")
    if isinstance(value, dict):
        named = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        found += [
            f"{where}: {name} is missing" for name in set(schema.get("required", ())) - set(value)
        ]
        for name, item in value.items():
            if name in named:
                found += faults(item, named[name], root, f"{where}.{name}")
            elif others is False:
                found.append(f"{where}: {name} is not described")
            else:
                found += faults(item, others, root, f"{where}.{name}")
    return found
