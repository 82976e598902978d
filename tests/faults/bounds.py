"""How long something may take: what is promised, where the machine does nothing else.

`make test` runs two suites at a time on two cores, and a process that waits for its turn is late
without being wrong. There more is allowed, so that what fails is a fault and not the machine.
"""

from __future__ import annotations

import os

# Set by `make test-faults` and `make figures`, which run alone.
IS_ALONE = os.environ.get("FAULTS_ALONE") == "1"


def bound(promised: float, *, beside_others: float) -> float:
    return promised if IS_ALONE else beside_others
