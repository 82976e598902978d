"""Everything that the shop does by itself. Each job stands beside its schedule.

The demo is impatient: what a real shop does once a day happens every few seconds here.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import uuid
from decimal import Decimal
from typing import Any

from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from shop import outside
from shop.models import Cart, Customer, ExchangeRate, Invoice, Order, Product, Reminder, ReportLine
from sync_scheduler import Cancel, JobContext, cron, every, exponential, fixed, job, once
from sync_scheduler.models import Schedule


@job(
    name="shop.take_orders",
    retention=dt.timedelta(hours=1),
    schedule=every(seconds=5, name="orders-arrive"),
)
def take_orders() -> dict[str, Any]:
    """Play the customers: each time somebody fills a cart and somebody orders."""
    now = timezone.now()
    buyer, looker = Customer.objects.order_by("?")[:2]
    Cart.objects.create(customer=looker, items=random.randint(1, 4), touched_at=now)
    by_card = random.random() < 0.7
    # The order and the Run that charges the card are stored together or not at all.
    with transaction.atomic():
        order = Order.objects.create(
            customer=buyer,
            payment=Order.Payment.CARD if by_card else Order.Payment.ACCOUNT,
            total=Decimal(random.randint(900, 24000)) / 100,
            placed_at=now,
        )
        if by_card:
            charge_card.using(key=f"charge:{order.pk}").submit(
                order_id=order.pk, card_token=outside.card_token()
            )
        if order.pk % 8 == 0:
            # A schedule made at run time: it comes due once, for this one customer.
            Schedule.objects.add(
                f"pick-up-{order.pk}",
                job=remind_of_pick_up,
                rule=once(now + dt.timedelta(seconds=45)),
                input={"order_id": order.pk},
            )
    return {"order": order.pk, "payment": order.payment}


@job(name="shop.charge_card", priority=10, sensitive=("card_token",), timeout=30)
def charge_card(order_id: int, card_token: str) -> dict[str, str]:
    """Charge the card of one order. The token is never shown and never logged."""
    order = Order.objects.get(pk=order_id)
    receipt = outside.charge_card(card_token, order.total)
    Order.objects.filter(pk=order_id).update(paid_at=timezone.now())
    return {"receipt": receipt}


@job(
    name="shop.send_invoices",
    atomic=True,
    max_attempts=3,
    backoff=fixed(5),
    schedule=every(seconds=15, name="invoices"),
)
def send_invoices() -> dict[str, int]:
    """Put an invoice into the customer's account for each order that can be billed.

    Atomic: the invoices and the end of this Run commit together, so each order is billed
    exactly once, even if the worker is killed in the middle.
    """
    now = timezone.now()
    invoices = [Invoice.of(order, issued_at=now) for order in Order.objects.billable()[:100]]
    Invoice.objects.bulk_create(invoices)
    return {"invoices": len(invoices)}


@job(name="shop.find_overdue", schedule=every(seconds=30, name="overdue-invoices"))
def find_overdue(limit: int = 1) -> dict[str, int]:
    """Submit a dunning letter for invoices that are overdue, one at a time.

    The key names the invoice and the level: however often this runs, one letter is sent.
    """
    overdue = list(Invoice.objects.to_remind(timezone.now()).order_by("due_at")[:limit])
    for invoice in overdue:
        level = invoice.reminder_level + 1
        send_reminder.using(key=f"reminder:{invoice.number}:{level}").submit(
            invoice_id=invoice.pk, level=level
        )
    return {"submitted": len(overdue)}


@job(
    name="shop.send_reminder",
    max_attempts=5,
    backoff=exponential(base=2, factor=2, maximum=60, jitter=True),
    rate_limit="30/m",
)
def send_reminder(ctx: JobContext, invoice_id: int, level: int) -> dict[str, str]:
    """Send one dunning letter; one provider refuses the first try, so this one retries."""
    invoice = Invoice.objects.select_related("order__customer").get(pk=invoice_id)
    customer = invoice.order.customer
    outside.greet_mail_server(customer.email, ctx.attempt)
    send_mail(
        f"Reminder {level}: invoice {invoice.number}",
        f"Dear {customer.name}, {invoice.amount} EUR were due on {invoice.due_at:%d %B %Y}.",
        None,
        [customer.email],
    )
    now = timezone.now()
    Reminder.objects.get_or_create(invoice=invoice, level=level, defaults={"sent_at": now})
    Invoice.objects.filter(pk=invoice_id).update(reminder_level=level, reminded_at=now)
    return {"to": customer.email}


@job(
    name="shop.nightly_report",
    max_attempts=3,
    backoff=fixed(60),
    schedule=cron("0 6 * * *", tz="Europe/Berlin", name="nightly-report", misfire="catch_up_one"),
)
def nightly_report(ctx: JobContext) -> dict[str, int]:
    """Yesterday in figures. A retry goes on behind the last step that succeeded."""
    day = timezone.localdate() - dt.timedelta(days=1)
    orders = ctx.step("orders", _orders_of, day)
    countries = ctx.step("countries", _countries_of, day)
    lines = {"Orders": orders["count"], "Turnover": orders["turnover"], **countries}
    written = ctx.step("write", _write_report, day, lines)
    return {"lines": written}


def _orders_of(day: dt.date) -> dict[str, str]:
    found = Order.objects.filter(placed_at__date=day).aggregate(n=Count("pk"), sum=Sum("total"))
    return {"count": str(found["n"]), "turnover": str(found["sum"] or 0)}


def _countries_of(day: dt.date) -> dict[str, str]:
    found = (
        Order.objects.filter(placed_at__date=day)
        .values_list("customer__country")
        .annotate(sum=Sum("total"))
        .order_by("customer__country")
    )
    return {f"Turnover {country}": str(turnover) for country, turnover in found}


def _write_report(day: dt.date, lines: dict[str, str]) -> int:
    for label, value in lines.items():
        ReportLine.objects.update_or_create(
            day=day, label=label, defaults={"value": Decimal(value)}
        )
    return len(lines)


@job(name="shop.clean_up", schedule=every(minutes=10, name="clean-up"))
def clean_up(hours: int = 24) -> dict[str, int]:
    """Throw away carts that nobody came back to, and schedules that have had their day."""
    before = timezone.now() - dt.timedelta(hours=hours)
    carts, _ = Cart.objects.filter(touched_at__lt=before).delete()
    spent = Schedule.objects.filter(name__startswith="pick-up-", last_slot__lt=before)
    names = list(spent.values_list("name", flat=True))
    for name in names:
        Schedule.objects.unregister(name)
    return {"carts": carts, "schedules": len(names)}


@job(
    name="shop.sync_payments",
    max_attempts=3,
    backoff=fixed(4),
    timeout=20,
    schedule=every(seconds=20, name="payment-gateway"),
)
def sync_payments(ctx: JobContext) -> dict[str, int]:
    """Ask the gateway which payments it has settled. It is not the most reliable one."""
    run_id = ctx.run.id if ctx.run else uuid.uuid4()
    limit = outside.settled_payments(run_id, ctx.attempt)
    orders = Order.objects.filter(paid_at__isnull=False, settled_at__isnull=True)
    settled = list(orders.order_by("paid_at").values_list("pk", flat=True)[:limit])
    Order.objects.filter(pk__in=settled).update(settled_at=timezone.now())
    return {"settled": len(settled)}


@job(
    name="shop.import_catalogue",
    queue="imports",
    concurrency=1,
    timeout=180,
    schedule=every(minutes=3, name="catalogue-import"),
)
def import_catalogue(ctx: JobContext) -> dict[str, int]:
    """About forty seconds of work, page by page. Cancel it in the admin and it stops."""
    pages = -(-outside.CATALOGUE_SIZE // outside.CATALOGUE_PAGE)
    done = 0
    for page in range(pages):
        if ctx.cancelled:
            raise Cancel(f"stopped after {done} of {outside.CATALOGUE_SIZE} products")
        for sku, name, price in outside.catalogue_page(page):
            Product.objects.update_or_create(
                sku=sku, defaults={"name": name, "price": price, "imported_at": timezone.now()}
            )
            done += 1
        ctx.heartbeat(progress=(page + 1) / pages, message=f"{done} products")
    return {"products": done}


@job(name="shop.fetch_rates", timeout=15, schedule=every(minutes=1, name="exchange-rates"))
async def fetch_rates() -> dict[str, str]:
    """Ask for all rates at the same time; an async handler."""
    names = outside.currencies()
    rates = await asyncio.gather(*(outside.exchange_rate(name) for name in names))
    for name, rate in zip(names, rates, strict=True):
        await ExchangeRate.objects.aupdate_or_create(
            currency=name, defaults={"per_euro": rate, "fetched_at": timezone.now()}
        )
    return {name: str(rate) for name, rate in zip(names, rates, strict=True)}


@job(
    name="shop.send_newsletter",
    schedule=cron("0 10 * * MON", tz="Europe/Berlin", name="newsletter", overlap="skip"),
)
def send_newsletter() -> dict[str, int]:
    """The demo pauses this schedule, with a note that says why."""
    return {"recipients": Customer.objects.count()}


@job(name="shop.remind_of_pick_up")
def remind_of_pick_up(order_id: int) -> dict[str, str]:
    """Tell one customer that the parcel is waiting in the shop."""
    order = Order.objects.select_related("customer").get(pk=order_id)
    return {"told": order.customer.name}
