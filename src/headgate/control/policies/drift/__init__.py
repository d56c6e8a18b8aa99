"""Drift-plus-penalty: the paper's policies."""
