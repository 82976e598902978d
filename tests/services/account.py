"""Who a server runs as, and the temporary folder it owns.

PostgreSQL, MariaDB and PgBouncer refuse to run as root. As root (a container) they get an
unprivileged account; as an ordinary user they run as that user.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Account:
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


def unprivileged(*preferred: str) -> Account | None:
    """None when we are an ordinary user already, else the first account that exists."""
    if os.geteuid() != 0:
        return None
    for name in (*preferred, "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    # The kernel asks for no entry in /etc/passwd.
    return Account(uid=65534, gid=65534)


def make_folder(name: str, account: Account | None) -> Path:
    """A new folder that the account can reach and owns; short, since sockets go into it."""
    folder = Path(tempfile.mkdtemp(prefix=f"ss-{name}-", dir=_root(account)))
    if account is not None:
        account.own(folder)
    return folder


def run(*argv: str, folder: Path, account: Account | None) -> subprocess.CompletedProcess[str]:
    """Run a preparing command (initdb and the like) as the account; never raises by itself."""
    return subprocess.run(
        argv,
        cwd=folder,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        env={**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _root(account: Account | None) -> Path:
    root = Path(tempfile.gettempdir())
    # A socket's path may have about 100 characters, and the account must get there.
    if len(str(root)) <= 60 and (account is None or _is_open_to_all(root)):
        return root
    return Path("/tmp")


def _is_open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.resolve().parents))
