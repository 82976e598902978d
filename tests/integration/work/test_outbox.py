"""Reports on their way from a child to its parent."""

from __future__ import annotations

import decimal
import fractions
import socket
from typing import Any

import pytest

from sync_scheduler import JobContext
from sync_scheduler.processes.child import Outbox
from sync_scheduler.work.backing import WorkerBacking
from sync_scheduler.work.wire import Order, Reader, note


def test_a_report_does_not_wait_for_a_handler_that_takes_long() -> None:
    # B1: it would look as if its Run were still running
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        outbox, reader = Outbox(ours), Reader()
        for number in range(3):
            outbox.add(note("end", number), flush=False)
            # Nothing else comes that could take it along.
            assert [list(one) for one in reader.feed(theirs.recv(4096))] == [["end", number]]


@pytest.mark.parametrize("progress", [decimal.Decimal("0.5"), fractions.Fraction(1, 2)])
def test_no_kind_of_number_in_a_heartbeat_keeps_reports_from_the_parent(progress: Any) -> None:
    # B4: what cannot be sent would stand in front of all that this child ever reports
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        order = Order("a" * 32, "tests.progress", {}, 1, 1, "submit", None, 0, "node")
        outbox = Outbox(ours)
        JobContext(backing=WorkerBacking(order, outbox.add)).heartbeat(progress)
        [told] = Reader().feed(theirs.recv(4096))
        assert told[:3] == ["progress", order.run, 0.5]
