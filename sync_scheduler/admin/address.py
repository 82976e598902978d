"""Address: what the query of a page says, and the query of the same page with something changed.

Whatever somebody wrote there: what cannot be read is left out, never an error.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

# A whole number of more digits is no row's id in any database.
_DIGITS = 18


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def identifier(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def instant(text: str) -> dt.datetime | None:
    """An ISO time; one without a zone is in UTC. A plus sign may have become a space."""
    try:
        found = dt.datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def query(given: Mapping[str, Any]) -> str:
    """`?name=value…`, without what is empty."""
    return "?" + urlencode({name: str(value) for name, value in given.items() if value})
