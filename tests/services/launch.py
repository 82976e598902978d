"""Become a server: drop privileges, die with the test run, exec.

Run as a script, `launch.py SIGNAL UID:GID|- PROGRAM ARGUMENT...`. A test run that is killed
cannot stop its servers any more, so on Linux the kernel is asked to send them SIGNAL.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(signal: str, account: str, program: str, *arguments: str) -> None:
    if account != "-":
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: changing the user clears the wish.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal))
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
