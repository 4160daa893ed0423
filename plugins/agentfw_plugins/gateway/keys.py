"""Keys by user: a digest of each key, and what the key may do, in a file or in the database that gateways share.

A key is 256 random bits, so nobody can guess it from its digest, however fast digests are computed. That's why SHA-256
is enough, where a password would need a slow function.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder, write_whole

from ..protocols import BadRequest

_WAIT = 30.0  # seconds to wait for another command that changes the file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    digest: str
    created: str
    user: str | None
    """The user that all its requests are of. None: a program's, which names the user in each request."""
    per_minute: int | None = None
    """Maximum number of answers that it may ask for in a minute."""


class Keys:
    place: str

    def __init__(self) -> None:
        self._asked: dict[str, tuple[float, float]] = {}  # how many answers each key may still ask for, and as of when

    @property
    def exists(self) -> bool:
        raise NotImplementedError

    def known(self) -> Mapping[str, Key]:
        """All keys as they are by now, by their digests."""
        raise NotImplementedError

    def insert(self, key: Key) -> None:
        """Raises UsageError if there is one of this name."""
        raise NotImplementedError

    def revoke(self, name: str) -> None:
        """Remove a key. Its sessions stay."""
        raise NotImplementedError

    def keys(self) -> Sequence[Key]:
        return list(self.known().values())

    def find(self, secret: str) -> Key | None:
        # A look-up by digest says nothing about how much of a wrong key is right.
        return self.known().get(_digest(secret))

    def add(self, name: str, *, user: str | None = "", per_minute: int | None = None) -> str:
        """Add a key of a user, by default the one of the same name. Returns the secret, which is not stored."""
        user = name if user == "" else user
        if not _NAME.fullmatch(name):
            words = f'"{name}" can\'t be the name of a key'
            raise UsageError(words, fix="use 1 to 100 letters and digits, and . _ @ + - after the first")
        if user is not None and not (user.isprintable() and len(user) <= 200):
            raise UsageError(f"{user!r} can't be a user", fix="use at most 200 printable characters")
        secret = f"agentfw-{secrets.token_urlsafe(32)}"
        self.insert(Key(name, _digest(secret), datetime.now(UTC).isoformat(timespec="seconds"), user, per_minute))
        return secret

    async def count(self, key: Key) -> None:
        """Count an answer that is asked for. Raises BadRequest (429) beyond the limit of the key."""
        if key.per_minute is not None:
            now = time.monotonic()
            left, then = self._asked.get(key.name, (None, now))
            self._asked[key.name] = self.left_after(key, left, now - then), now

    @staticmethod
    def left_after(key: Key, left: float | None, seconds: float) -> float:
        """How many answers a key may ask for after this one, so many seconds after it could ask for `left`."""
        most = float(key.per_minute or 0)
        left = most if left is None else min(most, left + max(0.0, seconds) * most / 60)
        if left < 1:
            words, wait = f"this key may ask for {key.per_minute} answers a minute", int((1 - left) * 60 / most) + 1
            raise BadRequest(words, 429, code="rate_limit_exceeded", headers={"retry-after": str(wait)})
        return left - 1


class KeyFile(Keys):
    """A file of keys. Each look-up sees the file as it is by then."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.place = path, str(path)
        self._read: tuple[int, int, int] | None = None  # what tells the version of the file that was read from others
        self._keys = dict[str, Key]()

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def insert(self, key: Key) -> None:
        with self._changing() as keys:
            if key.name in keys:
                raise key_exists(key.name)
            keys[key.name] = key

    def revoke(self, name: str) -> None:
        with self._changing() as keys:
            if keys.pop(name, None) is None:
                raise no_such_key(name, self.place)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Key]]:
        """The keys by name, to be changed in the block, and by no other command meanwhile."""
        with alone_with(self.path):
            keys = {key.name: key for key in self.keys()}
            yield keys
            rows = [asdict(key) for key in keys.values()]
            write_whole(self.path, json.dumps({"keys": rows}, indent=2) + "\n", mode=0o600)

    def known(self) -> Mapping[str, Key]:
        try:
            found = self.path.stat()
            version = (found.st_mtime_ns, found.st_ino, found.st_size)
            if version != self._read:
                rows = json.loads(self.path.read_text("utf-8"))["keys"]
                self._read, self._keys = version, {key.digest: key for key in (Key(**row) for row in rows)}
        except FileNotFoundError:
            # A file that was there and is gone lets nobody in.
            self._read, self._keys = None, {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._read, self._keys = None, {}
            words = f"can't read the keys in {self.path}: {error}"
            raise StorageError(words, fix="restore the file, or remove it and add keys again") from error
        return self._keys


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Let no other process change a file meanwhile. SQLite's lock waits, and ends with its process."""
    make_folder(path.parent)
    try:
        with closing(sqlite3.connect(f"{path}.lock", timeout=_WAIT, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
    except sqlite3.Error as error:
        raise StorageError(f"can't change {path}: {error}", fix="see whether it can be written") from error


def key_exists(name: str) -> UsageError:
    return UsageError(f'there is a key "{name}" already', fix=f"agentfw serve keys revoke {name}")


def no_such_key(name: str, place: str) -> UsageError:
    return UsageError(f'there is no key "{name}" in {place}', fix="see: agentfw serve keys list")


def is_weak(secret: str) -> bool:
    """Whether a key that somebody made up can be guessed by trying."""
    return len(secret) < 16 or len(set(secret)) < 8


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
