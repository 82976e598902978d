"""The settings of a project that sets a time limit for every socket, as many do."""

import socket

from tests.settings import *  # noqa: F403

socket.setdefaulttimeout(0.2)
