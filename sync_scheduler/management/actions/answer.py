"""Values: an action of the command, and what it answers."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
from collections.abc import Callable
from typing import Any

Options = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`document` for scripts, `text` for people; `failure`: why the exit code is 1."""

    document: Any
    text: str
    failure: str = ""


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    name: str
    help: str
    run: Callable[[Options], Answer]
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    # Looks for faults itself, so it must also start where others cannot.
    needs_valid_settings: bool = True


class ActionFailed(Exception):
    """The action cannot be done; the message is one line for the person at the shell."""


def actor() -> str:
    """Who is at the shell, for the record."""
    try:
        return f"{getpass.getuser()} (shell)"
    except (KeyError, OSError):
        return "shell"  # a container whose user has no name
