"""A real browser without a screen, driven over its debugging protocol."""

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

__all__ = ["CHROMIUM", "Tab", "browsing"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio"),
    *("--hide-scrollbars", "--remote-debugging-port=0", "about:blank"),
)
_BOX = """(() => {
    const box = document.querySelector("OF").getBoundingClientRect();
    const [x, y] = [box.x + scrollX - 16, box.y + scrollY - 16];
    return {x, y, width: box.width + 32, height: box.height + 32};
})()"""
_PATIENCE_S = 60.0
_POLL_S = 0.1


class Tab:
    """One page. `complaints` are the errors in its console."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if not answer.done():
                    answer.set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(told["params"]["exceptionDetails"]))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(str(told["params"]["entry"]))

    async def do(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        told = await asyncio.wait_for(answer, _PATIENCE_S)
        assert "error" not in told, told
        return told["result"]

    async def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        for domain in ("Runtime", "Log", "Page"):
            await self.do(f"{domain}.enable")
        await self.resize(width, height, dark)
        await self.do("Page.navigate", url=url)

    async def resize(self, width: int, height: int, dark: bool) -> None:
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.do("Emulation.setEmulatedMedia", features=[scheme])

    async def ask(self, script: str) -> Any:
        """Evaluates the expression in the page."""
        told = await self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def wait(self, script: str) -> Any:
        """Waits until the expression is true."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while not (found := await self.ask(script)):
            assert asyncio.get_running_loop().time() < deadline, f"never: {script}\n{self.complaints}"
            await asyncio.sleep(_POLL_S)
        return found

    async def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "End": 35, "ArrowLeft": 37}.get(key, 0)
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    async def picture(self, path: Path, whole: bool = True, of: str | None = None) -> None:
        """`of`: a selector; the picture shows that element alone, with a margin."""
        more = {} if of is None else {"clip": {**await self.ask(_BOX.replace("OF", of)), "scale": 1}}
        told = await self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **more)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(told["data"]))


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Tab]:
    """Starts a browser with one page, and ends it afterwards."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=1 << 26) as socket:
                tab = Tab(socket)
                listening = asyncio.create_task(tab.listen())
                try:
                    yield tab
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _port(file: Path) -> int:
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while not (file.exists() and file.read_text().count("\n")):
        assert asyncio.get_running_loop().time() < deadline, "the browser does not start"
        await asyncio.sleep(_POLL_S)
    return int(file.read_text().splitlines()[0])
