"""The code of docs/python.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PASSWORD, REPOSITORY, Provider

import evalfleet

PAGE = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_all_blocks_are_run() -> None:
    assert [name for name, _ in BLOCKS] == ["A ranking in a notebook", "Submit to a fleet", "Results", "Errors"]
    assert PAGE.count("```python\n") == len(BLOCKS)


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_block(
    name: str,
    code: str,
    here: Path,
    server: str,
    simulate: Callable[..., Provider],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pandas", reason="NOT TESTED: apt-get install python3-pandas")
    (here / "models.json").write_text('{"models": {"gpt-4.1-mini": {}}}')
    provider = simulate("--settings", "models.json")
    (here / "hosted.yaml").write_text(f'providers: {{openai-chat: {{base_url: "{provider.url}/v1"}}}}\n')
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("EVALFLEET_CONFIG", "hosted.yaml")
    monkeypatch.setenv("EVALFLEET_SERVER_PASSWORD", PASSWORD)
    # A fleet has the simulated judges of the program; a key for another one is with its workers.
    judge = "simulator:careful" if "submit" in code else "openai-chat:gpt-4.1-mini"
    evaluation = {"documents": ["drafts/*.md"], "judges": [judge], "pairwise": {}}
    (here / "evaluation.yaml").write_text(json.dumps(evaluation), encoding="utf-8")
    if '"out"' in code:
        evalfleet.run("evaluation.yaml", out_dir="out")

    scope: dict[str, object] = {}
    exec(code.replace("https://ann@evals.example.org", server), scope)
    results = scope["results"]
    assert isinstance(results, evalfleet.Results) and len(results.verdicts) == 12
    assert ("draft" in capsys.readouterr().out) == (name in ("A ranking in a notebook", "Submit to a fleet"))
