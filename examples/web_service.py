"""A compiled model behind HTTP: POST an .npz of inputs to /run, get one of outputs.

    python examples/web_service.py model.rcx --port=8000 --instances=2

Several requests run at once, each on an instance with threads of its own. GET /health says what the
model takes. It needs numpy and the runtime, not the compiler.
"""

from __future__ import annotations

import argparse
import io
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

import rcompiler
from rcompiler.errors import BusyError, CompilerError

MOST_BYTES = 64 << 20  # of a request


class Service(ThreadingHTTPServer):
    """Answers requests by a pool of instances of one model."""

    daemon_threads = False  # a stop waits for the requests that run

    def __init__(self, address: tuple[str, int], pool: rcompiler.Pool) -> None:
        super().__init__(address, Handler)
        self.pool = pool


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Service
    timeout = 30  # seconds in which a client has to send what it announced

    def do_GET(self) -> None:
        if self.path != "/health":
            return self._answer(404, {"error": "there are /health and /run"})
        inputs = [
            {"name": t.name, "shape": t.shape, "dtype": t.dtype} for t in self.server.pool.inputs
        ]
        return self._answer(200, {"inputs": inputs})

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if self.path != "/run":
            return self._answer(404, {"error": "there are /health and /run"})
        if not size.isdecimal() or int(size) > MOST_BYTES:
            return self._answer(413, {"error": f"give a Content-Length of at most {MOST_BYTES}"})
        try:
            # allow_pickle=False: what a stranger sends is data
            with np.load(io.BytesIO(self.rfile.read(int(size))), allow_pickle=False) as sent:
                inputs = {name: sent[name] for name in sent.files}
        except (ValueError, OSError, AttributeError, EOFError) as error:
            return self._answer(400, {"error": f"the body is no .npz file: {error}"})
        try:
            results = self.server.pool(inputs)
        except BusyError as error:
            return self._answer(503, {"error": str(error)})
        except CompilerError as error:  # another shape, an index out of range, ...
            return self._answer(400, {"error": str(error)})
        made = io.BytesIO()
        np.savez(made, **dict(zip(results.names, results, strict=True)))
        return self._send(200, "application/octet-stream", made.getvalue())

    def _answer(self, status: int, what: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(what).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="an .rcx file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--instances", type=int, default=2)
    options = parser.parse_args()
    model = rcompiler.load(options.model)
    with rcompiler.Pool(model, instances=options.instances, eus=1) as pool:
        service = Service((options.host, options.port), pool)
        for number in (signal.SIGTERM, signal.SIGINT):
            # `shutdown` waits for the loop, which the handler would interrupt
            signal.signal(number, lambda *_: threading.Thread(target=service.shutdown).start())
        print(f"http://{options.host}:{service.server_port}", flush=True)
        with service:
            service.serve_forever()


if __name__ == "__main__":
    main()
