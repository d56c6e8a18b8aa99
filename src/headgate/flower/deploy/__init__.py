"""Flower's deployment engine, brought up with a private authority, TLS, node keys and a supervisor. Needs headgate[flower]."""
