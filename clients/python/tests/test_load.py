"""Tables of an output folder, whole, broken, and of other releases."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

import evalfleet
from evalfleet import FolderError, Verdict


def test_rows_have_types(results: evalfleet.Results) -> None:
    assert (len(results.answers), len(results.scores), len(results.verdicts)) == (16, 96, 480)
    assert (len(results.calls), len(results.ranking), len(results.items), len(results.effects)) == (512, 16, 0, 0)
    verdict = results.verdicts[10]
    assert (verdict.id, verdict.result, verdict.trial) == ("r1-10", "first", 1)
    assert isinstance(verdict.timestamp, datetime) and verdict.timestamp.tzinfo == timezone.utc
    call = results.calls[0]
    assert (call.id, call.cached, call.status, call.class_, call.cost_usd) == ("r0-0", False, 200, "", 0.0)
    best = results.ranking[0]
    assert (best.rank, best.candidate) == (1, "libraries-d.md") and best.ability is not None and best.ability > 1
    assert best.mean_score_low is None  # with one item
    assert [v.id for v in results.verdicts[:2]] == ["r1-0", "r1-1"]
    assert (results.name, results.report.exists(), results.manifest["totals"]["succeeded"]) == ("essays", True, 512)
    assert "512 of 512 runs succeeded" in repr(results) and "480 rows" in repr(results.verdicts)


def test_values_are_those_of_the_files(results: evalfleet.Results) -> None:
    """JSON Lines, which the program writes as well, have types."""
    with (results.folder / "ranking.jsonl").open(encoding="utf-8") as file:
        written = [json.loads(line) for line in file]
    assert len(written) == 16
    for row, line in zip(results.ranking, written):
        assert {name: getattr(row, name) for name in line} == line and row.extra == {}


def test_frames_have_types(results: evalfleet.Results) -> None:
    pandas = pytest.importorskip("pandas", reason="NOT TESTED: apt-get install python3-pandas")
    calls = results.calls.pandas()
    want = {
        "id": "string",
        "cached": "boolean",
        "status": "Int64",
        "class": "string",
        "cost_usd": "float64",
        "ended_at": "datetime64[ns, UTC]",
    }
    assert {name: str(calls[name].dtype) for name in want} == want
    with (results.folder / "calls.csv").open(encoding="utf-8", newline="") as file:
        assert list(calls.columns) == next(csv.reader(file))
    verdicts = results.verdicts.pandas()
    assert verdicts.id[10] == "r1-10" and verdicts.id.nunique() == 480
    assert len(verdicts.merge(calls, on="id")) == 480
    assert calls.latency_s.sum() == pytest.approx(sum(c.latency_s or 0 for c in results.calls))
    ranking = results.ranking.pandas()
    assert ranking.mean_score_low.isna().all() and ranking["rank"].sum() == sum(r.rank or 0 for r in results.ranking)
    empty = results.items.pandas()
    assert isinstance(empty, pandas.DataFrame) and len(empty) == 0 and str(empty.pairs.dtype) == "Int64"


def rewrite(path: Path, change: dict[str, list[str]] | None = None, without: str = "") -> None:
    """Writes a table again, with further columns, or without one."""
    with path.open(encoding="utf-8", newline="") as file:
        heads, *rows = csv.reader(file)
    keep = [k for k, head in enumerate(heads) if head != without]
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([heads[k] for k in keep] + list(change or {}))
        for n, row in enumerate(rows):
            out.writerow([row[k] for k in keep] + [cells[n % len(cells)] for cells in (change or {}).values()])


def test_newer_and_older_columns(folder: Path) -> None:
    rewrite(folder / "verdicts.csv", {"mood": ["calm", "'=1"]}, without="trial")
    results = evalfleet.load(folder)
    assert [v.extra for v in results.verdicts[:2]] == [{"mood": "calm"}, {"mood": "=1"}]
    assert {v.trial for v in results.verdicts} == {None} and results.verdicts[0].order == "forward"
    pytest.importorskip("pandas", reason="NOT TESTED: apt-get install python3-pandas")
    frame = results.verdicts.pandas()
    assert frame.trial.isna().all() and str(frame.trial.dtype) == "Int64" and frame.mood[1] == "=1"


def test_texts_are_those_of_the_documents(here: Path) -> None:
    texts = {
        "a.md": "- a list, which a spreadsheet takes for a formula",
        "b.md": "„Größe“ 測試 🧪 '=1 \"quoted\", with\nlines\n\nbetween",
        "c.md": "'quoted' from the beginning",
        "d.md": "long " * 60_000,  # longer than a cell may be by default
    }
    for name, text in texts.items():
        (here / "drafts" / name).write_text(text, encoding="utf-8")
    results = evalfleet.run({"documents": ["drafts/[a-d].md"], "judges": ["simulator:careful"], "pairwise": {}})
    assert {a.candidate: a.answer for a in results.answers} == texts


def test_cuts_in_rows_are_noticed(folder: Path) -> None:
    path = folder / "answers.csv"
    whole = path.read_bytes()
    end = whole.index(b"\n", 3000)  # within the first texts, which have several lines
    lines = [at for at in range(end) if whole[at - 1 : at] == b"\n" and whole.count(b'"', 0, at) % 2 == 1]
    assert len(lines) > 3
    for at in [*range(90), *range(95, end, 37), *lines]:
        path.write_bytes(whole[:at])
        with pytest.raises(FolderError, match="answers.csv.*evalfleet report"):
            evalfleet.load(folder).answers
            pytest.fail(f"a table of {at} of {len(whole)} bytes is read")
    path.write_bytes(whole)
    assert len(evalfleet.load(folder).answers) == 16


@pytest.mark.parametrize(
    ("file", "content", "want"),
    [
        ("verdicts.csv", "id,trial\nr1-0,one\n", "verdicts.csv:2: trial is 'one', want an integer"),
        ("verdicts.csv", "id,timestamp\nr1-0,yesterday\n", "verdicts.csv:2: timestamp is 'yesterday', want a time"),
        ("calls.csv", "id,cached\nr1-0,True\n", "calls.csv:2: cached is 'True', want true or false"),
        ("verdicts.csv", "id,trial\nr1-0,1\nr1-1\n", "verdicts.csv:3: 1 cells, want 2"),
        ("verdicts.csv", "<html>\n</html>\n", "verdicts.csv:1: none of its columns"),
        ("verdicts.csv", "id\nr\xff\n", "not UTF-8 at byte 4"),
        ("verdicts.csv", None, "verdicts.csv is missing; write the tables with: evalfleet report"),
        ("calls.csv", None, "has no tables yet; write them with: evalfleet report"),
        ("manifest.json", '{"version": 1, ', "manifest.json: .*evalfleet report"),
        ("manifest.json", "[]", "manifest.json: it has no version"),
        ("manifest.json", '{"version": 2}', "version 2 is newer than this package: pip install -U evalfleet"),
    ],
)
def test_broken_files_are_named(folder: Path, file: str, content: str | None, want: str) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(FolderError, match=want) as caught:
        results = evalfleet.load(folder)
        results.verdicts, results.calls
    assert caught.value.exit_code == 2


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="nowhere: no such folder"):
        evalfleet.load(tmp_path / "nowhere")
    with pytest.raises(FolderError, match="is not an output folder of evalfleet"):
        evalfleet.load(tmp_path)


def test_rows_can_be_made() -> None:
    """For tests of programs that use them."""
    assert Verdict(id="r0-1", result="tie") == Verdict(result="tie", id="r0-1") != Verdict(id="r0-1", result="first")
