"""A SuperNode of a deployment, and why it ended."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.flower.deploy.processes import environment, start

REFUSED = 305
"""Flower's code for a key that is not registered, or whose last SuperNode the SuperLink still counts as present"""
HOPELESS = (302, 303, 304, 600, 603, 604, 606)
"""codes after which another start would end the same way"""


@dataclass(frozen=True)
class SuperNode:
    """How to start it; its folder holds its log and, by default, its key and what its clients have bought."""

    folder: Path
    superlink: str
    """HOST:PORT"""
    authority: Path
    key: Path
    port: int
    mark: str
    config: Mapping[str, str | int] = field(default_factory=dict)
    """what its ClientApps find in `context.node_config`"""
    more: Mapping[str, str] = field(default_factory=dict)
    """further environment variables"""

    @property
    def log(self) -> Path:
        return self.folder / "supernode.log"

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headgate.flower.deploy.inside", "supernode", "--superlink", self.superlink]
        command += ["--root-certificates", str(self.authority)]
        command += ["--auth-supernode-private-key", str(self.key), "--host", "127.0.0.1", "--port", str(self.port)]
        config = {**self.config, "headgate-key": str(self.key)}
        command += ["--node-config", " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())]
        return start(command, self.log, environment(self.folder / "home", self.mark, self.more))

    def joined(self) -> bool:
        """Whether the last start in its log has reached the SuperLink."""
        return "SuperNode ID:" in self._last_start()

    def exit_code(self) -> int | None:
        """Flower's own code of the last end, which is not the process' exit code; None: its log has none."""
        found = re.findall(r"Exit Code: (\d+)", self._last_start())
        return int(found[-1]) if found else None

    def correctable(self) -> str | None:
        """Why the last start was refused, if that is a clock or a certificate: it ends when those are put right."""
        found = re.findall(r"clock: \d+ s .*|certificate (?:has expired|is not yet valid)", self._last_start())
        return str(found[-1]) if found else None

    def _last_start(self) -> str:
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        return text.rpartition("Starting Flower SuperNode")[2]
