"""What was measured, beside what was wanted and what the machine itself can do.

A target is a figure of a reference machine, whose own floor is known: what a bare loop over the
same server reaches there. A slower machine cannot reach the target; there a figure passes if it
is as near to this machine's floor as the target is to the reference's. Both are always printed,
and a target that is missed in absolute terms is called so.
"""

from __future__ import annotations

import dataclasses

_missed: list[str] = []


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What a bare loop reached here, in this very run, and on the reference machine."""

    here: float
    reference: float
    is_time: bool = False

    def slowness(self) -> float:
        """How many times slower than the reference this machine is; at least 1."""
        slower = self.here / self.reference if self.is_time else self.reference / self.here
        return max(1.0, slower)


def note(name: str, value: float, unit: str) -> None:
    """A figure without a target."""
    print(f"  {name:<46} {_number(value):>10} {unit}", flush=True)


def at_least(name: str, value: float, unit: str, target: float, floor: Floor | None = None) -> None:
    _judge(name, value, unit, target, floor, is_time=False)


def at_most(name: str, value: float, unit: str, target: float, floor: Floor | None = None) -> None:
    _judge(name, value, unit, target, floor, is_time=True)


def _judge(
    name: str, value: float, unit: str, target: float, floor: Floor | None, *, is_time: bool
) -> None:
    slowness = 1.0 if floor is None else floor.slowness()
    is_met = value <= target if is_time else value >= target
    allowed = target * slowness if is_time else target / slowness
    is_near = value <= allowed if is_time else value >= allowed
    word = "at most" if is_time else "at least"
    verdict = "ok" if is_met else "missed here" if is_near else "MISSED"
    note(name, value, f"{unit:<5} {word} {_number(target)}: {verdict}")
    if floor is not None:
        reach, wanted = value / floor.here, target / floor.reference
        part = "ok" if is_near else "MISSED"
        note("", floor.here, f"{unit:<5} is the floor here, {_number(floor.reference)} there")
        note("", reach, f"times the floor, {word} {wanted:.2f}: {part}")
    if not is_met and not is_near:
        _missed.append(name)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def close() -> int:
    """The last line, and the exit code."""
    print("missed: " + ", ".join(_missed) if _missed else "all targets met", flush=True)
    return 1 if _missed else 0
