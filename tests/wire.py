"""A wire between a client and a server, which a test can cut at any moment."""

import socket
from contextlib import suppress
from threading import Thread

PIECE = 65_536


class Wire:
    """Passes what comes on a port of its own to the port of a server, and back.

    `before` sees each piece of a client before it is passed on, and `after` each piece
    of the server; either may call `cut`.
    """

    def __init__(self, port, before=None, after=None):
        self.server, self.before, self.after = port, before, after
        self.pairs, self.is_open, self.ends = [], True, []
        self.own = socket.create_server(("127.0.0.1", 0))
        self.port = self.own.getsockname()[1]
        self.threads = [Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                near, _ = self.own.accept()
            except OSError:
                return
            if not self.is_open:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.server))
            self.ends += [near, far]
            self.pairs.append((near, far))
            for ends, hook in (((near, far), "before"), ((far, near), "after")):
                thread = Thread(target=self._pass, args=(*ends, hook), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _pass(self, source, target, hook):
        with suppress(OSError):
            while piece := source.recv(PIECE):
                seen = getattr(self, hook)
                if seen is not None and seen(piece):
                    self.cut()
                    return
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Cut what is connected; new connections are accepted."""
        pairs, self.pairs = self.pairs, []
        for end in (end for pair in pairs for end in pair):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.is_open = False
        self.cut()
        self.own.shutdown(socket.SHUT_RDWR)
        self.own.close()
        for thread in self.threads:
            thread.join(10)
        for end in self.ends:
            end.close()
