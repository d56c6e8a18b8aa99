"""Modules of a user's own."""

import itertools

import pytest


@pytest.fixture
def own_module(tmp_path, monkeypatch, forgets_modules):
    """Writes a module into the working folder and gives its name, a new one each
    time.
    """
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()

    def write(source):
        name = f"own_{tmp_path.name}_{next(numbers)}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write
