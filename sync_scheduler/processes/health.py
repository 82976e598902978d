"""A port for liveness probes: says whether the node works, and names nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sync_scheduler.errors import ServiceUnavailable


def serve(port: int, is_alive: Callable[[], bool]) -> ThreadingHTTPServer:
    """Answer on this port until `shutdown()`; raises one sentence if the port cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the standard library's name
            alive = is_alive()
            body = b"ok\n" if alive else b"not ok\n"
            self.send_response(200 if alive else 503)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return None

    try:
        server = ThreadingHTTPServer(("0.0.0.0", port), Handler)  # noqa: S104  # probes come from outside
    except OSError as error:
        raise ServiceUnavailable(
            f"The health port {port} cannot be opened: {error.strerror}."
        ) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
