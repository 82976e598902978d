"""Reports on their way from a child to its parent."""

from __future__ import annotations

import socket

from sync_scheduler.processes.child import Outbox
from sync_scheduler.work.wire import Reader, note


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
