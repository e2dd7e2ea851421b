"""Headless Chromium, driven by the DevTools protocol over a pair of pipes.

This needs no port, no driver and no library.

`python -m tests.support.browser URL FILE.png [dark] [WIDTHxHEIGHT]` takes a screenshot, such as those in
docs/images.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# The first two have no windows at all: a page takes them a third of the processor time.
_PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome",
)
CHROMIUM = next(filter(None, map(shutil.which, _PROGRAMS)), None)
PATIENCE_S = 60.0
_FLAGS = (
    "--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
    "--disable-extensions --disable-background-networking --disable-component-update --disable-sync --mute-audio "
    "--hide-scrollbars --host-rules=MAP * ~NOTFOUND,EXCLUDE 127.0.0.1"
)
# With a mouse, as at a desk: buttons that appear below it are not in the pictures.
_MOUSE = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
# Chromium reads commands at descriptor 3 and writes to 4, each message followed by a zero byte.
_LAUNCH = "import os, sys; r, w, *run = sys.argv[1:]; os.dup2(int(r), 3); os.dup2(int(w), 4); os.execv(run[0], run)"
_KEYS = {"Enter": "\r", "ArrowDown": "", "ArrowUp": "", "Escape": "", "Tab": ""}
_CODES = {"Enter": 13, "ArrowDown": 40, "ArrowUp": 38, "Escape": 27, "Tab": 9}


class Tab:
    """A browser tab; `requests` and `complaints` record its requests and console messages."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._session: str | None = None
        self._number = 0
        self._buffer = b""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive meanwhile are recorded."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            received = os.read(self._read, 2**16)
            assert received, "the browser has gone"
            self._buffer += received
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: str, about: Mapping[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("warning", "error"):
            self.complaints.append(about["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in (
            "warning",
            "error",
            "assert",
        ):
            self.complaints.append(str(about["args"]))

    def look(
        self, width: int = 1280, height: int = 900, *, dark: bool = False, scale: float = 1
    ) -> None:
        """Set the window's size and the system's theme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Load a page from scratch, even if only the fragment differs."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Evaluate an expression on the page, await a promise, and return the value as JSON."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true, or fail with the text of the page."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(AssertionError):  # the page may be on its way to another
                if self.run(f"Boolean({script})"):
                    return
            time.sleep(0.05)
        raise AssertionError(
            f"never true: {script}\n{self.run('document.body.innerText')[:3000]}\n{self.complaints}"
        )

    def texts(self, selector: str) -> list[str]:
        """Return the visible text of each matching element."""
        texts: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText)"
        )
        return texts

    def click(self, selector: str) -> None:
        """Click the first matching element."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def focus(self, selector: str) -> None:
        """Focus the first matching element."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")

    def go(self, fragment: str) -> None:
        """Go to a view of the page that is loaded."""
        self.run(f"location.hash = {json.dumps(fragment)}")

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.call("Input.insertText", text=text)

    def press(self, *keys: str, modifiers: int = 0) -> None:
        """Press keys: `/`, `Enter`, `ArrowDown` …; 2 as modifiers is Ctrl."""
        for key in keys:
            about: dict[str, Any] = {
                "key": key,
                "windowsVirtualKeyCode": _CODES.get(key, ord(key[0].upper())),
            }
            about |= {"modifiers": modifiers, "text": "" if modifiers else _KEYS.get(key, key)}
            self.call("Input.dispatchKeyEvent", type="keyDown", **about)
            self.call("Input.dispatchKeyEvent", type="keyUp", **about | {"text": ""})

    def picture(self, path: Path) -> None:
        """Save a screenshot of the window as PNG."""
        path.write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        )


@contextmanager
def browsing(*more_flags: str) -> Iterator[Tab]:
    """Yield a tab in a browser with a fresh profile."""
    assert CHROMIUM is not None
    commands, answers = os.pipe(), os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        first, *others = _FLAGS.split(" --")
        flags = [first, *(f"--{flag}" for flag in others), *more_flags]
        program = [sys.executable, "-c", _LAUNCH, str(commands[0]), str(answers[1])]
        process = subprocess.Popen(
            [*program, CHROMIUM, *flags, f"--user-data-dir={profile}"],
            pass_fds=(commands[0], answers[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        try:
            tab = Tab(answers[0], commands[1])
            tab.look()
            yield tab
        finally:
            os.close(commands[1])  # the browser exits at the end of its input
            os.close(answers[0])
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def main(url: str, path: str, *options: str) -> None:
    width, _, height = next((option for option in options if "x" in option), "1280x900").partition(
        "x"
    )
    with browsing(_MOUSE) as tab:
        tab.look(int(width), int(height), dark="dark" in options)
        tab.open(url)
        tab.until(
            "!document.querySelector('[aria-busy]') && document.querySelector('.results > *')"
        )
        time.sleep(1)
        tab.picture(Path(path))
        print(*tab.complaints, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
