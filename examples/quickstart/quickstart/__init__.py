"""Federated averaging, as a project on Flower begins; headgate.patch beside it brings
headgate in.
"""
