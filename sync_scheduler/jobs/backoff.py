"""How long to wait before the next attempt."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Protocol, runtime_checkable

from sync_scheduler.errors import InvalidJob

# Beyond this exponent every usual factor has passed any sensible maximum.
_LARGEST_EXPONENT = 64


@runtime_checkable
class Backoff(Protocol):
    def delay(self, attempt: int) -> float:
        """Seconds to wait after this attempt (the first is 1) has failed."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    seconds: float

    def delay(self, attempt: int) -> float:
        return self.seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    base: float
    factor: float
    maximum: float
    jitter: bool

    def delay(self, attempt: int) -> float:
        exponent = min(max(attempt - 1, 0), _LARGEST_EXPONENT)
        try:
            longest = min(self.base * self.factor**exponent, self.maximum)
        except OverflowError:
            longest = self.maximum
        # Full jitter: retries of many runs that failed together must not come back together.
        return random.uniform(0, longest) if self.jitter else longest  # noqa: S311


def fixed(seconds: float) -> Fixed:
    """The same pause before every attempt."""
    if not _are_numbers(seconds) or not 0 <= seconds < math.inf:
        raise InvalidJob(f"fixed({seconds!r}): the pause must be a number of at least 0.")
    return Fixed(seconds=float(seconds))


def exponential(
    base: float = 1, factor: float = 2, maximum: float = 300, jitter: bool = True
) -> Exponential:
    """`base`, then `factor` times as long each time, at most `maximum` seconds.

    With `jitter` the pause is a random part of that.
    """
    if not _are_numbers(base, factor, maximum) or not (
        0 <= base < math.inf and 0 <= maximum < math.inf and 1 <= factor < math.inf
    ):
        raise InvalidJob(
            "exponential(): base and maximum must be numbers from 0 up and factor one from 1 up,"
            " and none of them may be infinite."
        )
    return Exponential(
        base=float(base), factor=float(factor), maximum=float(maximum), jitter=jitter
    )


def _are_numbers(*values: object) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
