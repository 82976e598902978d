"""Which installation this is: one id per database and namespace, made once and kept."""

from __future__ import annotations

import uuid

from sync_scheduler import conf
from sync_scheduler.models import Gate
from sync_scheduler.store.locking import alias

# The id is the name of a gate that no job can have: a job's gate holds a colon further on.
_PREFIX = "installation/"


def identify() -> str:
    """The id of this installation; of several that were made at once the first one counts."""
    return _known() or _make()


def is_its_name(gate: str) -> bool:
    """Whether this gate is none, and holds the id of an installation."""
    return gate.startswith(_PREFIX)


def _known() -> str:
    rows = Gate.objects.filter(name__startswith=_PREFIX).order_by("id")
    name = rows.values_list("name", flat=True).first()
    return "" if name is None else name.removeprefix(_PREFIX)


def _make() -> str:
    name = f"{_PREFIX}{uuid.uuid4().hex}"
    Gate.objects.using(alias()).create(namespace=conf.get().NAMESPACE, name=name)
    return _known()
