"""Two days of a shop that had a bad night, for the pictures. Prints what to look at."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from typing import Any

import django

django.setup()

from shop.jobs import nightly_report, send_invoices, sync_payments, take_orders  # noqa: E402

from sync_scheduler import clock, cron, every  # noqa: E402
from sync_scheduler.models import Attempt, DeadLetter, Node, Run, Schedule, Term  # noqa: E402
from sync_scheduler.timing import slots  # noqa: E402

CHANCE = random.Random(11)
NOW = clock.now()
MINUTE = dt.timedelta(minutes=1)
TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/sync_scheduler/work/execute.py", line 88, in run
    return handler(**given)
  File "/srv/shop/shop/jobs.py", line 187, in sync_payments
    limit = outside.settled_payments(run_id, ctx.attempt)
  File "/srv/shop/shop/outside.py", line 39, in settled_payments
    raise GatewayError("401 Unauthorized: signature of request rejected")
shop.outside.GatewayError: 401 Unauthorized: signature of request rejected
"""


def main() -> None:
    gap = night_without_a_leader()
    made = {
        "Send invoices": Schedule.objects.add(
            "Send invoices", job=send_invoices, rule=cron("0 */2 * * *", tz="Europe/Berlin")
        ),
        "Settle payments": Schedule.objects.add(
            "Settle payments", job=sync_payments, rule=cron("*/30 * * * *", tz="Europe/Berlin")
        ),
        "Close the day": Schedule.objects.add(
            "Close the day", job=nightly_report, rule=cron("30 2 * * *", tz="Europe/Berlin")
        ),
        "Expire carts": Schedule.objects.add(
            "Expire carts", job=take_orders, rule=every(minutes=45), enabled=True
        ),
    }
    for schedule in made.values():
        born = NOW - dt.timedelta(days=6)
        Schedule.objects.filter(id=schedule.id).update(created_at=born, updated_at=born)
        schedule.refresh_from_db()
        history(schedule, gap)
    Node.objects.create(
        name="jobs-b2:812:4f10aa",
        host="jobs-b2",
        pid=812,
        roles="work",
        version="0.1.0",
        queues=["imports"],
        jobs=[],
        slots=4,
        started_at=NOW - dt.timedelta(hours=9),
        heartbeat_at=NOW - 40 * MINUTE,
    )
    worst = Run.objects.filter(schedule=made["Settle payments"], status="failed").order_by("-id")[0]
    print(f"schedule={made['Settle payments'].id}")
    print(f"run={worst.id}")


def night_without_a_leader() -> tuple[dt.datetime, dt.datetime]:
    start = (NOW - dt.timedelta(hours=8)).replace(minute=27, second=4, microsecond=0)
    end = start + 71 * MINUTE
    holders = (("jobs-a1:640:9c01fe", NOW - dt.timedelta(days=2), start, "expired"),)
    for epoch, (holder, begin, over, reason) in enumerate(holders, start=-1):
        Term.objects.create(
            epoch=epoch, holder=holder, started_at=begin, ended_at=over, reason=reason
        )
    Term.objects.create(
        epoch=0,
        holder="jobs-a2:655:77d2b0",
        started_at=end,
        ended_at=NOW - MINUTE,
        reason="stopped",
    )
    return start, end


def history(schedule: Schedule, gap: tuple[dt.datetime, dt.datetime]) -> None:
    due = slots.latest(schedule.recurrence, NOW - dt.timedelta(days=5), NOW, 34)
    for number, slot in enumerate(due):
        if gap[0] < slot < gap[1]:
            meta = {"no_leader_from": gap[0].isoformat(), "no_leader_to": gap[1].isoformat()}
            row(schedule, slot, "skipped", reason="misfire", meta=meta)
        elif schedule.name == "Settle payments" and number in {11, 18, 19, 28, 30}:
            row(schedule, slot, "failed", attempt=3)
        elif schedule.name == "Send invoices" and number == 31:
            row(
                schedule,
                slot,
                "failed",
                attempt=1,
                error="SMTPServerDisconnected: please run connect()",
            )
        elif number % 9 == 5:
            row(schedule, slot, "skipped", reason="overlap")
        elif number % 7 == 3:
            row(schedule, slot, "completed", attempt=2)
        else:
            row(schedule, slot, "completed")


def row(schedule: Schedule, slot: dt.datetime, status: str, **values: Any) -> None:
    took = dt.timedelta(seconds=CHANCE.lognormvariate(1.5, 0.9))
    ran = status != "skipped"
    attempt = values.pop("attempt", 1 if ran else 0)
    error = values.pop("error", "GatewayError: 401 Unauthorized: signature of request rejected")
    run = Run.objects.create(
        id=id_at(slot),
        job=schedule.job,
        schedule=schedule,
        schedule_name=schedule.name,
        slot=slot,
        trigger="slot",
        status=status,
        attempt=attempt,
        max_attempts=3,
        run_at=slot,
        submitted_at=slot,
        started_at=slot + dt.timedelta(milliseconds=40) if ran else None,
        finished_at=slot + took if ran else slot,
        node="jobs-a1:640:9c01fe" if ran else "",
        error=error if status == "failed" else "",
        **values,
    )
    if status == "failed":
        for number in range(1, attempt + 1):
            begin = slot + dt.timedelta(seconds=5 * (number - 1))
            last = number == attempt
            Attempt.objects.create(
                run=run,
                number=number,
                node="jobs-a1:640:9c01fe",
                started_at=begin,
                finished_at=begin + dt.timedelta(seconds=1.2),
                outcome="failed" if last else "retried",
                error=error,
                traceback=TRACEBACK if "Gateway" in error else "",
                retry_at=None if last else begin + dt.timedelta(seconds=5),
            )
        DeadLetter.objects.create(
            kind="run",
            run=run,
            schedule=schedule,
            schedule_name=schedule.name,
            job=schedule.job,
            slot=slot,
            reason=error,
            error=error,
            created_at=slot + took,
        )


def id_at(instant: dt.datetime) -> uuid.UUID:
    """An id as the Run would have got it then, so that lists are in order."""
    milliseconds = int(instant.timestamp() * 1000)
    value = (milliseconds << 80) | (0x7 << 76) | (CHANCE.getrandbits(12) << 64) | (0b10 << 62)
    return uuid.UUID(int=value | CHANCE.getrandbits(62))


main()
