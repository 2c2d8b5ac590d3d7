"""Runs evaluations with evalfleet, submits them to a fleet, and loads their results.

    import evalfleet
    results = evalfleet.run("evaluation.yaml")
    results.ranking.pandas()

docs/python.md has examples.
"""

from ._errors import EvalfleetError, FolderError, Problem, ProgramNotFound, RunsFailed, ServerError
from ._program import find_program, run
from ._progress import Progress
from ._results import Results, Table, load
from ._rows import Answer, Call, Effect, Item, Ranked, Score, Verdict
from ._server import Submission, submit, wait

__all__ = [
    "Answer",
    "Call",
    "Effect",
    "EvalfleetError",
    "FolderError",
    "Item",
    "Problem",
    "ProgramNotFound",
    "Progress",
    "Ranked",
    "Results",
    "RunsFailed",
    "Score",
    "ServerError",
    "Submission",
    "Table",
    "Verdict",
    "find_program",
    "load",
    "run",
    "submit",
    "wait",
]
