"""The text of a cron expression: is it one, and if not, which field is wrong and why.

Five fields (minute, hour, day of month, month, day of week), or six, where the sixth and
LAST is the second: `30 6 * * * 15` is 06:30:15. Whoever puts seconds first gets an error
that says so wherever the values give it away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sync_scheduler.errors import InvalidRule

LONGEST = 200

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_NEAREST = re.compile(r"(?:(\d{1,2})w|w(\d{1,2})|(lw))")
_LAST_WEEKDAY = re.compile(r"(?:l([0-9a-z]+)|([0-9a-z]+)l)")
_NTH = re.compile(r"([^#]*)#(.*)")
_RANDOM = re.compile(r"[hr](\(.*\))?(/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of an expression: its name, its bounds, the names that stand for numbers."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    first_name: int = 0

    @property
    def size(self) -> int:
        # Sunday is both 0 and 7, so the week's bounds count one day twice.
        return 7 if self.names is WEEKDAYS else self.high - self.low + 1

    @property
    def bounds(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"


MINUTE = Field(name="minute", low=0, high=59)
HOUR = Field(name="hour", low=0, high=23)
DAY_OF_MONTH = Field(name="day of month", low=1, high=31)
MONTH = Field(name="month", low=1, high=12, names=MONTHS, first_name=1)
DAY_OF_WEEK = Field(name="day of week", low=0, high=7, names=WEEKDAYS)
SECOND = Field(name="second", low=0, high=59)
FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A checked expression, one plain text per field.

    `nearest` is the day of a `15W`. `hour_repeats` says that the hour was written with a
    wildcard or a step, as somebody writes who means "every so often" and not "at this time".
    """

    minute: str
    hour: str
    day_of_month: str
    month: str
    day_of_week: str
    second: str
    nearest: int | None
    hour_repeats: bool


def read(text: object) -> Columns:
    """Split and check an expression; whatever comes back means the same to every reader."""
    if not isinstance(text, str):
        raise InvalidRule(f"cron expression {text!r} is not a text; write one as '0 6 * * *'.")
    if len(text) > LONGEST:
        raise InvalidRule(
            f"cron expression is {len(text)} characters long, at most {LONGEST} are allowed."
        )
    lowered = text.strip().lower()
    if lowered.startswith("@"):
        if lowered not in _ALIASES:
            known = ", ".join(_ALIASES)
            raise InvalidRule(f"cron expression {text!r} is unknown; use one of {known}.")
        lowered = _ALIASES[lowered]
    columns = lowered.split()
    if len(columns) not in (5, 6):
        raise InvalidRule(
            f"cron expression {text!r} has {len(columns)} fields; write 5 (minute hour day month "
            "weekday) or 6 with the second last."
        )
    try:
        return _checked(columns)
    except InvalidRule as error:
        if len(columns) == 5:
            raise
        raise InvalidRule(
            f"{str(error).removesuffix('.')} (of six fields the last is the second)."
        ) from None


def _checked(columns: list[str]) -> Columns:
    nearest, day = _take_nearest(columns[2])
    plain = [
        _column(field, column)
        for field, column in zip(FIELDS, [*columns[:2], day, *columns[3:]], strict=False)
    ]
    return Columns(
        minute=plain[0],
        hour=plain[1],
        day_of_month=plain[2],
        month=plain[3],
        day_of_week=plain[4],
        second=plain[5] if len(plain) == 6 else "0",
        nearest=nearest,
        hour_repeats="*" in columns[1] or "/" in columns[1],
    )


def _take_nearest(column: str) -> tuple[int | None, str]:
    """A `15W` as its day; the column that is left then says only that the day is restricted."""
    found = _NEAREST.fullmatch(column)
    if found is None:
        if any(_NEAREST.fullmatch(part) for part in column.split(",")):
            raise InvalidRule(
                f"day of month value {column!r} mixes 'W' with other days; write one 'W' alone."
            )
        return None, column
    # The nearest weekday to a day that a month lacks is the nearest one to its last day.
    day = 31 if found[3] else int(found[1] or found[2])
    _number(DAY_OF_MONTH, str(day))
    return day, str(day)


def _column(field: Field, column: str) -> str:
    if column == "?" and field in (DAY_OF_MONTH, DAY_OF_WEEK):
        return "*"
    parts = column.split(",")
    plain = [_part(field, part) for part in parts]
    if field is DAY_OF_WEEK:
        special = ["#" in part or part.startswith("l") for part in plain]
        if any(special) and not all(special):
            raise InvalidRule(
                f"day of week value {column!r} mixes plain days with '#' or 'L' days; "
                "write two schedules."
            )
    return ",".join(plain)


def _part(field: Field, part: str) -> str:
    if not part:
        raise InvalidRule(f"{field.name} value is empty; write {field.bounds} or '*'.")
    if _RANDOM.fullmatch(part):
        raise InvalidRule(
            f"{field.name} value {part!r} is random; write the {field.name}, or use jitter."
        )
    if field is DAY_OF_MONTH and part == "l":
        return part
    if field is DAY_OF_WEEK:
        nth = _NTH.fullmatch(part)
        if nth is not None:
            return _nth(nth[1], nth[2])
        last = _LAST_WEEKDAY.fullmatch(part)
        if last is not None and part not in WEEKDAYS:
            return f"l{_number(field, last[1] or last[2]) % 7}"
    base, slash, step_text = part.partition("/")
    step = _step(field, step_text) if slash else 1
    if base == "*":
        return f"*/{step}" if slash else base
    low_text, dash, high_text = base.partition("-")
    low = _number(field, low_text or base)
    if not dash:
        return f"{low}/{step}" if slash else str(low)
    high = field.high if field is DAY_OF_MONTH and high_text == "l" else _number(field, high_text)
    return _range(field, low, high, step)


def _range(field: Field, low: int, high: int, step: int) -> str:
    if low == high:
        return str(low)
    if low < high and not (field is DAY_OF_WEEK and high == 7):
        return f"{low}-{high}/{step}" if step > 1 else f"{low}-{high}"
    # A range over the end ("22-4/3", "fri-mon") is spelled out: 22, 1, 4.
    last = high + field.size if low > high else high
    values = range(low, last + 1, step)
    return ",".join(str((value - field.low) % field.size + field.low) for value in values)


def _nth(days: str, which: str) -> str:
    if which not in {"1", "2", "3", "4", "5"}:
        raise InvalidRule(f"day of week value '{days}#{which}' is outside #1-#5.")
    low, dash, high = days.partition("-")
    first = _number(DAY_OF_WEEK, low)
    spelled = _range(DAY_OF_WEEK, first, _number(DAY_OF_WEEK, high), 1) if dash else str(first)
    if "-" in spelled:
        begin, _, end = spelled.partition("-")
        spelled = ",".join(str(day) for day in range(int(begin), int(end) + 1))
    return ",".join(f"{int(day) % 7}#{which}" for day in spelled.split(","))


def _step(field: Field, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= field.size:
        raise InvalidRule(f"{field.name} step {text!r} is outside 1-{field.size}.")
    return int(text)


def _number(field: Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.first_name
    if not (text.isascii() and text.isdigit()):
        raise InvalidRule(f"{field.name} value {text!r} is not one of {field.bounds} or '*'.")
    if not field.low <= int(text) <= field.high:
        raise InvalidRule(f"{field.name} value {text!r} is outside {field.bounds}.")
    return int(text)
