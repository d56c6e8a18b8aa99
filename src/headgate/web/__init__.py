"""The page: an HTTP server that shows run folders, also while they are written, and
plans runs. It writes no files.
"""
