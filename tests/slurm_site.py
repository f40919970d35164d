"""A real Slurm of one node on this machine, in a folder of its own, reached by loopback alone."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "setpriv")
LONGEST_ARRAY = 10
"""Highest task number of an array here; sites have 1000."""
STARTS_WITHIN = 60.0

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
MaxArraySize={array_size}
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm here; empty if it can be had."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)} (Debian packages slurm-wlm and munge)"
    return "" if os.geteuid() == 0 else "its daemons are started by root"


class SlurmSite:
    """Starts munged, slurmctld and slurmd, and ends what it started."""

    def __init__(self) -> None:
        # Not below pytest's folder, which the user munge may not enter.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.daemons: list[subprocess.Popen] = []
        self.config = self.folder / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.config)}

    def start(self) -> None:
        """Return when the node takes jobs."""
        self.folder.chmod(0o755)
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir()
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        for path in (key, key.parent):
            shutil.chown(path, "munge", "munge")
        self.config.write_text(
            CONFIG.format(
                host=socket.gethostname().split(".")[0],
                controller=_free_port(),
                node=_free_port(),
                folder=self.folder,
                array_size=LONGEST_ARRAY + 1,
            )
        )
        munge = ("socket", "pid-file", "log-file", "seed-file")
        as_munge = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups"]
        self._daemon(
            *as_munge,
            "munged",
            "--foreground",
            f"--key-file={key}",
            *(f"--{name}={key.parent}/{name.removesuffix('-file')}" for name in munge),
        )
        _wait(lambda: (key.parent / "socket").exists(), "munged")
        self._daemon("slurmctld", "-D", "-f", str(self.config))
        self._daemon("slurmd", "-D", "-f", str(self.config))
        _wait(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T"), "the node")

    def stop(self) -> None:
        """Cancel jobs, end the daemons, remove the folder."""
        self.call("scancel", "--me")
        try:
            _wait(lambda: not self.call("squeue", "--noheader").strip(), "the end of jobs")
        finally:
            for daemon in reversed(self.daemons):
                daemon.terminate()
            for daemon in reversed(self.daemons):
                daemon.wait(timeout=30)
            shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *command: str) -> str:
        """What a command of Slurm's says."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        return done.stdout

    def _daemon(self, *command: str) -> None:
        name = next(word for word in command if word in PROGRAMS[:3])
        with open(self.folder / f"{name}.log", "wb") as talk:
            started = subprocess.Popen(command, env=self.env, stdout=talk, stderr=talk)
        self.daemons.append(started)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _wait(holds, what: str) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while not holds():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.1)
