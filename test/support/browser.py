"""A headless Chromium, driven over two pipes by its DevTools protocol: no package, no port."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
_FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
_PATIENCE_S = 60.0
# It reads commands from 3 and answers on 4.
_JOIN = """import os, sys
commands, answers, *program = sys.argv[1:]
os.dup2(int(commands), 3)
os.dup2(int(answers), 4)
os.execvp(program[0], program)"""


def find():
    """The program to run: $RC_BROWSER, or the first that is installed; None for none."""
    return os.environ.get("RC_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """with Browser() as browser: page = browser.open("file:///...")"""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="rc-browser-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        # Chromium's own sandbox needs what containers that run as root do not grant.
        flags = [*_FLAGS, f"--user-data-dir={self._folder.name}"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _JOIN, *map(str, theirs), find(), *flags, "about:blank"],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *theirs):
            os.close(end)
        self._buffer, self._number, self.events = b"", 0, []
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, TimeoutError):
            self._process.kill()
        self._process.wait(_PATIENCE_S)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def call(self, method, session=None, **parameters):
        """One command and its result; events that come before it are kept in `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        end = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 16)
            if not part:
                raise OSError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, address, *, dark=False, width=1400, height=860):
        """A page of its own, once its script says that it is ready."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=address)
        page.until("document.documentElement?.dataset.ready === 'yes'")
        page.settle()
        return page


class Page:
    """One open page."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def value(self, expression):
        """What a JavaScript expression is, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + _PATIENCE_S
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}; {self.complaints()}")
            time.sleep(0.05)

    def settle(self):
        """Wait until two frames are drawn."""
        self.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def key(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key,
                      text=text if kind == "keyDown" else "")  # fmt: skip
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path=None):
        """PNG bytes, also written to `path`."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path:
            Path(path).write_bytes(data)
        return data

    def colour(self, x, y):
        """(red, green, blue) of one pixel."""
        clip = {"x": int(x), "y": int(y), "width": 1, "height": 1, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip)
        png = base64.b64decode(shot["data"])
        packed, at = b"", 8
        while at < len(png):
            size = int.from_bytes(png[at : at + 4], "big")
            packed += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
            at += size + 12
        # of one pixel every filter of PNG leaves the bytes as they are
        return tuple(zlib.decompress(packed)[1:4])

    def complaints(self):
        """Uncaught errors, console errors and what the page's policy refused."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"])
            elif event["method"] == "Log.entryAdded":
                if event["params"]["entry"]["level"] in ("error", "warning"):
                    found.append(event["params"]["entry"])
        return found

    def requests(self):
        """Addresses that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session
            and event["method"] == "Network.requestWillBeSent"
        ]
