"""The queues that come with headgate, by the `kind` that a gate's file names."""

from headgate.labels.folder import FolderQueue
from headgate.labels.label_studio import LabelStudio

KINDS: dict[str, type] = {"folder": FolderQueue, "label-studio": LabelStudio}
