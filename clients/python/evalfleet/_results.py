"""Reads the output folder of an evaluation."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ._errors import FolderError
from ._rows import Answer, Call, Effect, Item, Ranked, Score, Verdict

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row")


def _boolean(cell: str) -> bool:
    if cell not in ("true", "false"):
        raise ValueError(cell)
    return cell == "true"


def _time(cell: str) -> datetime:
    time = datetime.fromisoformat(cell.replace("Z", "+00:00"))
    if time.tzinfo is None:
        raise ValueError(cell)
    return time


def _text(cell: str) -> str:
    """Removes the apostrophe that the program puts before what a spreadsheet would take for a formula."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@", "\t", "\r") else cell


@dataclasses.dataclass(frozen=True)
class _Type:
    what: str
    parse: Callable[[str], Any]
    dtype: str  # in pandas


# The types of fields of rows, as _rows.py writes them.
_TYPES = {
    "str": _Type("a text", _text, "string"),
    "int | None": _Type("an integer", int, "Int64"),
    "float | None": _Type("a number", float, "float64"),
    "bool | None": _Type("true or false", _boolean, "boolean"),
    "datetime | None": _Type("a time", _time, "datetime64[ns, UTC]"),
}


def _columns(row: type) -> dict[str, tuple[str, _Type]]:
    """Returns the fields of a row and their types, by the names of columns in files."""
    fields = [f for f in dataclasses.fields(row) if f.name != "extra"]
    return {f.name.rstrip("_"): (f.name, _TYPES[str(f.type)]) for f in fields}


class Table(Sequence[Row], Generic[Row]):
    """The rows of a table, in the order of its file. pandas returns them as a frame."""

    def __init__(self, name: str, row: type[Row], rows: Sequence[Row]) -> None:
        self.name = name
        self._row = row
        self._rows = rows

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<evalfleet table {self.name}: {len(self)} rows>"

    def pandas(self) -> pandas.DataFrame:
        """Returns a frame with the columns of the file. Needs pandas.

        Texts, also ids such as r0-10, are "string", integers "Int64", booleans "boolean", and times UTC. Columns that
        a newer program wrote are texts; those that an older one did not write are missing values.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("a frame needs pandas: pip install pandas") from error
        frame = pd.DataFrame(index=range(len(self)))
        for column, (field, kind) in _columns(self._row).items():
            values = [getattr(row, field) for row in self]
            if kind.dtype.startswith("datetime"):
                frame[column] = pd.Series(pd.to_datetime(values, utc=True), dtype=kind.dtype)
            else:
                frame[column] = pd.Series(values, dtype=kind.dtype)
        for column in getattr(self[0], "extra", {}) if self else ():
            frame[column] = pd.Series([getattr(row, "extra")[column] for row in self], dtype="string")
        return frame


def _read(path: Path, row: type[Row]) -> list[Row]:
    """Reads a table. A file that was cut short, or changed by another program, is an error."""
    again = f"write it again with: evalfleet report {path.parent}"
    # Answers are longer than the limit that csv begins with. Another thread may read, so it is not put back.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    columns = _columns(row)
    rows: list[Row] = []
    try:
        with path.open("rb") as raw:
            raw.seek(-1, os.SEEK_END)
            if raw.read(1) != b"\n":
                raise FolderError(f"{path}: its last line has no end, so a part of it is missing; {again}")
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            heads = next(lines)
            if not set(heads) & set(columns):
                raise FolderError(f"{path}:1: none of its columns is one of this table; {again}")
            for cells in lines:
                if len(cells) != len(heads):
                    raise FolderError(
                        f"{path}:{lines.line_num}: {len(cells)} cells, want {len(heads)} as in the first line; {again}"
                    )
                rows.append(_row(row, columns, heads, cells, f"{path}:{lines.line_num}"))
    except csv.Error as error:
        raise FolderError(f"{path}: {error}; {again}") from error
    except UnicodeDecodeError as error:
        raise FolderError(f"{path}: not UTF-8 at byte {error.start}; {again}") from error
    except OSError as error:
        if path.exists() and path.stat().st_size == 0:
            raise FolderError(f"{path}: the file is empty; {again}") from error
        raise FolderError(f"{path}: {error.strerror}") from error
    return rows


def _row(
    row: type[Row], columns: dict[str, tuple[str, _Type]], heads: Sequence[str], cells: Sequence[str], place: str
) -> Row:
    values: dict[str, Any] = {}
    extra: dict[str, str] = {}
    for head, cell in zip(heads, cells):
        if head not in columns:
            extra[head] = _text(cell)
            continue
        field, kind = columns[head]
        if cell == "" and kind.dtype != "string":
            continue  # missing
        try:
            values[field] = kind.parse(cell)
        except ValueError:
            raise FolderError(f"{place}: {head} is {cell!r}, want {kind.what}") from None
    make: Callable[..., Row] = row
    return make(**values, extra=extra)


class Results:
    """The results of an evaluation. Its tables are read when they are first used.

    manifest is the content of manifest.json: settings, models, prices, and the numbers of runs.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest

    @property
    def evaluation(self) -> str:
        """The evaluation's id."""
        return str(self.manifest.get("evaluation", ""))

    @property
    def name(self) -> str:
        """The evaluation's name."""
        return str(self.manifest.get("name", ""))

    @property
    def report(self) -> Path:
        """The path of the report for people."""
        return self.folder / "report.html"

    @cached_property
    def answers(self) -> Table[Answer]:
        """Judged texts, and answers of listed runs and prompts."""
        return self._table("answers", Answer)

    @cached_property
    def scores(self) -> Table[Score]:
        """Scores by judges and agents; empty if none were asked for."""
        return self._table("scores", Score)

    @cached_property
    def verdicts(self) -> Table[Verdict]:
        """Verdicts of judges and people on pairs; empty if no pairs are compared."""
        return self._table("verdicts", Verdict)

    @cached_property
    def calls(self) -> Table[Call]:
        """Calls to providers, with tokens, costs and times."""
        return self._table("calls", Call)

    @cached_property
    def ranking(self) -> Table[Ranked]:
        """Candidates, best first; empty if nothing is ranked."""
        return self._table("ranking", Ranked)

    @cached_property
    def effects(self) -> Table[Effect]:
        """Effects of prompts and models, and their interaction; empty if the texts are not answers to prompts."""
        return self._table("effects", Effect)

    @cached_property
    def items(self) -> Table[Item]:
        """Items, and how contested each is; empty with fewer than two."""
        return self._table("items", Item)

    def _table(self, name: str, row: type[Row]) -> Table[Row]:
        path = self.folder / f"{name}.csv"
        if path.exists():
            return Table(name, row, _read(path, row))
        if name not in _ALWAYS and _written(self.folder) and not self._has(name):
            return Table(name, row, [])
        raise FolderError(f"{path} is missing; write the tables with: evalfleet report {self.folder}")

    def _has(self, name: str) -> bool:
        """Reports whether runs have succeeded whose results are in a table."""
        kinds = _KINDS.get(name, ())
        return any(p.get("kind") in kinds and p.get("succeeded", 0) > 0 for p in self.manifest.get("phases") or [])

    def __repr__(self) -> str:
        runs = self.manifest.get("totals", {})
        return (
            f"<evalfleet results of {self.name} ({self.evaluation}) in {self.folder}: "
            f"{runs.get('succeeded', 0)} of {runs.get('runs', 0)} runs succeeded>"
        )


# Tables that every evaluation has; the others are written only if they have rows.
_ALWAYS = ("answers", "calls")
# The kinds of phases, as manifest.json names them, whose results are in a table.
_KINDS = {"verdicts": ("pairwise",), "scores": ("single",)}


def _written(folder: Path) -> bool:
    return all((folder / f"{name}.csv").exists() for name in _ALWAYS)


def load(folder: str | os.PathLike[str]) -> Results:
    """Returns the results in the output folder of `evalfleet run`, `collect` or `report`.

    Raises FolderError if there are none, or while the tables of an interrupted evaluation are not written yet.
    """
    place = Path(folder)
    path = place / "manifest.json"
    if not place.is_dir():
        raise FolderError(f"{place}: no such folder")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        manifest = None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path}: {error}; write it again with: evalfleet report {place}") from error

    if manifest is None or not _written(place):
        if (place / "results.db").exists():
            raise FolderError(f"{place} has no tables yet; write them with: evalfleet report {place}")
        if manifest is None:
            raise FolderError(f"{place} is not an output folder of evalfleet: it has no manifest.json")
    if not isinstance(manifest, dict) or not isinstance(manifest.get("version"), int):
        raise FolderError(f"{path}: it has no version; write it again with: evalfleet report {place}")
    if manifest["version"] != 1:
        raise FolderError(f"{path}: version {manifest['version']} is newer than this package: pip install -U evalfleet")
    return Results(place, manifest)
