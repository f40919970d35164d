"""A headless chromium driven over a pipe by its own debugging protocol; no other package needed."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --remote-debugging-pipe"
).split()


def executable() -> str | None:
    """The browser of this machine, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Page:
    """One tab."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        to_read, self.commands = os.pipe()
        self.answers, to_write = os.pipe()

        def use_pipes() -> None:
            # The protocol wants 3 for reading and 4 for writing; go by high numbers so that
            # neither pipe is overwritten while the other is put in its place.
            os.dup2(to_read, 100)
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [executable() or "chromium", *FLAGS, f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=use_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.session = ""
        target = self.send("Target.createTarget", url=url)["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command; its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            assert part, "chromium went away"
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true, and return it."""
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            value = self.value(expression)
            if value:
                return value
            time.sleep(0.05)
        text = self.value("document.body ? document.body.innerText : ''")
        raise AssertionError(f"never true: {expression}; the page shows: {text}")

    def visit(self, url: str) -> None:
        """Go to another page and wait until it is there."""
        self.send("Page.navigate", url=url)
        self.wait_for(f"location.href == {json.dumps(url)} && document.readyState == 'complete'")

    def show(self, width: int, scheme: str = "light", medium: str = "") -> None:
        """A window so wide, light or dark, on a screen or on paper (`medium` "print")."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", media=medium, features=[feature])

    def press(self, key: str) -> None:
        """Press a key, as a person without a mouse would."""
        codes = {"Enter": 13, " ": 32, "Tab": 9, "ArrowRight": 39, "ArrowDown": 40, "ArrowUp": 38}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(key, {})
        self.send("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def drop(self, selector: str, file: Path) -> None:
        """Drop a file on an element, as a mouse would."""
        box = self.value(
            f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.send("Input.dispatchDragEvent", type=kind, x=box[0], y=box[1], data=data)

    def close(self) -> None:
        """End the browser and remove its profile."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)
