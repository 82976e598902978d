"""A handler's signature: which names it takes, of which types, and how they become JSON.

Input is checked when it is submitted. What the hints name beyond JSON (dataclasses, pydantic
models, dates, UUIDs, decimals, enums) is written as JSON and read back before the handler runs.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sync_scheduler.errors import InvalidInput, InvalidJob
from sync_scheduler.jobs import hints, payload
from sync_scheduler.jobs.conversion import ANYTHING, Codec, Mismatch


class Signature:
    """Compiled on first use: hints may name what is defined further down in the module."""

    def __init__(
        self, func: Callable[..., Any], name: str, *, sensitive: Collection[str] = ()
    ) -> None:
        self._func = func
        self._sensitive = sensitive
        self._name = name
        parameters = list(inspect.signature(func).parameters.values())
        self.takes_context = bool(parameters) and parameters[0].name == "ctx"
        self.parameters = parameters[1:] if self.takes_context else parameters
        self._codecs: dict[str, Codec] | None = None
        # For whatever a handler with **names takes beyond its own.
        self._others = ANYTHING
        self._defaults: dict[str, Any] | None = None
        for p in self.parameters:
            if p.kind is p.POSITIONAL_ONLY or p.kind is p.VAR_POSITIONAL:
                raise InvalidJob(
                    f"Job {name!r}: parameter {p.name!r} cannot be passed by name;"
                    " input is stored by name."
                )
        self.names = tuple(p.name for p in self.parameters if p.kind is not p.VAR_KEYWORD)
        self._known = frozenset(self.names)
        self._open = any(p.kind is p.VAR_KEYWORD for p in self.parameters)
        self._required = tuple(
            p.name for p in self.parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        )

    @property
    def codecs(self) -> dict[str, Codec]:
        if self._codecs is None:
            found = self._hints()
            codecs = {p.name: hints.codec_for(found.get(p.name, Any)) for p in self.parameters}
            for p in self.parameters:
                if p.kind is p.VAR_KEYWORD:
                    self._others = codecs.pop(p.name)
            self._codecs = codecs
        return self._codecs

    def _hints(self) -> dict[str, Any]:
        """Of what is submitted only: others may name what is imported for type checkers alone."""
        innermost = inspect.unwrap(self._func)
        wanted = {p.name for p in self.parameters}
        asked = types.SimpleNamespace(
            __annotations__={
                name: hint for name, hint in innermost.__annotations__.items() if name in wanted
            },
            __type_params__=getattr(innermost, "__type_params__", ()),
        )
        try:
            return typing.get_type_hints(asked, globalns=innermost.__globals__)
        except Exception as error:
            raise InvalidJob(
                f"Job {self._name!r}: its type hints cannot be read ({error})."
            ) from error

    @property
    def defaults(self) -> dict[str, Any]:
        """What the handler gets for a name that was not given, as it would be stored.

        A default that no input could hold is left out.
        """
        if self._defaults is None:
            found = {}
            for p in self.parameters:
                if p.default is p.empty:
                    continue
                value = p.default
                with contextlib.suppress(Mismatch):  # `tenant: str = None`
                    value = self.codecs[p.name].encode(value)
                with contextlib.suppress(InvalidInput):
                    found[p.name] = payload.normalise(value, p.name, sys.maxsize)
            self._defaults = found
        return self._defaults

    def encode(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """The input as JSON types, checked against names and hints."""
        values = self._by_name(args, given) if args else given
        if not self._known.issuperset(values):
            for name in values:
                if name not in self._known and not self._takes(name):
                    raise InvalidInput(
                        f"Job {self._name!r} takes no argument {name!r};"
                        f" it takes {', '.join(self.names) or 'none'}."
                    )
        for name in self._required:
            if name not in values:
                raise InvalidInput(f"Job {self._name!r} needs the argument {name!r}.")
        codecs, others = self.codecs, self._others
        encoded = {}
        for name, value in values.items():
            try:
                encoded[name] = codecs.get(name, others).encode(value)
            except Mismatch as error:
                # What a model's own validators say, behind a bracket, may hold the value.
                said = str(error).split(" (")[0] if name in self._sensitive else str(error)
                raise InvalidInput(
                    f"Job {self._name!r}: argument {name!r} must be {said}."
                ) from None
            except RecursionError:
                raise InvalidInput(
                    f"Job {self._name!r}: argument {name!r} is nested too deeply, or contains"
                    " itself."
                ) from None
        return encoded

    def _takes(self, name: str) -> bool:
        """Whether a handler takes this beyond its own names; a worker passes `ctx` itself."""
        return self._open and not (name == "ctx" and self.takes_context)

    def decode(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """What the handler is called with."""
        codecs, others = self.codecs, self._others
        return {name: codecs.get(name, others).decode(value) for name, value in stored.items()}

    def check_stored(self, stored: Mapping[str, Any]) -> None:
        """Raise `InvalidInput` unless the handler can be called with what is stored.

        It was checked when it was stored; the code may have changed since.
        """
        try:
            values = self.decode(stored)
        except Exception as error:  # noqa: BLE001  # whatever a model of the user raises
            # The value itself stays out of messages: it may be a secret.
            raise InvalidInput(
                f"Job {self._name!r} can no longer read the stored input ({type(error).__name__})."
            ) from None
        self.encode((), values)

    def _by_name(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.names):
            raise InvalidInput(
                f"Job {self._name!r} takes {len(self.names)} arguments, not {len(args)}."
            )
        values = dict(zip(self.names, args, strict=False))
        for name, value in given.items():
            if name in values:
                raise InvalidInput(f"Job {self._name!r}: argument {name!r} is given twice.")
            values[name] = value
        return values
