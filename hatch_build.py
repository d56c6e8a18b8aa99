"""What the metadata of a package says of the place where the repository lies.

The place is taken from the environment of a release on GitHub, or from git. Where it is
not known the package names none, and the description has no link that leads nowhere.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(
    r"(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\((?!https?:|#)([^)\s]+)\)"
)
"""a relative link or picture of Markdown: its mark, its text, which may be a picture,
and its target
"""


class Place(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        home = repository(root)
        text = described((root / "README.md").read_text("utf-8"), home)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(home)


def repository(root: Path) -> str:
    """Return the address of the repository; empty if it is not known."""
    name = os.environ.get("GITHUB_REPOSITORY")
    if name:
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    asked = ["git", "-C", str(root), "config", "--get", "remote.origin.url"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return ""
    address = re.sub(r"^git@([^:]+):", r"https://\1/", found.stdout.strip())
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]+", address):
        return ""  # a folder, or an address with a password
    return address.removesuffix(".git")


def urls(home: str) -> dict[str, str]:
    if not home:
        return {}
    return {
        "Source": home,
        "Documentation": f"{home}/blob/main/docs/index.md",
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }


def described(readme: str, home: str) -> str:
    """Return the text with absolute links, or without those that would lead nowhere."""

    def put(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        if not home:
            return "" if mark else text
        kind = "raw" if mark else "blob"
        return f"{mark}[{text}]({home}/{kind}/main/{target})"

    return LINK.sub(put, readme)
