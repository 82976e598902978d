"""Causes: failures that mean the same, whatever the numbers and ids in their messages."""

from __future__ import annotations

import hashlib
import re

from sync_scheduler import lifecycle

_LONGEST = 200
_MASKS = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[a-z])\w{6,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)
_SPACES = re.compile(r"\s+")


def last_line(error: str) -> str:
    """What an exception says in its last line, on one line and bounded."""
    lines = [line for line in error.strip().splitlines() if line.strip()]
    text = _SPACES.sub(" ", lines[-1]).strip() if lines else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def in_words(error: str, reason: str) -> str:
    """The cause in one line: the exception, or the sentence that its reason stands for."""
    return last_line(error) or lifecycle.sentence(reason) or ""


def masked(error: str, reason: str) -> str:
    """The cause without what differs from failure to failure."""
    text = in_words(error, reason)
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def fingerprint(error: str, reason: str) -> str:
    """A short name for the cause, for addresses."""
    return hashlib.sha256(masked(error, reason).encode()).hexdigest()[:12]
