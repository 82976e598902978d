"""Every view of the scheduler in the admin, found by walking the addresses: none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

from django.contrib import admin
from django.urls import URLPattern, URLResolver, reverse

PREFIX = "sync_scheduler_"


def patterns() -> Iterator[URLPattern]:
    for part in admin.site.urls[0]:
        if isinstance(part, URLResolver):
            for pattern in part.url_patterns:
                if isinstance(pattern, URLPattern) and (pattern.name or "").startswith(PREFIX):
                    yield pattern


def addresses(rows: dict[str, object]) -> dict[str, str]:
    """Name: address. `rows`: of each model, the id of the row that the address is about."""
    found = {}
    for pattern in patterns():
        name = str(pattern.name).removeprefix(PREFIX)
        wanted = rows.get(name.split("_")[0], 1)
        given = dict.fromkeys(pattern.pattern.converters, wanted)
        found[name] = reverse(f"admin:{pattern.name}", kwargs=given)
    return found


class Targets(HTMLParser):
    """Where a page can lead or send to, and what of it could be run."""

    LEADING = frozenset({"href", "src", "action", "formaction", "data", "xlink:href", "srcset"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.handlers: list[str] = []
        self.scripts = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script" and "src" not in dict(attrs)
        for name, value in attrs:
            if name in self.LEADING:
                self.targets.append((value or "").strip())
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}={value}")
