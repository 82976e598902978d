"""Real servers for the tests: started on free ports in temporary folders, ended by their pid.

Each module starts one kind of server with `start(...)` and returns a `Server`. What the
machine cannot provide raises `Unavailable` with the reason.
"""

from tests.services.server import Server, Unavailable

__all__ = ["Server", "Unavailable"]
