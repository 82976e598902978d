"""How many runs of a job may start in a span of time."""

from __future__ import annotations

import dataclasses
import re

from sync_scheduler.errors import InvalidJob

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    count: int
    seconds: int

    @property
    def spacing_seconds(self) -> float:
        """The pause between two starts at which the limit is exactly used."""
        return self.seconds / self.count


def parse_rate(text: str) -> RateLimit:
    """`"100/m"`: a hundred a minute. Units are s, m, h and d."""
    match = re.fullmatch(r"(\d+)\s*/\s*([smhd])", text.strip())
    if match is None or int(match[1]) == 0:
        raise InvalidJob(f"rate_limit {text!r} must look like '100/m' (units s, m, h, d).")
    return RateLimit(count=int(match[1]), seconds=_SECONDS[match[2]])
