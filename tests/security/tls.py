"""Certificates of our own making, and a door that speaks TLS in front of a plain server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.services.server import Server, Unavailable


def _openssl(*arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    except FileNotFoundError:
        raise Unavailable("no openssl on PATH") from None


def make_authority(folder: Path, name: str) -> Path:
    """A certificate authority; returns its certificate, beside which its key lies."""
    certificate = folder / f"{name}.pem"
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(certificate)),
    )
    return certificate


def make_certificate(folder: Path, authority: Path, host: str) -> Path:
    """A server's certificate for this host, in one file with its key."""
    names = f"IP:{host}" if host[0].isdigit() else f"DNS:{host}"
    key, request, signed = (folder / f"{host}.{kind}" for kind in ("key", "csr", "crt"))
    extensions = folder / f"{host}.ext"
    # From Python 3.13 on a certificate must say whose key has signed it.
    extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
    _openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}"),
        *("-keyout", str(key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority), "-days", "2"),
        *("-CAkey", str(authority.with_suffix(".key")), "-CAcreateserial"),
        *("-extfile", str(extensions), "-out", str(signed)),
    )
    both = folder / f"{host}.both"
    both.write_text(signed.read_text() + key.read_text())
    return both


@contextlib.contextmanager
def door(behind: Server, certificate: Path) -> Iterator[int]:
    """A port where TLS is spoken; what comes in goes on to the server in plain."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context, behind), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def _serve(listener: socket.socket, context: ssl.SSLContext, behind: Server) -> None:
    while True:
        try:
            raw, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_connect, args=(raw, context, behind), daemon=True).start()


def _connect(raw: socket.socket, context: ssl.SSLContext, behind: Server) -> None:
    # A client that does not trust us hangs up in the middle of the greeting.
    with (
        contextlib.suppress(OSError),
        raw,
        context.wrap_socket(raw, server_side=True) as outer,
        socket.create_connection((behind.host, behind.port)) as inner,
    ):
        back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
        back.start()
        _copy(outer, inner)
        back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
