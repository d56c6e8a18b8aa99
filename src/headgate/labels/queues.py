"""The queues that come with headgate, by the `kind` that a gate's file names."""

from headgate.labels.folder import FolderQueue

KINDS: dict[str, type] = {"folder": FolderQueue}
