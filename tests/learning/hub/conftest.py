"""The hub, serving."""

import threading
from collections.abc import Iterator

import pytest

from headgate.learning import hub

from .here import CONTENT, Hub


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    monkeypatch.setattr(hub, "TIMEOUT", 5.0)
    monkeypatch.setenv("no_proxy", "*")
    with Hub() as server:
        server.files = {
            "mnist/train-00000-of-00001.parquet": CONTENT,
            "mnist/test-00000-of-00001.parquet": CONTENT[:1000],
            "README.md": b"# not a parquet file",
            ".gitattributes": b"*.parquet filter=lfs",
        }
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
