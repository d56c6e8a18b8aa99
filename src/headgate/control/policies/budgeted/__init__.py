"""Policies that buy places of the buffers with a purse that is never overdrawn."""
