"""The world outside the shop, made up: a payment gateway, a mail server, a bank, a supplier.

Nothing here opens a connection. Whatever looks like chance follows from the id that is
given, so that the same Run always meets the same trouble.
"""

from __future__ import annotations

import asyncio
import random
import smtplib
import time
import uuid
from decimal import Decimal

CATALOGUE_SIZE = 400
CATALOGUE_PAGE = 10

_MATERIALS = ("Linen", "Oak", "Brass", "Wool", "Clay", "Glass", "Cork", "Copper")
_THINGS = ("lantern", "basket", "blanket", "vase", "lamp", "tray", "candle", "stool")
_RATES = {"CHF": 0.94, "DKK": 7.46, "GBP": 0.85, "NOK": 11.6, "PLN": 4.28, "USD": 1.08}


class GatewayTimeout(Exception):
    """The payment gateway did not answer in time."""


class GatewayError(Exception):
    """The payment gateway answered with an error."""


def settled_payments(run_id: uuid.UUID, attempt: int) -> int:
    """How many payments the gateway settles now. About one call in three raises.

    Most trouble is over at the second try; one Run in nine never gets through.
    """
    mood = run_id.int % 9
    if mood == 0:
        raise GatewayError("401 Unauthorized: signature of request rejected, key id live_7f")
    if mood == 1 and attempt <= 2:
        raise GatewayError("502 Bad Gateway from api.paywell.example/v2/settlements")
    if mood == 2 and attempt == 1:
        raise GatewayTimeout("api.paywell.example: read timed out after 10 s")
    return 25


def charge_card(card_token: str, amount: Decimal) -> str:
    """Charge a card; the receipt's number."""
    if not card_token.startswith("tok_"):
        raise GatewayError("422 Unprocessable: unknown card token")
    time.sleep(0.2)
    return f"ch_{random.randrange(16**10):010x}_{amount}"


def greet_mail_server(address: str, attempt: int) -> None:
    """One provider greylists: it refuses the first try and takes the second."""
    if address.endswith("@slowpost.example") and attempt == 1:
        raise smtplib.SMTPServerDisconnected("451 4.7.1 greylisted, please try again later")


def catalogue_page(number: int) -> list[tuple[str, str, Decimal]]:
    """One page of the supplier's list: SKU, name, price. The supplier is slow."""
    time.sleep(1)
    first = number * CATALOGUE_PAGE
    return [
        (
            f"LL-{index:04d}",
            f"{_MATERIALS[index % 8]} {_THINGS[index // 8 % 8]} no. {index // 64 + 1}",
            Decimal(500 + index * 37 % 9000) / 100,
        )
        for index in range(first, min(first + CATALOGUE_PAGE, CATALOGUE_SIZE))
    ]


async def exchange_rate(currency: str) -> Decimal:
    """What one euro buys; wobbles by up to one per cent."""
    await asyncio.sleep(0.3)
    return Decimal(_RATES[currency] * random.uniform(0.99, 1.01)).quantize(Decimal("0.0001"))


def currencies() -> list[str]:
    return sorted(_RATES)


def card_token() -> str:
    """What a card form hands over instead of the card's number."""
    return f"tok_{random.randrange(16**12):012x}"
