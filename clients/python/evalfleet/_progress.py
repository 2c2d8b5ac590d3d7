"""Shows the progress of an evaluation."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

# How often a line is written where it cannot be written over, in seconds.
_EVERY = 10.0


@dataclass(frozen=True)
class Progress:
    """The progress of an evaluation: of runs, ended ended, failed ones among them. text says it in words."""

    evaluation: str
    runs: int
    ended: int
    failed: int
    text: str


Observer = Callable[[Progress], object]


def observer(progress: bool | Observer | None) -> Observer:
    """Returns what progress asks for: True a display, False none, None a display if somebody watches."""
    if callable(progress):
        return progress
    if progress is False:
        return lambda now: None
    rewrites = sys.stderr.isatty() or "ipykernel" in sys.modules  # which shows a carriage return as terminals do
    if progress is None and not rewrites:
        return lambda now: None
    return _Display(rewrites)


class _Display:
    """Writes progress to standard error: over one line, or a line now and then."""

    def __init__(self, rewrites: bool) -> None:
        self._rewrites = rewrites
        self._width = 0
        self._last = -_EVERY

    def __call__(self, now: Progress) -> None:
        done = now.ended >= now.runs
        if self._rewrites:
            text = now.text.replace("\n", " ")[:100]
            sys.stderr.write("\r" + text.ljust(self._width) + ("\n" if done else ""))
            self._width = 0 if done else len(text)
        elif done or time.monotonic() - self._last >= _EVERY:
            sys.stderr.write(now.text + "\n")
            self._last = time.monotonic()
        sys.stderr.flush()
