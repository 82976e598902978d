"""Web servers fork after they have used the database and Redis."""

from __future__ import annotations

import json

from sync_scheduler.models import Run
from tests.faults.harness import Site

FORKING = """
import json, os, sys
from django.db import connections
from sync_scheduler.models import Run
from sync_scheduler.processes.service import Plan, Service
from tests.testapp import jobs

jobs.noop.submit()
list(Run.objects.all())
first = jobs.noop.using(key="before").submit()
# Django's own rule: no process may go on with the connection of another.
connections.close_all()
pipes = []
for number in range(8):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            ids = [str(jobs.noop.submit().id) for _ in range(20)]
            ids += [str(run.id) for run in jobs.noop.submit_many([{}] * 20)]
            again = jobs.noop.using(key="before").submit()
            answer = {"ids": ids, "again": str(again.id), "node": Service(Plan()).node}
        except BaseException as error:
            answer = {"error": repr(error)}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    pipes.append(read)
mine = [str(jobs.noop.submit().id) for _ in range(20)]
answers = []
for read in pipes:
    text = b""
    while part := os.read(read, 65536):
        text += part
    answers.append(json.loads(text))
print(json.dumps({"mine": mine, "first": str(first.id), "answers": answers}))
"""


def test_eight_forked_processes_submit_beside_their_parent(redis_site: Site) -> None:
    # B5, C5; W20, faults A21
    done = redis_site.run_python(
        FORKING,
        PYTHONWARNINGS="ignore::DeprecationWarning",
        # Nine processes at once: none of them is to take waiting for its turn for an outage.
        SYNC_SCHEDULER_REDIS_TIMEOUT="5",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    answers = report["answers"]
    assert not [answer for answer in answers if "error" in answer], done.stderr
    ids = [one for answer in answers for one in answer["ids"]] + report["mine"]
    assert len(set(ids)) == len(ids) == 8 * 40 + 20
    assert Run.objects.filter(id__in=ids).count() == len(ids)
    assert {answer["again"] for answer in answers} == {report["first"]}
    assert len({answer["node"] for answer in answers}) == 8
    # No protocol errors: neither said nor swallowed.
    assert "Redis" not in done.stderr, done.stderr
    redis_site.start("--no-dispatch", "--processes=1")
    redis_site.wait_ended(Run.objects.all(), 60)
