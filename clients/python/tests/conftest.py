"""What tests share: a built program, folders with documents, a simulated provider, and a fleet."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import evalfleet

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("EVALFLEET_BINARY") or str(REPOSITORY / "bin" / "evalfleet")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> str:
    """Lets the package use the program of this tree, and no setting of the machine."""
    for name in list(os.environ):
        if name.startswith("EVALFLEET_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("EVALFLEET_BINARY", PROGRAM)
    return PROGRAM


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder with documents the working folder."""
    (tmp_path / "drafts").mkdir()
    for k in range(4):
        text = f"Draft {k} says that the tide turns twice a day, {k} times.\n"
        (tmp_path / "drafts" / f"draft{k}.md").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The password of the user ann of a fleet, and its bcrypt hash.
PASSWORD = "pässword"
HASH = "$2b$04$abcdefghijklmnopqrstuum174eFeoTj0DHmtuueFaS3Wde4P7wHG"

# Compares the documents of here in 12 runs.
PAIRS = {"documents": ["drafts/*.md"], "judges": ["simulator:careful"], "pairwise": {"pairs": "all", "order": "both"}}


@dataclass
class Provider:
    """A simulated provider in a process of its own."""

    url: str

    def evaluation(self, **more: object) -> dict[str, object]:
        """Returns PAIRS with this provider as the judge's."""
        provider = {"dialect": "chat", "base_url": self.url + "/v1"}
        return {**PAIRS, "judges": ["local:careful"], "providers": {"local": provider}, **more}

    def calls(self) -> int:
        """Returns how many requests it has counted."""
        with urllib.request.urlopen(self.url + "/stats") as answer:
            return int(json.load(answer)["all"]["arrived"])


@pytest.fixture
def simulate() -> Iterator[Callable[..., Provider]]:
    """Starts simulated providers with flags of `evalfleet simulate`."""
    running = []

    def begin(*flags: str) -> Provider:
        command = [PROGRAM, "simulate", "--listen", "127.0.0.1:0", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        running.append(process)
        assert process.stdout is not None
        return Provider(process.stdout.readline().strip().rstrip("/"))

    yield begin
    for process in running:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> evalfleet.Results:
    """Returns the results of the essays of the examples."""
    out = tmp_path_factory.mktemp("essays") / "out"
    os.environ["EVALFLEET_BINARY"] = PROGRAM
    return evalfleet.run(REPOSITORY / "examples" / "essays" / "evaluation.yaml", out_dir=out)


@pytest.fixture
def folder(results: evalfleet.Results, tmp_path: Path) -> Path:
    """Returns a copy of the folder of results, to be changed."""
    return Path(shutil.copytree(results.folder, tmp_path / "copy"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Starts a fleet and returns the address of its controller, which takes evaluations of the user ann."""
    redis = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if not redis:
        pytest.skip("NOT TESTED: there is no redis-server: make redis")
    place = tmp_path_factory.mktemp("fleet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (place / "users").write_text(f"ann:{HASH}\n", encoding="utf-8")
    env = {**os.environ, "EVALFLEET_REDIS": f"redis://127.0.0.1:{port}", "EVALFLEET_METRICS_ADDR": "127.0.0.1:0"}
    env.pop("EVALFLEET_BINARY", None)
    redis_command = [redis, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxmemory-policy", "noeviction"]
    processes = [
        subprocess.Popen(redis_command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ]
    try:
        assert processes[0].stdout is not None
        while "Ready to accept connections" not in (line := processes[0].stdout.readline()):
            assert line, "redis-server has ended"
        controller = [PROGRAM, "controller", "--listen", "127.0.0.1:0", "--allow-actions", "--auth-file", "users"]
        for command in ([PROGRAM, "worker"], controller):
            log = (place / (command[1] + ".log")).open("w")
            processes.append(
                subprocess.Popen(command, cwd=place, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
            )
        stdout = processes[-1].stdout
        assert stdout is not None
        yield stdout.readline().strip().rstrip("/").replace("://", "://ann@")
    finally:
        for process in reversed(processes):
            process.terminate()
            process.communicate()
