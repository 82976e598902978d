"""An answer as JSON text: times in UTC, ids as text."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any


def render(answer: Any, *, indent: int | None = None) -> str:
    return json.dumps(answer, default=_plain, ensure_ascii=False, allow_nan=False, indent=indent)


def _plain(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")
