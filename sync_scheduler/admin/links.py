"""Links: the choices above a list, each with its count where one is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict

from django.utils.functional import Promise


class Link(TypedDict):
    """`count` is empty where none is known."""

    title: str | Promise
    url: str
    count: str
    is_current: bool


def choices(
    titles: Mapping[str, str | Promise],
    current: str,
    url_of: Callable[[str], str],
    counts: Mapping[str, str] | None = None,
) -> list[Link]:
    """One link for each key; the current one is marked."""
    return [
        Link(
            title=title,
            url=url_of(key),
            count=(counts or {}).get(key, ""),
            is_current=key == current,
        )
        for key, title in titles.items()
    ]
