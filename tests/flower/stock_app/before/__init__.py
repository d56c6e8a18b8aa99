"""Federated averaging, as a project on Flower begins."""
