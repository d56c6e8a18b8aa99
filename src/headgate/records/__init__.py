"""The run folder: one owner, one writer, one reader."""

__all__ = ["chunks", "owner", "reader", "tables", "trackers", "writer"]
