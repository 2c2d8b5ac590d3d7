"""Evaluations that are run: progress, every exit code, Ctrl-C, and programs that are missing."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PAIRS, PROGRAM, Provider

import evalfleet
from evalfleet import EvalfleetError, Progress, ProgramNotFound, RunsFailed
from evalfleet._program import flags


def test_content_is_run_and_resumed(here: Path) -> None:
    seen: list[Progress] = []
    results = evalfleet.run(PAIRS, progress=seen.append, max_concurrency=2)
    assert results.folder == Path("evalfleet-out") / f"evaluation-{results.evaluation}"
    assert len(results.verdicts) == 12 and results.manifest["totals"]["succeeded"] == 12
    assert (seen[0].evaluation, seen[0].runs, seen[0].ended) == (results.evaluation, 12, 0)
    assert (seen[-1].runs, seen[-1].ended, seen[-1].failed) == (12, 12, 0)
    assert sorted(p.name for p in here.iterdir()) == ["drafts", "evalfleet-out"]  # no file is left

    seen.clear()
    again = evalfleet.run(PAIRS, progress=seen.append)
    assert again.evaluation == results.evaluation and [p.ended for p in seen] == [12, 12]
    assert [c.call for c in again.calls] == [c.call for c in results.calls]


def test_files_folders_and_flags(here: Path) -> None:
    results = evalfleet.run(here / "drafts", judge=["simulator:careful", "simulator:average"], out_dir=here / "größe out")
    assert results.folder.name == "größe out"
    assert {v.judge for v in results.verdicts} == {"simulator:careful", "simulator:average"}
    for model in "ab":
        rows = [{"question": f"Q{k}", "answer": f"{model} {k}", "model": model} for k in range(2)]
        Path(f"{model}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    several = evalfleet.run(["a.jsonl", "b.jsonl"], judge="simulator:careful")
    assert {r.candidate for r in several.ranking} == {"a", "b"}
    dashed = evalfleet.run("-x.yaml") if Path("-x.yaml").write_text(json.dumps(PAIRS), encoding="utf-8") else None
    assert dashed is not None and dashed.name == "-x"


def test_options_are_flags() -> None:
    assert flags({"max_concurrency": 8, "judge": ["a:b", "c:d"], "retry_failed": True, "batch": False, "again": None}) == [
        "--max-concurrency=8",
        "--judge=a:b",
        "--judge=c:d",
        "--retry-failed=true",
        "--batch=false",
    ]
    with pytest.raises(TypeError, match="a dry run has no results"):
        evalfleet.run("evaluation.yaml", dry_run=3)


def test_exit_code_1(here: Path, simulate: Callable[..., Provider]) -> None:
    provider = simulate("--malformed-rate", "1")
    evaluation = provider.evaluation(retry={"max_attempts": 1})
    with pytest.raises(RunsFailed, match="of 12 runs failed") as caught:
        evalfleet.run(evaluation)
    results = caught.value.results
    assert caught.value.exit_code == 1 and results is not None
    failed = results.manifest["totals"]["failed"]
    assert failed > 0 and str(caught.value).startswith(f"{failed} of 12") and len(results.verdicts) == 12 - failed
    assert evalfleet.run(evaluation, fail_on="never").manifest["totals"]["failed"] == failed


def test_exit_code_2(here: Path) -> None:
    with pytest.raises(EvalfleetError, match="judgs: unknown key; did you mean judges") as caught:
        evalfleet.run({**PAIRS, "judgs": []})
    assert caught.value.exit_code == 2 and not isinstance(caught.value, RunsFailed)
    with pytest.raises(EvalfleetError, match="unknown flag --max-concurency; did you mean --max-concurrency"):
        evalfleet.run(PAIRS, max_concurency=2)
    with pytest.raises(EvalfleetError, match="nowhere.yaml: no such file"):
        evalfleet.run("nowhere.yaml")


def test_exit_code_3(here: Path) -> None:
    with pytest.raises(EvalfleetError, match="redis at 127.0.0.1:1: is unreachable") as caught:
        evalfleet.run(PAIRS, redis="redis://127.0.0.1:1")
    assert caught.value.exit_code == 3


def wrapper(here: Path, body: str) -> Path:
    """Makes a program that a shell script wraps."""
    path = here / "wrapped"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_exit_code_130(here: Path, simulate: Callable[..., Provider], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else interrupts the program."""
    provider = simulate("--hang-rate", "1")
    monkeypatch.setenv("EVALFLEET_BINARY", str(wrapper(here, f'echo $$ > pid; exec {PROGRAM} "$@"')))

    def interrupt(now: Progress) -> None:
        os.kill(int(Path("pid").read_text()), signal.SIGINT)

    with pytest.raises(EvalfleetError, match="interrupted: 0 of 12 runs are recorded.*resume with: ") as caught:
        evalfleet.run(provider.evaluation(), slots=1, grace="0s", progress=interrupt)
    assert caught.value.exit_code == 130


def test_killed_program(here: Path, simulate: Callable[..., Provider], monkeypatch: pytest.MonkeyPatch) -> None:
    provider = simulate("--hang-rate", "1")
    monkeypatch.setenv("EVALFLEET_BINARY", str(wrapper(here, f'echo $$ > pid; exec {PROGRAM} "$@"')))

    def kill(now: Progress) -> None:
        os.kill(int(Path("pid").read_text()), signal.SIGKILL)

    with pytest.raises(EvalfleetError, match="killed by signal 9; call run again to resume") as caught:
        evalfleet.run(provider.evaluation(), progress=kill)
    assert caught.value.exit_code == 137


# Runs an evaluation from another program, which says what it gets.
SCRIPT = textwrap.dedent(
    """
    import json, sys, evalfleet
    try:
        evalfleet.run(json.loads(sys.argv[1]), progress=True, grace="60s", max_concurrency=1, out_dir="out")
    except KeyboardInterrupt as stop:
        print("KeyboardInterrupt", stop)
        sys.exit(7)
    """
)


def test_ctrl_c_leaves_an_evaluation_to_resume(here: Path, simulate: Callable[..., Provider]) -> None:
    """The signal reaches the whole group of processes, as from a terminal or from Jupyter."""
    provider = simulate("--latency", "3s")  # one call after the other, it would take 36 s
    env = {**os.environ, "PYTHONPATH": str(Path(evalfleet.__file__).parents[1])}
    command = [sys.executable, "-c", SCRIPT, json.dumps(provider.evaluation())]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    events = here / "out" / "events.jsonl"
    while process.poll() is None and not (events.exists() and '"event":"succeeded"' in events.read_text()):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 7, stderr
    assert "KeyboardInterrupt interrupted: " in stdout and "of 12 runs are recorded in out" in stdout, stdout
    assert "evaluation ev-" in stderr  # the progress

    before = provider.calls()
    assert 0 < before < 12
    with pytest.raises(evalfleet.FolderError, match="out has no tables yet; write them with: evalfleet report out"):
        evalfleet.load("out")
    results = evalfleet.run(provider.evaluation(), out_dir="out", max_concurrency=12)
    assert len(results.verdicts) == 12
    assert provider.calls() == 12  # none is repeated: the call in flight at Ctrl-C has ended
    assert not list(here.glob(".evalfleet-*"))


def test_errors_of_an_observer_stop_the_program(here: Path, simulate: Callable[..., Provider]) -> None:
    provider = simulate("--latency", "1s")
    with pytest.raises(ZeroDivisionError):
        evalfleet.run(provider.evaluation(), progress=lambda now: 1 / 0, max_concurrency=1, out_dir="out")
    assert provider.calls() < 12
    assert len(evalfleet.run(provider.evaluation(), out_dir="out", max_concurrency=12).verdicts) == 12


def test_warnings_are_logged(here: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = """echo '{"level":"warn","message":"slow","error":"why"}' >&2; echo panic: 1 >&2; echo goroutine >&2; exit 3"""
    monkeypatch.setenv("EVALFLEET_BINARY", str(wrapper(here, crash)))
    with caplog.at_level(logging.WARNING, "evalfleet"), pytest.raises(EvalfleetError, match="panic: 1\ngoroutine") as caught:
        evalfleet.run("evaluation.yaml")
    assert [r.message for r in caplog.records] == ["slow: why"] and caught.value.exit_code == 3
    monkeypatch.setenv("EVALFLEET_BINARY", str(wrapper(here, "exit 3")))
    with pytest.raises(EvalfleetError, match="ended with exit code 3 and without a message"):
        evalfleet.run("evaluation.yaml")


def test_missing_programs_are_explained(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALFLEET_BINARY", str(here / "nowhere"))
    with pytest.raises(ProgramNotFound, match="EVALFLEET_BINARY is .*nowhere.*correct it, or unset it") as caught:
        evalfleet.run(PAIRS)
    assert caught.value.exit_code == 2
    (here / "data").write_text("no program", encoding="utf-8")
    (here / "data").chmod(0o755)
    monkeypatch.setenv("EVALFLEET_BINARY", str(here / "data"))
    with pytest.raises(ProgramNotFound, match="data cannot be executed: Exec format error"):
        evalfleet.run(PAIRS)

    monkeypatch.delenv("EVALFLEET_BINARY")
    monkeypatch.setenv("PATH", str(here))
    with pytest.raises(ProgramNotFound, match="install a wheel .*EVALFLEET_BINARY; it is at https://"):
        evalfleet.find_program()
    (here / "evalfleet").symlink_to(PROGRAM)
    assert evalfleet.find_program() == here / "evalfleet"


def test_progress_is_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evalfleet.run(PAIRS)
    assert capsys.readouterr() == ("", "")  # nobody watches
    evalfleet.run(PAIRS, progress=True)
    shown = capsys.readouterr()
    assert "12 of 12 runs succeeded\n" in shown.err and shown.out == ""


def test_progress_in_a_notebook(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    evalfleet.run(PAIRS)
    shown = capsys.readouterr().err
    assert shown.count("\r") == 2 and shown.count("\n") == 1  # each over the one before
    assert shown.rstrip().endswith("12 of 12 runs succeeded")
