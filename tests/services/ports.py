"""Free ports, from a range that outgoing connections never take.

A server binds its port a while after it was chosen (a database is made before), and a test that
stops one wants to start it on the same port again. Suites that run beside each other must not take
it meanwhile: whoever chose a port keeps its number to himself until his process ends.
"""

from __future__ import annotations

import random
import socket

# Below every usual ephemeral range, and so that the cluster bus (port + 10,000) is too.
FIRST, LAST = 12_000, 21_999
BUS_OFFSET = 10_000


def free_port() -> int:
    # Not the seeded generator: the random order of tests must not decide on ports, or two
    # runs with the same seed would race for the same ones.
    generator = random.SystemRandom()
    for _ in range(200):
        port = generator.randint(FIRST, LAST)
        if _is_free(port) and _is_free(port + BUS_OFFSET) and _reserve(port):
            return port
    raise RuntimeError(f"no free port between {FIRST} and {LAST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Take the same number of UDP, which no server here speaks and the kernel gives back."""
    mark = socket.socket(type=socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
    except OSError:
        mark.close()
        return False
    # Open until this process ends; not inherited by those that it starts.
    mark.detach()
    return True
