"""The files that become an app; `write.py` says which go where."""
