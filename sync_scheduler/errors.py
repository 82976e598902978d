"""Everything that can go wrong, as one tree.

Every error says in one sentence what is wrong and what to do. A class's docstring is its
message when none is given, so that documentation and message cannot drift apart.
"""

from __future__ import annotations


class SchedulerError(Exception):
    """Something in sync_scheduler went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InvalidInput(SchedulerError):
    """The input does not fit the job's signature or cannot be stored as JSON."""


class InvalidJob(SchedulerError):
    """The job is declared in a way that cannot work."""


class InvalidRule(SchedulerError, ValueError):
    """The schedule's rule can never fire or cannot be read."""


class InvalidSetting(SchedulerError):
    """A value in SYNC_SCHEDULER, or in its environment variable, is wrong."""


class KeyConflict(SchedulerError):
    """The key already belongs to a Run of another job or with another input."""


class QueueFull(SchedulerError):
    """As many Runs wait in the queue as its quota allows."""


class PayloadCodecError(SchedulerError):
    """A value cannot be encoded or decoded by PAYLOAD_CODEC."""


class JoinTimeout(SchedulerError):
    """The Run had not ended when the time given to join() was over."""


class ScheduleExists(SchedulerError):
    """A schedule of this name exists already."""


class UnknownJob(SchedulerError):
    """No job of this name is registered here."""


class LeaseLost(SchedulerError):
    """The Run no longer belongs to this attempt; its outcome is not recorded."""


class LeadershipLost(SchedulerError):
    """Another leadership has begun; nothing that this one does may take effect."""


class ServiceUnavailable(SchedulerError):
    """A server that is needed here cannot be reached or is too old."""
