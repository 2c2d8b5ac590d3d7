"""Evaluations that are submitted to the controller of a fleet over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import PAIRS, PASSWORD

import evalfleet
from evalfleet import EvalfleetError, Progress, RunsFailed, ServerError, Submission


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALFLEET_SERVER_PASSWORD", PASSWORD)


def test_submit_and_wait(here: Path, server: str) -> None:
    (here / "drafts" / "größe 測試.md").write_text("Groß.", encoding="utf-8")
    submission = evalfleet.submit(server, PAIRS, ["drafts/*.md"], max_concurrency=2)
    assert submission.created and submission.runs == 20 and submission.name == "evaluation"
    assert PASSWORD not in repr(submission) and submission.server == server
    seen: list[Progress] = []
    results = evalfleet.wait(submission, progress=seen.append)
    assert results.folder == Path("evalfleet-out") / f"evaluation-{submission.evaluation}"
    assert len(results.verdicts) == 20 and "größe 測試.md" in {r.candidate for r in results.ranking}
    assert seen[-1].ended == seen[-1].runs == 20 and results.report.exists()
    assert not list(results.folder.glob("*.part"))

    again = evalfleet.submit(server, PAIRS, ["drafts/*.md"])
    assert again.evaluation == submission.evaluation and not again.created
    elsewhere = evalfleet.wait(Submission(server, submission.evaluation), out_dir="elsewhere", timeout=600)
    assert [v.id for v in elsewhere.verdicts] == [v.id for v in results.verdicts]


def test_a_file_with_what_it_names(here: Path, server: str) -> None:
    Path("mine").mkdir()
    Path("mine/secret.env").write_text("KEY=1")
    Path("mine/evaluation.yaml").write_text(
        'name: mine\ndocuments: ["../drafts/*.md"]\njudges: [simulator:careful]\npairwise: {}\n', encoding="utf-8"
    )
    with pytest.raises(ServerError, match=r"documents\[0\]|drafts") as caught:
        evalfleet.submit(server, "mine/evaluation.yaml")
    assert (caught.value.status, caught.value.exit_code) == (422, 2)
    with pytest.raises(EvalfleetError, match="drafts.*must be below the folder"):
        evalfleet.submit(server, "mine/evaluation.yaml", ["../drafts/*.md"])
    with pytest.raises(EvalfleetError, match="none/.*: no such file"):
        evalfleet.submit(server, "mine/evaluation.yaml", ["none/*.md"])
    with pytest.raises(EvalfleetError, match="nowhere.yaml: No such file"):
        evalfleet.submit(server, "nowhere.yaml")
    with pytest.raises(TypeError, match="list of patterns"):
        evalfleet.submit(server, "mine/evaluation.yaml", "*.md")


def test_problems_of_files_have_their_places(here: Path, server: str) -> None:
    with pytest.raises(ServerError, match="judgs: unknown key; did you mean judges") as caught:
        evalfleet.submit(server, {"documents": ["drafts/*.md"], "judgs": []}, ["drafts/*"])
    problem = next(p for p in caught.value.problems if "unknown key" in p.message)
    assert (problem.file, problem.line, problem.path) == ("evaluation.yaml", 1, "judgs") and "judges" in problem.fix


def test_failed_and_cancelled_evaluations(here: Path, server: str) -> None:
    broken = {**PAIRS, "name": "broken", "judges": ["simulator:unknown"], "retry": {"max_attempts": 1}}
    submission = evalfleet.submit(server, broken, ["drafts/*.md"])
    with pytest.raises(RunsFailed) as caught:
        evalfleet.wait(submission)
    assert caught.value.exit_code == 1 and caught.value.results is not None and len(caught.value.results.verdicts) == 0


def test_logins_are_needed(here: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match="needs a login: use https://USER@.*EVALFLEET_SERVER_PASSWORD") as caught:
        evalfleet.submit(server.replace("ann@", ""), PAIRS, ["drafts/*.md"])
    assert (caught.value.status, caught.value.exit_code) == (401, 2)
    monkeypatch.delenv("EVALFLEET_SERVER_PASSWORD")
    with pytest.raises(EvalfleetError, match="names the user ann: put the password into EVALFLEET_SERVER_PASSWORD"):
        evalfleet.submit(server, PAIRS)
    with pytest.raises(EvalfleetError, match="want the URL of a controller"):
        evalfleet.submit("evals.example.org", PAIRS)
    submission = evalfleet.submit(server, PAIRS, ["drafts/*.md"], password=PASSWORD)
    assert len(evalfleet.wait(submission).verdicts) == 12
    with pytest.raises(ServerError, match="status 404"):
        evalfleet.wait(Submission(server, "ev-aaaaaaaaaaaa", password=PASSWORD))


@pytest.fixture
def stub() -> Iterator[Callable[..., str]]:
    """Serves answers, the last of them again and again."""
    servers = []

    def begin(*answers: tuple[int, str, str]) -> str:
        left = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                code, location, body = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(code)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


RECEIPT = '{"evaluation": "ev-a", "name": "n", "created": true, "kept": false, "runs": 1, "queues": [], "warnings": ["w"]}'


def test_busy_servers_are_asked_again(here: Path, stub: Callable[..., str]) -> None:
    submission = evalfleet.submit(stub((429, "", '{"error": "busy"}'), (201, "", RECEIPT)), PAIRS)
    assert submission.evaluation == "ev-a" and submission.warnings == ("w",)


def test_servers_that_answer_otherwise(here: Path, stub: Callable[..., str]) -> None:
    elsewhere = stub((200, "", RECEIPT))
    with pytest.raises(ServerError, match=f"redirects to {elsewhere}/: use that address"):
        evalfleet.submit(stub((307, elsewhere, "")).replace("://", "://ann@"), PAIRS)
    with pytest.raises(ServerError, match="is not JSON: is this the address of a controller"):
        evalfleet.submit(stub((200, "", "<html>")), PAIRS)
    with pytest.raises(ServerError, match="Redis is away .status 503") as caught:
        evalfleet.submit(stub((503, "", '{"error": "Redis is away"}')), PAIRS)
    assert (caught.value.status, caught.value.exit_code) == (503, 3)
    with pytest.raises(ServerError, match="refused") as caught:
        evalfleet.submit("http://127.0.0.1:1", PAIRS)
    assert (caught.value.status, caught.value.exit_code) == (0, 3)


def test_waiting_has_an_end(here: Path, stub: Callable[..., str]) -> None:
    with pytest.raises(TimeoutError, match="ev-a has not ended after 0 s; it continues on http"):
        evalfleet.wait(Submission(stub((503, "", "")), "ev-a"), timeout=0)
    with pytest.raises(ValueError, match="fail_on is 'some', want any, all or never"):
        evalfleet.wait(Submission("http://127.0.0.1:1", "ev-a"), fail_on="some")


def test_names_from_a_server_stay_in_the_folder(here: Path, stub: Callable[..., str]) -> None:
    every = '{"runs": 1, "done": 1, "failed": 0}'
    ended = f'{{"name": "n", "status": "done", "uncollected": 0, "all": {every}}}'
    address = stub((200, "", ended), (200, "", '{"files": ["../../escaped"]}'), (200, "", "x"))
    with pytest.raises(evalfleet.FolderError):
        evalfleet.wait(Submission(address, "ev-a"), out_dir="a/b")
    assert [str(p) for p in here.rglob("*escaped*")] == [str(here / "a" / "b" / "escaped")]
