"""Submits evaluations to the controller of a fleet, over HTTP, and fetches their results."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ._errors import EvalfleetError, Problem, RunsFailed, ServerError
from ._progress import Observer, Progress, observer
from ._results import Results, load

_PASSWORD = "EVALFLEET_SERVER_PASSWORD"
_ASK_EVERY = 2.0  # seconds between questions about the progress
_BUSY = 60.0  # seconds for which a busy server is asked again
_TIMEOUT = 60.0  # seconds of silence after which a connection is given up


@dataclass(frozen=True)
class Submission:
    """An evaluation on a server. One that was submitted elsewhere is Submission(server, "ev-…").

    created is False if it was there already, and kept is True if it is active with other settings, which stay in force.
    """

    server: str
    evaluation: str
    name: str = ""
    created: bool = False
    kept: bool = False
    runs: int = 0
    warnings: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)


def submit(
    server: str,
    evaluation: str | os.PathLike[str] | Mapping[str, Any],
    files: Iterable[str] = (),
    *,
    password: str | None = None,
    **options: Any,
) -> Submission:
    """Submits an evaluation to a controller with --allow-actions, and returns at once.

    server is the URL of its pages, such as https://ann@evals.example.org; the password is an argument or in
    EVALFLEET_SERVER_PASSWORD. evaluation is the path of an evaluation file or the content of one. files are patterns of
    the files that it names, such as "drafts/*.md", relative to its folder; nothing else is sent. options are the
    parameters of the API: judge, again, limit, max_concurrency, json_mode, provider, model, batch, retry_failed.

    Submitting it again, for example after a lost connection, resumes it. Raises ServerError.
    """
    at = _Server(server, password)
    name, archive = _pack(evaluation, files)
    query = [("file", name)]
    for key, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                query.append((key, str(one).lower() if isinstance(one, bool) else str(one)))

    path = "/api/evaluations?" + urllib.parse.urlencode(query)
    said = _patiently(lambda: at.json(path, archive))
    return Submission(
        server=at.address,
        evaluation=said["evaluation"],
        name=said["name"],
        created=said["created"],
        kept=said["kept"],
        runs=said["runs"],
        warnings=tuple(said["warnings"] or ()),
        password=at.password,
    )


def wait(
    submission: Submission,
    *,
    out_dir: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    fail_on: str = "any",
    progress: bool | Observer | None = None,
) -> Results:
    """Waits until an evaluation has ended and its results are collected, downloads them, and returns them.

    out_dir is evalfleet-out/<name>-<id> by default. timeout is in seconds; after it, or after Ctrl-C, the evaluation
    continues on the server, and waiting again is possible. A server that cannot be reached is asked until it can.

    Raises RunsFailed if runs failed and fail_on is "any" (or "all", if all did; "never" returns the results), and if
    the evaluation was cancelled or stopped. Raises TimeoutError and ServerError.
    """
    if fail_on not in ("any", "all", "never"):
        raise ValueError(f"fail_on is {fail_on!r}, want any, all or never")
    at = _Server(submission.server, submission.password)
    now = _ended(at, submission.evaluation, timeout, observer(progress))
    folder = Path(out_dir if out_dir is not None else f"evalfleet-out/{now['name']}-{submission.evaluation}")
    _download(at, submission.evaluation, folder)

    results = load(folder)
    every = now["all"]
    stop = now.get("stopped") or {}
    if stop and not stop.get("known"):
        why = "a budget is spent" if stop.get("budget") else "paused providers: " + ", ".join(stop.get("paused") or {})
        raise RunsFailed(
            f"{submission.evaluation} was stopped, {why}; {every['done']} of {every['runs']} runs ended; "
            "when that is fixed, submit it again",
            results,
        )
    if now["status"] == "cancelled":
        raise RunsFailed(f"{submission.evaluation} was cancelled; {every['done']} of {every['runs']} runs ended", results)
    if every["failed"] and (fail_on == "any" or fail_on == "all" and every["failed"] == every["runs"]):
        raise RunsFailed(f"{every['failed']} of {every['runs']} runs failed; see calls.error in the results", results)
    return results


def _ended(at: _Server, evaluation: str, timeout: float | None, observe: Observer) -> dict[str, Any]:
    """Waits for an end and returns the last status."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            now: dict[str, Any] = at.json("/api/evaluations/" + urllib.parse.quote(evaluation, safe=""))
        except ServerError as error:
            if error.exit_code != 3:
                raise
            now = {}
        if now:
            every = now["all"]
            text = f"{now['name']} {every['done']} of {every['runs']} runs ended, {every['failed']} failed"
            observe(Progress(evaluation, every["runs"], every["done"], every["failed"], text))
            complete = every["done"] == every["runs"] and now["status"] in ("done", "cancelled")
            if now["uncollected"] == 0 and (complete or now.get("stopped")):
                return now
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"{evaluation} has not ended after {timeout} s; it continues on {at.url}")
        time.sleep(_ASK_EVERY)


def _download(at: _Server, evaluation: str, folder: Path) -> None:
    """Writes the files of an evaluation to a folder, each of them completely or not at all."""
    base = f"/api/evaluations/{urllib.parse.quote(evaluation, safe='')}/files"
    folder.mkdir(parents=True, exist_ok=True)
    for name in at.json(base)["files"]:
        plain = os.path.basename(name.replace("\\", "/"))  # whatever the server says, it stays in the folder
        if plain in ("", ".", ".."):
            raise ServerError(f"server {at.url}: {name!r} is no name of a file", 200)
        part = folder / (plain + ".part")
        with part.open("wb") as file:
            at.copy(f"{base}/{urllib.parse.quote(name, safe='')}", file)
        part.replace(folder / plain)


def _pack(evaluation: str | os.PathLike[str] | Mapping[str, Any], patterns: Iterable[str]) -> tuple[str, bytes]:
    """Returns the name of an evaluation file and an archive with it and the files that match."""
    if isinstance(patterns, str):
        raise TypeError('files is a list of patterns, such as ["drafts/*.md"]')
    content = None
    name, folder = "evaluation.yaml", Path(".")
    if isinstance(evaluation, Mapping):
        content = json.dumps({"name": "evaluation", **evaluation}).encode()
    else:
        path = Path(evaluation)
        name, folder = path.name, path.parent
        try:
            content = path.read_bytes()
        except OSError as error:
            raise EvalfleetError(f"{path}: {error.strerror}", 2) from error

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT, dereference=True) as tar:
        _add(tar, name, content)
        for pattern in patterns:
            if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
                raise EvalfleetError(f"{pattern}: files must be below the folder of the evaluation file", 2)
            found = sorted(path for path in folder.glob(pattern) if path.is_file())
            if not found:
                raise EvalfleetError(f"{folder / pattern}: no such file", 2)
            for path in found:
                if (inside := path.relative_to(folder).as_posix()) != name:
                    _add(tar, inside, path.read_bytes())
    return name, packed.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    head = tarfile.TarInfo(name)
    head.size = len(content)
    tar.addfile(head, io.BytesIO(content))


def _patiently(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Asks a server that is busy again, for some time."""
    end = time.monotonic() + _BUSY
    while True:
        try:
            return ask()
        except ServerError as error:
            if error.status != 429 or time.monotonic() >= end:
                raise
        time.sleep(1.0)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the password would be sent to another server."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        raise ServerError(f"server {req.host} redirects to {newurl}: use that address", code)


class _Server:
    """A controller that takes evaluations over HTTP."""

    def __init__(self, address: str, password: str | None) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EvalfleetError(f"{address!r}: want the URL of a controller, such as https://ann@evals.example.org", 2)
        host = parts.netloc.rpartition("@")[2]
        user = urllib.parse.unquote(parts.username or "")
        self.url = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))  # without the user
        self.address = self.url.replace("://", f"://{urllib.parse.quote(user, safe='')}@", 1) if user else self.url
        self.password = password if parts.password is None else urllib.parse.unquote(parts.password)
        self._headers: dict[str, str] = {}
        if user:
            secret = os.environ.get(_PASSWORD) if self.password is None else self.password
            if secret is None:
                raise EvalfleetError(f"the address names the user {user}: put the password into {_PASSWORD}", 2)
            login = base64.b64encode(f"{user}:{secret}".encode()).decode()
            self._headers["Authorization"] = "Basic " + login
        self._opener = urllib.request.build_opener(_Stay)

    def json(self, path: str, archive: bytes | None = None) -> dict[str, Any]:
        """Gets an answer, or posts an archive."""
        answer = io.BytesIO()
        self.copy(path, answer, archive)
        try:
            said = json.loads(answer.getvalue())
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise ServerError(f"server {self.url}: its answer is not JSON: is this the address of a controller?", 404)
        return said

    def copy(self, path: str, to: IO[bytes], archive: bytes | None = None) -> None:
        """Copies the body of an answer."""
        headers = dict(self._headers)
        if archive is not None:
            headers["Content-Type"] = "application/gzip"
        request = urllib.request.Request(self.url + path, archive, headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                while piece := answer.read(1 << 16):
                    to.write(piece)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(f"server {self.url}: {reason}", 0) from error

    def _refusal(self, answer: urllib.error.HTTPError) -> ServerError:
        text = answer.read(1 << 20).decode("utf-8", "replace").strip()
        problems: list[Problem] = []
        try:
            said = json.loads(text)
            text = said["error"]
            for p in said.get("problems") or ():
                get = p.get
                problems.append(
                    Problem(get("file", ""), get("line", 0), get("column", 0), get("path", ""), p["message"], get("fix", ""))
                )
        except (ValueError, TypeError, KeyError):
            pass
        if answer.code == 422:
            return ServerError(text, 422, problems)
        if answer.code == 401:
            text = f"needs a login: use https://USER@… and put the password into {_PASSWORD}"
        return ServerError(f"server {self.url}: {text} (status {answer.code})", answer.code, problems)
