"""One seed for all that is left to chance; `FAULTS_SEED=...` gives the same choices again.

What several processes do at the same time is not replayed by it: the same victims are chosen after
the same pauses, and meet whatever they are doing then.
"""

from __future__ import annotations

import os
import random

SEED = os.environ.get("FAULTS_SEED") or str(random.SystemRandom().randrange(10**9))


def chance(*purpose: object) -> random.Random:
    """A generator of its own for each purpose, so that one test's draws do not shift another's."""
    return random.Random(":".join(map(str, (SEED, *purpose))))
