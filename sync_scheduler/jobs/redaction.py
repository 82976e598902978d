"""What of an input may be shown: the one place that hides secrets from people.

Secrets are named by the job (`sensitive=`). A job that this process does not know cannot name
them, so everything that it was given is hidden. An input that cannot be decoded says nothing of its
secrets: of a text that may hold them only the beginning is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sync_scheduler.jobs import registry
from sync_scheduler.jobs.payload import MARK, is_sealed

MASK = "***"
# Shorter values are part of ordinary words: masking them would make a text unreadable and
# would hide nothing that could not be guessed.
_SHORTEST = 4
# As much of an error as is its name.
_NAME_LENGTH = 100


def has_secrets(job: str) -> bool:
    """Whether an input of this job can hold anything that must be hidden."""
    found = registry.find(job)
    return found is None or bool(found.policy.sensitive)


def redacted_input(job: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of the job of this name, with the values of its sensitive names masked."""
    if is_sealed(given):
        return {MARK: MASK}
    return {name: MASK if _is_secret(job, name) else value for name, value in given.items()}


def redacted_text(job: str, given: Mapping[str, Any], text: str) -> str:
    """A text about a run (an error, a traceback) in which the secrets of its input are masked."""
    if is_sealed(given) and has_secrets(job):
        return text.split(":")[0][:_NAME_LENGTH]
    return _without(_secrets(job, given), text) if text else text


def redacted_value(job: str, given: Mapping[str, Any], value: Any) -> Any:
    """What a run left behind (a result, a step's) in which the secrets of its input are masked."""
    if is_sealed(value):
        return {MARK: MASK}
    if is_sealed(given) and has_secrets(job):
        return MASK
    secrets = _secrets(job, given)
    return _walk(secrets, value) if secrets else value


def _secrets(job: str, given: Mapping[str, Any]) -> list[str]:
    """What must not be seen, longest first: one secret may be the beginning of another."""
    found = {
        word
        for name, value in given.items()
        if _is_secret(job, name)
        for word in _words(value)
        if len(word) >= _SHORTEST
    }
    return sorted(found, key=len, reverse=True)


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _walk(secrets: list[str], value: Any) -> Any:
    if isinstance(value, str):
        return _without(secrets, value)
    if isinstance(value, Mapping):
        return {_without(secrets, str(k)): _walk(secrets, item) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(secrets, item) for item in value]
    return MASK if str(value) in secrets else value


def _is_secret(job: str, name: str) -> bool:
    found = registry.find(job)
    return found is None or name in found.policy.sensitive


def _words(value: Any) -> Iterator[str]:
    """Every text and number inside the value, as it would appear in a message."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _words(item)
    elif value is not None and not isinstance(value, bool):
        yield from _spellings(str(value))


def _spellings(text: str) -> Iterator[str]:
    """The text, and how it is written inside of a repr or of JSON: a key file has line breaks."""
    yield text
    for quoted in (repr(text), json.dumps(text), json.dumps(text, ensure_ascii=False)):
        yield quoted[1:-1]
