"""Codecs for payloads: a toy that never gives the same text twice, and ones that do not work."""

from __future__ import annotations

import base64
import hashlib
import os


class Toy:
    """Not a cipher, but as unlike its plain text, and as picky about its key, as one."""

    key = b"one key"

    def encode(self, text: str) -> str:
        salt, data = os.urandom(8), text.encode()
        return base64.b64encode(salt + self._proof(data) + self._mixed(salt, data)).decode()

    def decode(self, text: str) -> str:
        raw = base64.b64decode(text)
        data = self._mixed(raw[:8], raw[16:])
        if self._proof(data) != raw[8:16]:
            raise ValueError(f"the key {self.key!r} does not fit")
        return data.decode()

    def _proof(self, data: bytes) -> bytes:
        return hashlib.sha256(self.key + data).digest()[:8]

    def _mixed(self, salt: bytes, data: bytes) -> bytes:
        stream = b""
        while len(stream) < len(data):
            stream += hashlib.sha256(self.key + salt + str(len(stream)).encode()).digest()
        return bytes(a ^ b for a, b in zip(data, stream, strict=False))


class OtherKey(Toy):
    key = b"another key"


class Refusing(Toy):
    def encode(self, text: str) -> str:
        raise RuntimeError(f"no key for {text}")


UNSPEAKABLE = "unspeakable"


class Picky(Toy):
    def encode(self, text: str) -> str:
        if UNSPEAKABLE in text:
            raise RuntimeError("not this word")
        return super().encode(text)


class Bytes(Toy):
    def encode(self, text: str) -> str:
        return text.encode()  # type: ignore[return-value]  # a common mistake


class HalfMade:
    def encode(self, text: str) -> str:
        return text


def made_by_a_function() -> Toy:
    return Toy()


def broken() -> Toy:
    raise RuntimeError("no key in the environment")
