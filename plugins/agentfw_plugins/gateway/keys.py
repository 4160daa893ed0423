"""Keys by user: a file that has a digest of each key, and what the key may do.

A key is 256 random bits, so nobody can guess it from its digest, however fast digests are computed. That's why SHA-256
is enough, where a password would need a slow function.

    keys = KeyFile(Path("runs/keys.json"))
    secret = keys.add("ada")            # shown once, and stored nowhere
    keys.find(secret)                   # Key(name="ada", user="ada", ...), or None
    keys.revoke("ada")                  # holds from the next request on
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder, write_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Key:
    """What is stored of a key."""

    name: str
    digest: str
    created: str
    user: str | None
    """The user that all its requests are of. None: a program's, which names the user in each request."""
    per_minute: int | None = None
    """Maximum number of answers that it may ask for in a minute."""
    concurrency: int | None = None
    """Maximum number of its requests at once, those that wait included."""


class KeyFile:
    """A file of keys. Each look-up sees the file as it is by then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[int, int, int] | None = None
        """What tells the version of the file that was read from others."""
        self._keys = dict[str, Key]()

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def keys(self) -> Sequence[Key]:
        """All keys, the oldest first."""
        self._refresh()
        return list(self._keys.values())

    def find(self, secret: str) -> Key | None:
        """The key with this secret."""
        self._refresh()
        # A look-up by digest says nothing about how much of a wrong key is right.
        return self._keys.get(_digest(secret))

    def add(
        self, name: str, *, user: str | None = "", per_minute: int | None = None, concurrency: int | None = None
    ) -> str:
        """Add a key of a user, by default the one of the same name. Returns the secret, which is not stored."""
        user = name if user == "" else user
        if not _NAME.fullmatch(name):
            raise UsageError(
                f'"{name}" can\'t be the name of a key',
                fix="use 1 to 100 letters and digits, and . _ @ + - after the first",
            )
        if user is not None and not (user.isprintable() and len(user) <= 200):
            raise UsageError(f"{user!r} can't be a user", fix="use at most 200 printable characters")
        known = self.keys()
        if any(key.name == name for key in known):
            raise UsageError(f'there is a key "{name}" already', fix=f"agentfw serve keys revoke {name}")
        secret = f"agentfw-{secrets.token_urlsafe(32)}"
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*known, Key(name, _digest(secret), created, user, per_minute, concurrency)])
        return secret

    def revoke(self, name: str) -> None:
        """Remove a key. Its sessions stay."""
        known = self.keys()
        left = [key for key in known if key.name != name]
        if len(left) == len(known):
            raise UsageError(f'there is no key "{name}" in {self.path}', fix="see: agentfw serve keys list")
        self._write(left)

    def _write(self, keys: Sequence[Key]) -> None:
        make_folder(self.path.parent)
        write_whole(self.path, json.dumps({"keys": [asdict(key) for key in keys]}, indent=2) + "\n", mode=0o600)

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
            version = (found.st_mtime_ns, found.st_ino, found.st_size)
            if version == self._read:
                return
            keys = [Key(**row) for row in json.loads(self.path.read_text("utf-8"))["keys"]]
        except FileNotFoundError:
            # A file that was there and is gone lets nobody in.
            version, keys = (0, 0, 0), []
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._read, self._keys = None, {}
            raise StorageError(
                f"can't read the keys in {self.path}: {error}", fix="restore the file, or remove it and add keys again"
            ) from error
        self._read, self._keys = version, {key.digest: key for key in keys}


def is_weak(secret: str) -> bool:
    """Whether a key that somebody made up can be guessed by trying."""
    return len(secret) < 16 or len(set(secret)) < 8


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
