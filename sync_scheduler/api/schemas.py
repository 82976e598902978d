"""JSON Schema of the answers, read off the types that they are built from."""

from __future__ import annotations

import datetime as dt
import types
import uuid
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    dt.datetime: {"type": "string", "format": "date-time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    Any: {},
}


def schema(kind: Any, components: dict[str, Schema]) -> Schema:
    """The schema of a type; typed dictionaries are put into `components` and referred to."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind):
        return _reference(kind, components)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema(parts[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1], components)}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema(part, components) for part in parts]}
    raise TypeError(f"{kind!r} has no schema")


def _reference(kind: Any, components: dict[str, Schema]) -> Schema:
    name: str = kind.__name__
    if name not in components:
        components[name] = {}  # a type that contains itself ends here
        hints = get_type_hints(kind)
        components[name] = {
            "type": "object",
            "properties": {field: schema(hint, components) for field, hint in hints.items()},
            "required": sorted(kind.__required_keys__),
            "additionalProperties": False,
        }
    return {"$ref": f"#/components/schemas/{name}"}
