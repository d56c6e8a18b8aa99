"""Ours beside the paper's: what headgate closes of the gap to the oracle within both limits, and what each part is worth."""
