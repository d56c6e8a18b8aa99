"""Theorem 1 beside runs of it: logistic regression, where the loss is convex and
everything in the bound can be measured.
"""
