"""The numbers in the text format that Prometheus reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from sync_scheduler import clock
from sync_scheduler.store.reports.measures import Measures, measure

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The text is kept for this many times as long as it took to make: on a large history, scraping
# costs the database at most a tenth of its time, and on a small one nobody sees an old number.
_KEEP_FACTOR = 9.0

_lock = threading.Lock()
_kept: tuple[float, str] = (0.0, "")

Sample = tuple[Mapping[str, str], float]


def text() -> str:
    """All metrics; made by one request at a time."""
    global _kept
    with _lock:
        until, kept = _kept
        start = clock.monotonic()
        if kept and start < until:
            return kept
        made = render(measure())
        end = clock.monotonic()
        _kept = (end + (end - start) * _KEEP_FACTOR, made)
        return made


def render(found: Measures) -> str:
    ended = [({"job": job, "status": state}, n) for (job, state), n in sorted(found.ended.items())]
    families: list[tuple[str, str, Iterable[Sample]]] = [
        ("leader", "Whether a leader holds a lease (1) or nobody dispatches (0).",
         [({}, float(found.is_led))]),
        ("epoch", "Number of the current leadership; 0 while there is none.", [({}, found.epoch)]),
        ("nodes", "Nodes that have reported within their lease.", [({}, found.nodes)]),
        ("runs_last_24h", "Runs that ended within the last 24 hours.", ended),
        ("runs_running", "Runs that are running.", _by("job", found.running)),
        ("runs_waiting", "Runs that are due and have not started.", _by("queue", found.waiting)),
        ("oldest_waiting_seconds", "How long the oldest ready Run has been waiting.",
         [({}, found.oldest_waiting_seconds)]),
        ("schedules", "Schedules by state; one can be in several.",
         _by("state", found.schedules)),
        ("dead_letters_open", "Dead letters that nobody has dealt with.",
         [({}, found.open_letters)]),
    ]  # fmt: skip
    lines: list[str] = []
    for name, meaning, samples in families:
        full = f"sync_scheduler_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge"]
        lines += [f"{full}{_labels(labels)} {value:g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _by(label: str, numbers: Mapping[str, int]) -> list[Sample]:
    return [({label: name}, number) for name, number in sorted(numbers.items())]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
