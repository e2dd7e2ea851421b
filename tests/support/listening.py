"""A real server in a thread, on a free port of the loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from purlin.app.connections import Connection, Server
from purlin.app.keys import Keyring
from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index.encoder import TextEncoder
from tests.support.serving import PATIENT


@contextmanager
def listening(home: Path, encoder: TextEncoder, **settings: Any) -> Iterator[str]:
    """Serve `home` until the block ends, and yield the URL."""
    values = Settings(home=home, **PATIENT | {"shutdown_timeout_s": 5} | settings)
    app = create_app(values, encoder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app,
            log_config=None,
            ws="none",
            timeout_graceful_shutdown=values.shutdown_timeout_s,
            http=Connection,
        )
        server = Server(config, Keyring())

        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
