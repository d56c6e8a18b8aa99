"""Kernels written by hand, behind the contract of `headgate.simulation.executors`:
nothing else imports them. See README.md.
"""

__all__: list[str] = []
