"""What is true: every row that must survive.

Rows are changed by the verbs in `store`, and by nothing else.
"""

from sync_scheduler.models.attempt import Attempt
from sync_scheduler.models.dead_letter import DeadLetter
from sync_scheduler.models.event import Event
from sync_scheduler.models.leader import Leader, Term
from sync_scheduler.models.node import Node
from sync_scheduler.models.queue import Gate, Queue
from sync_scheduler.models.run import Run
from sync_scheduler.models.schedule import Schedule
from sync_scheduler.models.step import Step

__all__ = [
    "Attempt",
    "DeadLetter",
    "Event",
    "Gate",
    "Leader",
    "Node",
    "Queue",
    "Run",
    "Schedule",
    "Step",
    "Term",
]
