"""Fills the shop with customers, orders and some history; running it again adds nothing."""

from __future__ import annotations

import datetime as dt
import os
import random
from decimal import Decimal
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from shop.jobs import import_catalogue, nightly_report
from shop.models import Cart, Customer, Invoice, Order
from sync_scheduler.models import Schedule

_FIRST = ("Ada", "Bela", "Clara", "Dario", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas")
_LAST = ("Adler", "Brandt", "Costa", "Demir", "Engel", "Fontaine")
_COUNTRIES = ("DE", "AT", "FR", "NL", "DK")
_DAYS = 40
_ORDERS_PER_DAY = 5


class Command(BaseCommand):
    help = "Fill the demo shop, and set the admin's password to DEMO_ADMIN_PASSWORD."

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("DEMO_ADMIN_PASSWORD")
        if not password:
            raise CommandError("Set DEMO_ADMIN_PASSWORD to the password that the admin shall get.")
        with transaction.atomic():
            self._set_admin(password)
            if not Customer.objects.exists():
                self._open_the_shop()

    def _set_admin(self, password: str) -> None:
        admin, _ = get_user_model().objects.get_or_create(
            username="admin",
            defaults={"is_staff": True, "is_superuser": True, "email": "admin@example.com"},
        )
        admin.set_password(password)
        admin.save()

    def _open_the_shop(self) -> None:
        chance = random.Random(7)
        now = timezone.now()
        customers = _customers()
        orders = [
            _order(chance, customers, now - dt.timedelta(days=day, minutes=chance.randint(0, 1400)))
            for day in range(1, _DAYS + 1)
            for _ in range(_ORDERS_PER_DAY)
        ]
        for order in sorted(orders, key=lambda order: order.placed_at):
            order.save()
            _invoice(chance, order, now).save()
        Cart.objects.bulk_create(
            Cart(customer=customer, touched_at=now - dt.timedelta(days=chance.randint(0, 9)))
            for customer in customers
        )
        Schedule.objects.get(name="newsletter").pause(
            note="Waits for the lawyers to agree to the new footer (Ines, Tuesday)."
        )
        # Neither is due soon, and both are worth seeing in the first minute.
        nightly_report.submit()
        import_catalogue.submit()
        self.stdout.write(f"{len(customers)} customers and {len(orders)} orders are in the shop.")


def _customers() -> list[Customer]:
    names = [f"{first} {last}" for last in _LAST for first in _FIRST]
    for index, name in enumerate(names):
        provider = "slowpost.example" if index % 4 == 0 else "example.com"
        Customer(
            name=name,
            email=f"{name.lower().replace(' ', '.')}@{provider}",
            country=_COUNTRIES[index % len(_COUNTRIES)],
        ).save()
    return list(Customer.objects.order_by("pk"))


def _order(chance: random.Random, customers: list[Customer], placed_at: dt.datetime) -> Order:
    by_card = chance.random() < 0.7
    return Order(
        customer=chance.choice(customers),
        payment=Order.Payment.CARD if by_card else Order.Payment.ACCOUNT,
        total=Decimal(chance.randint(900, 24000)) / 100,
        placed_at=placed_at,
        paid_at=placed_at if by_card else None,
        settled_at=placed_at + dt.timedelta(hours=6) if by_card else None,
    )


def _invoice(chance: random.Random, order: Order, now: dt.datetime) -> Invoice:
    invoice = Invoice.of(order, issued_at=order.placed_at)
    if invoice.paid_at is None and invoice.due_at < now and chance.random() < 0.5:
        invoice.paid_at = invoice.due_at
    return invoice
