"""Rules in words."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler.timing.description import describe
from sync_scheduler.timing.rules import Recurrence, Rule, cron, every, once

NOW = dt.datetime(2026, 1, 1, 7, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 6 * * *", "Every day at 06:00"),
        ("0 6 ? * *", "Every day at 06:00"),
        ("0 6,12,18 * * *", "Every day at 06:00, 12:00 and 18:00"),
        ("30 6 * * * 15", "Every day at 06:30:15"),
        ("*/15 9 * * *", "Every day at 09:00, 09:15, 09:30 and 09:45"),
        ("30 9 * * mon-fri", "Every Monday to Friday at 09:30"),
        ("0 6 * * sat,sun", "Every Saturday and Sunday at 06:00"),
        ("0 6 * * mon,wed,fri", "Every Monday, Wednesday and Friday at 06:00"),
        ("0 6 * * fri-mon", "Every Monday and Friday to Sunday at 06:00"),
        ("0 6 * jun-aug *", "Every day at 06:00 in June to August"),
        ("0 9 L * *", "At 09:00 on the last day of the month"),
        ("0 9 1,L * *", "At 09:00 on the 1st and last day of the month"),
        ("0 9 15W * *", "At 09:00 on the weekday nearest to the 15th of the month"),
        ("0 9 LW * *", "At 09:00 on the last weekday of the month"),
        ("0 9 * * fri#2", "At 09:00 on the 2nd Friday of the month"),
        ("0 9 * * L5", "At 09:00 on the last Friday of the month"),
        ("0 9 * 3 mon#1", "At 09:00 on the 1st Monday of the month in March"),
        ("0 0 1,15 * *", "At 00:00 on the 1st and 15th of the month"),
        ("0 0 1-7 * *", "At 00:00 on the 1st to 7th of the month"),
        ("0 0 11,12,22 * *", "At 00:00 on the 11th, 12th and 22nd of the month"),
        ("0 0 */2 * *", "At 00:00 on every 2nd day of the month from the 1st"),
        ("0 0 1 jan,jul *", "At 00:00 on the 1st of the month in January and July"),
        ("0 0 29 2 *", "Every year on 29 February at 00:00"),
        ("0 0 1 * mon", "At 00:00 on the 1st of the month and on every Monday"),
        (
            "0 0 1 * fri#2",
            "At 00:00 on the 1st of the month and on the 2nd Friday of the month",
        ),
        ("0 0 1-31 * mon", "Every day at 00:00"),
        ("* * * * *", "Every minute"),
        ("*/10 * * * *", "Every 10 minutes"),
        ("*/10 * * * mon-fri", "Every 10 minutes on Monday to Friday"),
        ("*/10 * L * *", "Every 10 minutes on the last day of the month"),
        ("*/15 9-17 * * *", "Every 15 minutes from 09:00 to 17:45"),
        ("* 9 * * *", "Every minute from 09:00 to 09:59"),
        ("0 * * * *", "Every hour"),
        ("5 * * * *", "Every hour at minute 5"),
        ("*/40 * * * *", "Every hour at minute 0 and 40"),
        ("0 9-17 * * *", "Every hour from 09:00 to 17:00"),
        ("0 */6 * * *", "Every 6 hours"),
        ("30 */2 * * *", "Every 2 hours at minute 30"),
        # Five hours do not go round a day evenly, so "every 5 hours" would be wrong.
        ("0 */5 * * *", "Every day at 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("* * * * * *", "Every second"),
        ("* * * * * */10", "Every 10 seconds"),
        ("* 9-17 * * * */10", "Every 10 seconds from 09:00 to 17:59:50"),
        ("* * * * * 30", "Every minute at second 30"),
        ("0 * * * * */20", "Every hour at minute 0 and second 0, 20 and 40"),
        ("@hourly", "Every hour"),
        ("@daily", "Every day at 00:00"),
        ("@weekly", "Every Sunday at 00:00"),
        ("@monthly", "At 00:00 on the 1st of the month"),
        ("@yearly", "Every year on 1 January at 00:00"),
        ("3-40/7 2,4 * * *", "At minute 3-40/7, hour 2,4"),
        ("* */2 * * *", "At every minute, hour */2"),
        # One hour a day is a time of day, however the hour is written.
        ("0 */24 * * *", "Every day at 00:00"),
        ("30 23/2 L * *", "At 23:30 on the last day of the month"),
        ("*/10 */24 * * *", "Every 10 minutes from 00:00 to 00:50"),
        # A star for the second is sixty Runs a minute; whoever wrote it first, by mistake, sees it.
        ("30 6 * * * *", "At every second, minute 30, hour 6"),
        ("0 * * * * *", "At every second, minute 0"),
        ("* */2 * * * *", "At every second, hour */2"),
        ("* 0,12 * * * 0-29", "At every minute, hour 0,12, second 0-29"),
        ("0 0 */2 * mon", "At minute 0, hour 0, day of month */2, day of week MON"),
        ("*/3 5 * * * 1-59/2", "At minute */3, hour 5, second 1-59/2"),
    ],
)
def test_a_cron_rule_reads_as_a_person_would_say_it(text: str, words: str) -> None:
    # A12
    assert describe(Recurrence(kind="cron", expression=text)) == words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (every(minutes=10), "Every 10 minutes"),
        (every(seconds=1), "Every second"),
        (every(seconds=0.5), "Every 0.5 seconds"),
        (every(hours=1), "Every hour"),
        (every(minutes=90), "Every 90 minutes"),
        (every(days=1), "Every 24 hours"),
        (every(days=7), "Every 7 days"),
        (every(minutes=30, start=NOW), "Every 30 minutes from 2026-01-01 08:00"),
        (
            every(hours=1, end_at=NOW + dt.timedelta(days=1)),
            "Every hour, until 2026-01-02 08:00",
        ),
        (once(dt.datetime(2026, 11, 23, 7, tzinfo=dt.UTC)), "Once on Mon 23 Nov 2026 at 08:00"),
        (
            cron("0 6 * * *", start_at=NOW, end_at=NOW + dt.timedelta(days=3)),
            "Every day at 06:00, starting 2026-01-01 08:00, until 2026-01-04 08:00",
        ),
    ],
)
def test_every_kind_reads_as_a_person_would_say_it(rule: Rule, words: str) -> None:
    # A12
    assert describe(rule.recurrence(default_timezone="Europe/Berlin", anchor=NOW)) == words
