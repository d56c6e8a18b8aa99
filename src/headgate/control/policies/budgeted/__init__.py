"""Policies that renew places of the buffers and never spend more than the budget
allows.
"""
