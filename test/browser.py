"""A headless Chromium that a test drives by the DevTools protocol: it reads pages and the three.js scene in them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from starting import die_with_parent

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEADLINE = 90.0  # [s] for a page, which is drawn by software on a machine that does more

# three.js tells whoever listens for it of each scene that is made; no test looks at pixels, which software draws slowly
OBSERVE = """
for (const name of ['drawElements', 'drawArrays', 'drawElementsInstanced', 'drawArraysInstanced'])
  WebGL2RenderingContext.prototype[name] = () => {};
window.__THREE_DEVTOOLS__ = new EventTarget();
window.__scenes = [];
window.__THREE_DEVTOOLS__.addEventListener('observe', event => {
  if (event.detail.isScene) window.__scenes.push(event.detail);
});
// the meshes of the page's scene with as many vertices: where they are in the axes of the world
window.meshes = count => {
  const found = [];
  for (const scene of window.__scenes) scene.traverse(object => {
    if (!object.isMesh || object.geometry.attributes.position?.count !== count || object.isInstancedMesh) return;
    let top = object;
    while (top.parent && !top.parent.isScene) top = top.parent;
    object.updateWorldMatrix(true, false);
    const place = object.matrixWorld.clone().premultiply(top.matrixWorld.clone().invert());
    found.push([...place.elements.slice(12, 15)]);
  });
  return found;
};
window.button = text => [...document.querySelectorAll('button')].find(one => one.innerText.trim() === text);
"""


def require() -> str:
    """The browser; a test that needs one is skipped where there is none."""
    pytest.importorskip("viser", reason="viser is not installed (pip install 'haptics[view]')")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium (Debian: apt install chromium)", allow_module_level=True)
    return program


class Browser:
    """A page in a headless Chromium, while the context is open."""

    def __init__(self, url: str, profile: Path):
        options = "--headless=new --no-sandbox --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
        command = [require(), *options.split(), "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        command += ["--window-size=1000,600", "--disable-dev-shm-usage", "about:blank"]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent
        )
        self._url, self._count = url, 0
        self.requests: list[str] = []

    def __enter__(self) -> Browser:
        connect = pytest.importorskip("websockets.sync.client").connect

        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "DevTools listening on " in line:
                break
        self._socket = connect(line.split("listening on ")[1].strip(), max_size=None)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str | None = None
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=OBSERVE)
        self.call("Page.navigate", url=self._url)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def call(self, method: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol, and its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(DEADLINE))
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, deadline: float = DEADLINE) -> Any:
        """Wait until an expression is true in the page; its value."""
        until = time.monotonic() + deadline
        while not (value := self.evaluate(script)):
            assert time.monotonic() < until, f"not within {deadline:g} s: {script}; {self.text()[-600:]}"
            time.sleep(0.1)
        return value

    def text(self) -> str:
        """What the page says."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def click(self, button: str) -> None:
        """Press a button by its text."""
        self.wait(f"window.button({json.dumps(button)})?.click() ?? !!window.button({json.dumps(button)})")

    def enter(self, label: str, value: str) -> None:
        """Put a value into the field beside a label."""
        find = f"""(() => {{
          const labels = [...document.querySelectorAll('label')];
          let place = labels.find(one => one.innerText.trim() === {json.dumps(label)});
          while (place && !place.querySelector('input[type=text], input:not([type])')) place = place.parentElement;
          const field = place?.querySelector('input[type=text], input:not([type])');
          if (field) {{ field.scrollIntoView(); field.focus(); field.select(); }}
          return !!field;
        }})()"""
        self.wait(find)
        self.call("Input.insertText", text=value)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)

    def field(self, label: str) -> str:
        """What is in the field beside a label."""
        find = f"""(() => {{
          let place = [...document.querySelectorAll('label')].find(one => one.innerText.trim() === {json.dumps(label)});
          while (place && !place.querySelector('input[type=text], input:not([type])')) place = place.parentElement;
          return place?.querySelector('input[type=text], input:not([type])')?.value || '';
        }})()"""
        return str(self.wait(find))

    def picture(self, path: Path) -> None:
        """A screenshot."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
