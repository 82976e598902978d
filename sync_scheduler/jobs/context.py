"""What a handler is given beside its input."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from sync_scheduler.jobs import payload
from sync_scheduler.jobs.control import Cancel

if TYPE_CHECKING:
    from sync_scheduler.models import Run

T = TypeVar("T")

_LONGEST_NAME = 200


class Backing(Protocol):
    """What stands behind a context: a worker, a test, or nothing at all."""

    def load_run(self) -> Run | None: ...

    def is_cancelled(self) -> bool: ...

    def beat(self, progress: float | None, message: str) -> None: ...

    def recall(self, name: str) -> tuple[bool, Any]:
        """Whether a step of this name has been stored, and its result."""
        ...

    def remember(self, name: str, result: Any) -> Any:
        """Store a step's result; returns it as a later attempt will see it."""
        ...

    async def arecall(self, name: str) -> tuple[bool, Any]: ...

    async def aremember(self, name: str, result: Any) -> Any: ...


class JobContext:
    """Passed as `ctx` to a handler whose first parameter has that name."""

    __slots__ = ("_backing", "_seen", "attempt", "id", "slot", "trigger")

    def __init__(
        self,
        *,
        backing: Backing,
        id: str = "",  # noqa: A002  # the public name
        attempt: int = 1,
        slot: dt.datetime | None = None,
        trigger: str = "submit",
    ) -> None:
        self._backing = backing
        self._seen: set[str] = set()
        self.id = id
        self.attempt = attempt
        self.slot = slot
        self.trigger = trigger

    @property
    def run(self) -> Run | None:
        """The Run that is being worked on; None when the job was called as a function."""
        return self._backing.load_run()

    @property
    def cancelled(self) -> bool:
        """True when somebody asked this Run to stop."""
        return self._backing.is_cancelled()

    def raise_if_cancelled(self) -> None:
        if self._backing.is_cancelled():
            raise Cancel("asked to stop")

    def heartbeat(self, progress: float | None = None, message: str = "") -> None:
        """Say that the work goes on, how far it is (0 to 1), and with what."""
        if progress is not None and not 0 <= progress <= 1:
            raise ValueError("heartbeat(progress=...) must lie between 0 and 1.")
        # As a plain number: a Decimal or a Fraction would not travel as JSON.
        self._backing.beat(None if progress is None else float(progress), message)

    def step(self, name: str, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Do a part once: its result is stored, and a later attempt gets it without the call."""
        self._use(name)
        done, result = self._backing.recall(name)
        if done:
            return result  # type: ignore[no-any-return]  # stored by this very step
        if inspect.iscoroutinefunction(fn):
            raise TypeError("ctx.step() runs plain functions; await ctx.astep() for async ones.")
        return self._backing.remember(name, fn(*args, **kwargs))  # type: ignore[no-any-return]

    @overload
    async def astep(
        self, name: str, fn: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any
    ) -> T: ...

    @overload
    async def astep(self, name: str, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...

    async def astep(self, name: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`step` for async handlers; the function may be async or plain."""
        self._use(name)
        done, result = await self._backing.arecall(name)
        if done:
            return result
        value = fn(*args, **kwargs)
        if inspect.isawaitable(value):
            value = await value
        return await self._backing.aremember(name, value)

    def _use(self, name: Any) -> None:
        # Before anything is done that could not be remembered.
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not _is_clean(name):
            raise ValueError(
                f"The name of a step must be a text of 1 to {_LONGEST_NAME} characters,"
                " without NUL or half of a surrogate pair."
            )
        # Two steps of one name would read each other's result.
        if name in self._seen:
            raise ValueError(f"Step {name!r} stands twice in this Run; give each its own name.")
        self._seen.add(name)


def _is_clean(name: str) -> bool:
    return name == payload.clean_text(name, 4 * len(name))


class NoBacking:
    """Behind a job that is called as a plain function: nothing is stored or watched."""

    def load_run(self) -> Run | None:
        return None

    def is_cancelled(self) -> bool:
        return False

    def beat(self, progress: float | None, message: str) -> None:
        return None

    def recall(self, name: str) -> tuple[bool, Any]:
        return False, None

    def remember(self, name: str, result: Any) -> Any:
        return result

    async def arecall(self, name: str) -> tuple[bool, Any]:
        return False, None

    async def aremember(self, name: str, result: Any) -> Any:
        return result
