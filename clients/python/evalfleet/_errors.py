"""Errors of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._results import Results


class EvalfleetError(Exception):
    """Something went wrong; the text says what, where, and what to do.

    exit_code is that of the program, as docs/scripting.md lists it: 1 runs failed or the evaluation was stopped, 2 the
    input is wrong, 3 Redis, a server or the results store cannot be reached, or the disk is full, 130 interrupted. A
    program that a signal killed has 128 plus the signal's number.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ProgramNotFound(EvalfleetError):
    """There is no evalfleet program on this machine, or it cannot be executed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


class RunsFailed(EvalfleetError):
    """Runs failed, or the evaluation was cancelled or stopped. results has what is recorded; None: no tables."""

    def __init__(self, message: str, results: Results | None) -> None:
        super().__init__(message, 1)
        self.results = results


class FolderError(EvalfleetError):
    """A folder has no results, or a file in it cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


@dataclass(frozen=True)
class Problem:
    """A problem in a file that was submitted. line and column are 0 where they are not known."""

    file: str
    line: int
    column: int
    path: str
    message: str
    fix: str


class ServerError(EvalfleetError):
    """A controller refused a request, or cannot be reached (status 0)."""

    def __init__(self, message: str, status: int, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, 3 if status == 0 or status == 429 or status >= 500 else 2)
        self.status = status
        self.problems = tuple(problems)
