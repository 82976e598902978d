"""What the shop knows: who buys what, what they owe, and what it told them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from django.db import models
from django.db.models import Q

PAYMENT_TERM = dt.timedelta(days=14)
REMINDER_INTERVAL = dt.timedelta(days=7)
LAST_REMINDER_LEVEL = 3


class Customer(models.Model):
    name = models.CharField(max_length=120)
    email = models.EmailField(unique=True)
    country = models.CharField(max_length=2)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    sku = models.CharField("SKU", max_length=20, unique=True)
    name = models.CharField(max_length=120)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    imported_at = models.DateTimeField()

    class Meta:
        ordering = ("sku",)

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"


class Cart(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="carts")
    items = models.PositiveSmallIntegerField(default=1)
    touched_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ("-touched_at",)

    def __str__(self) -> str:
        return f"Cart of {self.customer}"


class OrderQuerySet(models.QuerySet["Order"]):
    def billable(self) -> OrderQuerySet:
        """Paid by card, or bought on account; and not invoiced yet."""
        return self.filter(
            Q(paid_at__isnull=False) | Q(payment=Order.Payment.ACCOUNT), invoice__isnull=True
        )


class Order(models.Model):
    class Payment(models.TextChoices):
        CARD = "card", "Card"
        ACCOUNT = "account", "On account"

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="orders")
    payment = models.CharField(max_length=10, choices=Payment, default=Payment.CARD)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    placed_at = models.DateTimeField(db_index=True)
    paid_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(
        null=True, blank=True, help_text="When the payment gateway paid the money out to us."
    )

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ("-placed_at",)

    def __str__(self) -> str:
        return f"Order {self.pk}"


class InvoiceQuerySet(models.QuerySet["Invoice"]):
    def to_remind(self, now: dt.datetime) -> InvoiceQuerySet:
        """Overdue, and not reminded of within the last days."""
        return self.filter(
            paid_at__isnull=True, due_at__lt=now, reminder_level__lt=LAST_REMINDER_LEVEL
        ).filter(Q(reminded_at__isnull=True) | Q(reminded_at__lt=now - REMINDER_INTERVAL))


class Invoice(models.Model):
    order = models.OneToOneField(Order, on_delete=models.CASCADE, related_name="invoice")
    number = models.CharField(max_length=20, unique=True)
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    issued_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    paid_at = models.DateTimeField(null=True, blank=True)
    reminder_level = models.PositiveSmallIntegerField(default=0)
    reminded_at = models.DateTimeField(null=True, blank=True)

    objects = InvoiceQuerySet.as_manager()

    class Meta:
        ordering = ("-issued_at",)

    def __str__(self) -> str:
        return self.number

    @classmethod
    def of(cls, order: Order, *, issued_at: dt.datetime) -> Invoice:
        """The invoice of an order; the number follows from the order, so none can have two."""
        return cls(
            order=order,
            number=f"INV-{order.pk:06d}",
            amount=order.total,
            issued_at=issued_at,
            due_at=issued_at + PAYMENT_TERM,
            paid_at=order.paid_at,
        )


class Reminder(models.Model):
    """A dunning letter that went out."""

    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="reminders")
    level = models.PositiveSmallIntegerField()
    sent_at = models.DateTimeField()

    class Meta:
        ordering = ("-sent_at",)
        constraints = (
            models.UniqueConstraint(fields=("invoice", "level"), name="one_reminder_per_level"),
        )

    def __str__(self) -> str:
        return f"Reminder {self.level} for {self.invoice}"


class ReportLine(models.Model):
    day = models.DateField()
    label = models.CharField(max_length=60)
    value = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))

    class Meta:
        ordering = ("-day", "label")
        constraints = (
            models.UniqueConstraint(fields=("day", "label"), name="one_line_per_day_and_label"),
        )

    def __str__(self) -> str:
        return f"{self.day:%Y-%m-%d} {self.label}"


class ExchangeRate(models.Model):
    currency = models.CharField(max_length=3, unique=True)
    per_euro = models.DecimalField(max_digits=10, decimal_places=4)
    fetched_at = models.DateTimeField()

    class Meta:
        ordering = ("currency",)

    def __str__(self) -> str:
        return f"1 EUR = {self.per_euro} {self.currency}"
