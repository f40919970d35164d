"""The connection to a server behind a gallery: one per process, through restarts of the server.

An action whose connection breaks is done again on a new one, for a minute; so it must be one that
can be done twice (store.py sees to that for changes). Interrupts, threads and forks are met as by
the connection to a file.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.database.address import Address
from dcaplda.runtime.gallery.database.forks import watch

if TYPE_CHECKING:
    import psycopg

Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds for which a server that was there before is waited for."""
FIRST_PATIENCE = 3.0
"""The same of one that was never reached: the address may be wrong."""
CONNECT_SECONDS = 10
LOCK_SECONDS = 60
_LIFELINES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server or a network that is gone without a word is noticed within half a minute."""


def driver() -> Any:
    """psycopg, which the extra `postgres` brings."""
    try:
        import psycopg
    except ImportError as error:
        raise GalleryError(
            "a gallery on a server needs psycopg: pip install 'dcaplda[postgres]' "
            f"({' '.join(str(error).split())[:120]})"
        ) from None
    return psycopg


class ServerConnection:
    """A server, and the connection to it where there is one."""

    def __init__(self, address: Address) -> None:
        self._driver = driver()
        self.address = address
        self.path = address.shown
        self.lock = threading.RLock()
        self.opened = 0
        """How often the server was connected to."""
        self._connection: psycopg.Connection[Any] | None = None
        self._closed = False
        watch(self)

    def use(self, action: "Callable[[psycopg.Connection[Any]], Result]") -> Result:
        """Act with the connection of this process, again if it breaks, with errors in words."""
        with self.lock:
            begin, pause = time.monotonic(), 0.02
            while True:
                if self._closed:
                    raise GalleryError(f"{self.path}: the gallery was closed; open it again")
                try:
                    return action(self._ready())
                except self._driver.Error as error:
                    patience = PATIENCE if self.opened else FIRST_PATIENCE
                    if not self._passes(error) or time.monotonic() - begin > patience:
                        self.disconnect()
                        raise self._in_words(error) from None
                    self.disconnect()
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def alive(self) -> "psycopg.Connection[Any] | None":
        """The connection, if there is one that is at rest."""
        found = self._connection
        idle = self._driver.pq.TransactionStatus.IDLE
        fine = found is not None and not found.closed and found.info.transaction_status == idle
        return found if fine else None

    def _ready(self) -> "psycopg.Connection[Any]":
        """The connection, in no transaction."""
        found = self.alive()
        if found is not None:
            return found
        # An interrupt left it so, or this is a handler of signals in the middle of something:
        # whoever was in the middle notices, and starts again.
        self.disconnect()
        timeout = (
            {} if "connect_timeout" in self.address.server else {"connect_timeout": CONNECT_SECONDS}
        )
        made = self._driver.connect(
            self.address.server,
            autocommit=True,
            application_name="dcaplda",
            **_LIFELINES,
            **timeout,
        )
        try:
            gallery = self.address.gallery
            for setting in (
                f'search_path = "{gallery}"',
                f"lock_timeout = '{LOCK_SECONDS}s'",
                # A writer whose machine died must not keep the others waiting for ever.
                "idle_in_transaction_session_timeout = '60s'",
            ):
                made.execute(f"SET {setting}")
            if made.execute("SHOW synchronous_commit").fetchone() == ("off",):
                made.execute("SET synchronous_commit = on")
            if self.address.lag:
                made.execute(f'LISTEN "{channel(gallery)}"')
        except BaseException:
            made.close()
            raise
        self._connection = made
        self.opened += 1
        return made

    def _passes(self, error: Exception) -> bool:
        """Whether waiting helps: the server restarts, or the connection broke."""
        state = getattr(error, "sqlstate", None)
        if state is not None:
            # 57P01 to 57P03: it stops, crashed, or starts; 08: the connection; 25P03: idle;
            # 53300: others have all connections; 40001, 40P01: somebody else was in the way.
            return state[:2] == "08" or state in {
                "57P01",
                "57P02",
                "57P03",
                "25P03",
                "53300",
                "40001",
                "40P01",
            }
        text = str(error)
        refused = ("password", "authentication", "pg_hba.conf", "does not exist", "invalid")
        broken = isinstance(error, self._driver.OperationalError | self._driver.InterfaceError)
        return broken and not any(word in text for word in refused)

    def _in_words(self, error: Exception) -> GalleryError:
        text = " ".join(str(error).split())[:300] or type(error).__name__
        state = getattr(error, "sqlstate", None)
        if state == "42501":
            return GalleryError(
                f"{self.path}: this account may not do that ({text}); use one that may, or grant "
                "it (docs/galleries.md)"
            )
        if state == "55P03":
            return GalleryError(
                f"{self.path}: another process has been writing for more than {LOCK_SECONDS} s; "
                "try again later"
            )
        if state in ("42P01", "3F000"):
            return GalleryError(f"{self.path}: was removed while it was open; open it again")
        if isinstance(error, self._driver.OperationalError):
            return GalleryError(
                f"{self.path}: cannot be reached ({text}); look at server and address"
            )
        return GalleryError(f"{self.path}: {text}")

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Close it for good."""
        with self.lock:
            self._closed = True
            self.disconnect()


def channel(gallery: str) -> str:
    """On which changes of a gallery are told."""
    return f"dcaplda_{gallery}"


def transaction(
    connection: "psycopg.Connection[Any]", action: Callable[[], Result], begin: str = "BEGIN"
) -> Result:
    """Act in a transaction: all or nothing."""
    try:
        connection.execute(begin)
        result = action()
        connection.execute("COMMIT")
        return result
    except BaseException:
        undo(connection)
        raise


def undo(connection: "psycopg.Connection[Any]") -> None:
    """End a transaction, where there is one, without effect; or the connection, if it must be."""
    try:
        if not connection.closed and connection.info.transaction_status != 0:
            connection.execute("ROLLBACK")
    except Exception:
        connection.close()
