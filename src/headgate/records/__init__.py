"""The run folder: one writer, one reader."""
