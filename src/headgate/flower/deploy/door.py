"""The front as a process that is kept running."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headgate.flower.deploy.certificates import Certificates
from headgate.flower.deploy.processes import await_port, environment, start
from headgate.flower.deploy.superlink import SuperLink

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""addresses that mean all of them, and one at which a process that listens there is found"""


@dataclass(frozen=True)
class Door:
    """What stands before a SuperLink; frozen, so that it can be started again as it was."""

    link: SuperLink
    certificates: Certificates
    """whose server certificate SuperNodes see"""
    port: int
    host: str = "127.0.0.1"
    address: str = "127.0.0.1"
    """by which SuperNodes reach it; one of the names in its certificate"""

    @property
    def log(self) -> Path:
        return self.link.folder / "front.log"

    @property
    def where(self) -> str:
        return f"{self.address}:{self.port}"

    def start(self) -> subprocess.Popen[bytes]:
        """Returns when it listens."""
        command = [sys.executable, "-m", "headgate.flower.deploy.front", "--host", self.host, "--port", str(self.port)]
        command += ["--certificate", str(self.certificates.server), "--key", str(self.certificates.server_key)]
        command += ["--superlink", str(self.link.port), "--authority", str(self.link.certificates.authority)]
        command += ["--keys", str(self.link.keys)]
        process = start(command, self.log, environment(self.link.folder / "home", self.link.mark))
        try:
            await_port(process, self.port, self.log, host=EVERYWHERE.get(self.host, self.host))
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process
