"""Runs evaluations with the evalfleet program."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ._errors import EvalfleetError, FolderError, ProgramNotFound, RunsFailed
from ._progress import Observer, Progress, observer
from ._results import Results, load

# Where the program's messages go; warnings are printed unless the application decides otherwise.
_log = logging.getLogger("evalfleet")

_VARIABLE = "EVALFLEET_BINARY"
_NAME = "evalfleet.exe" if sys.platform == "win32" else "evalfleet"
_BUNDLED = Path(__file__).parent / "bin" / _NAME

Evaluation = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Any]


def find_program() -> Path:
    """Returns the program: that in EVALFLEET_BINARY, that of the wheel, or the first on PATH."""
    named = os.environ.get(_VARIABLE)
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ProgramNotFound(f"{_VARIABLE} is {named!r}, which is not a program: correct it, or unset it")
        return Path(named).absolute()
    if _BUNDLED.exists():
        return _BUNDLED
    found = shutil.which("evalfleet")
    if found:
        return Path(found)
    raise ProgramNotFound(
        "there is no evalfleet program: install a wheel for this system, put the program on PATH, or name it in "
        f"{_VARIABLE}; it is at https://github.com/evalfleet/evalfleet/releases"
    )


def run(
    evaluation: Evaluation,
    *,
    out_dir: str | os.PathLike[str] | None = None,
    progress: bool | Observer | None = None,
    **options: Any,
) -> Results:
    """Runs an evaluation on this machine and returns its results. What is recorded is not repeated.

    evaluation is the path of a file or folder, several files of answers, or the content of an evaluation file; its
    paths are then relative to the working folder, and its name is "evaluation" unless it has one. options are the flags
    of `evalfleet run`: max_concurrency=8, judge=["openai:gpt-5-mini"], retry_failed=True. progress is True or
    False, or a function that is called with each Progress; by default it is shown in a notebook and on a terminal.

    Raises RunsFailed if runs failed, unless fail_on="never" is given, and EvalfleetError for what else went wrong.
    Ctrl-C stops the program: calls in flight end, and the same call resumes. A second one aborts them.
    """
    if options.get("dry_run") is not None:
        raise TypeError("a dry run has no results: use `evalfleet run --dry-run`")
    program = find_program()
    if out_dir is not None:
        options["out_dir"] = out_dir
    with _files(evaluation) as files:
        command = [str(program), "run", *flags(options), "--log-format", "json", "--", *files]
        return _Run(command, observer(progress)).results()


def flags(options: Mapping[str, Any]) -> list[str]:
    """Returns options as flags. A list repeats its flag, and None omits it."""
    given = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, bool):
                given.append(f"{flag}={str(one).lower()}")
            elif one is not None:
                given.append(f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return given


@contextmanager
def _files(evaluation: Evaluation) -> Iterator[list[str]]:
    """Passes on the arguments that name an evaluation. Content is written to a file for this long."""
    if isinstance(evaluation, (str, os.PathLike)):
        yield [os.fspath(evaluation)]
        return
    if not isinstance(evaluation, Mapping):
        yield [os.fspath(path) for path in evaluation]
        return
    # Paths in the file are relative to it. JSON is YAML.
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=".evalfleet-", suffix=".yaml", dir=".", delete=False
    ) as file:
        try:
            json.dump({"name": "evaluation", **evaluation}, file)
            file.close()
            yield [os.path.relpath(file.name)]
        finally:
            file.close()
            os.unlink(file.name)


class _Run:
    """A `run` of the program, followed through its JSON log."""

    def __init__(self, command: Sequence[str], observe: Observer) -> None:
        self._command = command
        self._observe = observe
        self._folder: str | None = None
        self._last: Progress | None = None
        self._error = ""
        self._plain: list[str] = []  # lines that are not of the log: of flags that are wrong, or of a crash

    def results(self) -> Results:
        """Runs the program to its end."""
        code, interrupted = self._wait()
        if interrupted:
            raise KeyboardInterrupt(self._error or "evalfleet has ended")
        if code == 0 and self._folder is not None:
            results = load(self._folder)
            self._end(results)
            return results
        plain = "\n".join(self._plain[-20:]).removeprefix("evalfleet: ")
        message = self._error or plain or f"evalfleet ended with exit code {code} and without a message"
        if code < 0:
            message = f"evalfleet was killed by signal {-code}; call run again to resume"
            code = 128 - code
        if code != 1:
            raise EvalfleetError(message, code)
        failed = None
        if self._folder is not None:
            try:
                failed = load(self._folder)
            except FolderError as error:
                _log.info("%s", error)
        raise RunsFailed(message, failed)

    def _wait(self) -> tuple[int, bool]:
        """Returns the exit code, and whether Ctrl-C was pressed meanwhile."""
        # In a group of its own, because a terminal and Jupyter send Ctrl-C to the whole group: the program would get it
        # twice, which means to abort calls in flight.
        group: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                **group,
            )
        except OSError as error:
            raise ProgramNotFound(f"{self._command[0]} cannot be executed: {error.strerror}") from error
        assert process.stderr is not None
        interrupted = False
        with process.stderr:
            while True:
                try:
                    self._follow(process.stderr)
                    return process.wait(), interrupted
                except KeyboardInterrupt:
                    interrupted = True
                    _interrupt(process)
                except BaseException:  # of an observer
                    _interrupt(process)
                    process.stderr.read()
                    process.wait()
                    raise

    def _follow(self, lines: IO[str]) -> None:
        for line in lines:
            try:
                said = json.loads(line)
                text, level = str(said["message"]), said.get("level")
            except (ValueError, TypeError, KeyError):
                self._plain.append(line.rstrip())
                continue
            if level == "error":
                self._error = text
                _log.info("%s", text)
            elif level == "warn":
                _log.warning("%s", text + (f": {said['error']}" if "error" in said else ""))
            else:
                _log.info("%s", text)
            self._folder = said.get("folder", self._folder)
            if {"evaluation", "runs", "ended", "failed"} <= said.keys():
                self._tell(Progress(said["evaluation"], said["runs"], said["ended"], said["failed"], text))

    def _tell(self, now: Progress) -> None:
        self._last = now
        self._observe(now)

    def _end(self, results: Results) -> None:
        """Tells the last progress, which the program ends too early to report."""
        runs = results.manifest.get("totals", {})
        planned, ok, failed = (int(runs.get(key, 0)) for key in ("runs", "succeeded", "failed"))
        now = Progress(results.evaluation, planned, planned, failed, f"{results.name} {ok} of {planned} runs succeeded")
        if self._last != now:
            self._tell(now)


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Does what Ctrl-C on the program's terminal does."""
    if sys.platform == "win32":
        process.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        process.send_signal(signal.SIGINT)


def main() -> None:
    """Executes the program of the wheel in place of Python: the console script."""
    if not _BUNDLED.exists():
        sys.exit(f"evalfleet: this package has no program ({_BUNDLED}): install a wheel for this system")
    command = [str(_BUNDLED), *sys.argv[1:]]
    if sys.platform != "win32":
        os.execv(_BUNDLED, command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program gets it, too, and decides
    sys.exit(subprocess.call(command))
