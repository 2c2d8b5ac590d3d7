"""Wheels with the program in them."""

from __future__ import annotations

import email
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import PAIRS, PROGRAM

ROOT = Path(__file__).resolve().parents[1]
ARCH = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "amd64")


def build(out: Path, system: str, arch: str, version: str = "1.2.3", program: str = PROGRAM) -> Path:
    """Makes a wheel as .goreleaser.yaml does."""
    command = [sys.executable, str(ROOT / "wheel.py"), "--program", program, "--os", system, "--arch", arch]
    command += ["--version", version, "--out", str(out), "--time", "1700000000"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return Path(said.strip())


def test_an_installed_wheel_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = build(here, sys.platform, ARCH)
    made = subprocess.run([sys.executable, "-m", "venv", "venv"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: no virtual environment: apt-get install python3-venv: {made.stdout}{made.stderr}")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("EVALFLEET_", "PYTHON"))}
    env["PATH"] = f"{here / 'venv' / 'bin'}{os.pathsep}/usr/bin:/bin"

    def sh(*command: str) -> str:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = ["venv/bin/python", "-m", "pip", "--disable-pip-version-check"]
    sh(*pip, "install", "--no-index", str(wheel))
    sh(*pip, "check")
    assert "Version: 1.2.3" in sh(*pip, "show", "evalfleet")
    assert sh("venv/bin/evalfleet", "--version") == sh(PROGRAM, "--version")
    script = f"import evalfleet; r = evalfleet.run({PAIRS!r}); print(len(r.verdicts), evalfleet.find_program())"
    count, program = sh("venv/bin/python", "-I", "-c", script).split()
    assert count == "12" and program.startswith(str(here / "venv")) and os.access(program, os.X_OK)
    wrong = subprocess.run(["venv/bin/evalfleet", "nonsense"], env=env, capture_output=True)
    assert wrong.returncode == 2  # the command ends with the program's exit code
    sh(*pip, "uninstall", "--yes", "evalfleet")
    assert not Path(program).exists()


@pytest.mark.parametrize(
    ("system", "arch", "tag", "program"),
    [
        ("linux", "amd64", "manylinux2014_x86_64", "evalfleet"),
        ("linux", "arm64", "manylinux2014_aarch64", "evalfleet"),
        ("darwin", "arm64", "macosx_12_0_arm64", "evalfleet"),
        ("darwin", "amd64", "macosx_12_0_x86_64", "evalfleet"),
        ("windows", "amd64", "win_amd64", "evalfleet.exe"),
        ("windows", "arm64", "win_arm64", "evalfleet.exe"),
    ],
)
def test_wheels_of_every_system(tmp_path: Path, system: str, arch: str, tag: str, program: str) -> None:
    small = tmp_path / "program"
    small.write_bytes(b"#!/bin/sh\n")
    wheel = build(tmp_path, system, arch, program=str(small))
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        entries = {e.filename: e for e in archive.infolist()}
        head = email.message_from_bytes(archive.read("evalfleet-1.2.3.dist-info/WHEEL"))
        about = email.message_from_bytes(archive.read("evalfleet-1.2.3.dist-info/METADATA"))
        record = archive.read("evalfleet-1.2.3.dist-info/RECORD").decode().splitlines()
    assert entries[f"evalfleet/bin/{program}"].external_attr >> 16 == 0o100755
    assert f"py3-none-{tag}" in head.get_all("Tag", []) and head["Root-Is-Purelib"] == "false"
    assert {line.split(",")[0] for line in record} == set(entries) and "evalfleet/py.typed" in entries
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("evalfleet", "1.2.3", "MIT")
    assert about["Requires-Dist"] == 'pandas>=1.5; extra == "pandas"' and "LLM judges" in about.get_payload()
    first = wheel.read_bytes()
    assert build(tmp_path, system, arch, program=str(small)).read_bytes() == first  # the same again


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("v1.2.3", "1.2.3"),
        ("1.2.3-rc.1", "1.2.3rc1"),
        ("1.2.3-beta2", "1.2.3b2"),
        ("0.0.1-snapshot.88f6051", "0.0.1.dev0+88f6051"),
    ],
)
def test_versions_are_those_of_python(tmp_path: Path, given: str, want: str) -> None:
    program = shutil.copy("/bin/sh", tmp_path / "program")
    assert build(tmp_path, "linux", "amd64", given, str(program)).name.startswith(f"evalfleet-{want}-py3-none-manylinux2014")


def test_unknown_versions_and_systems_are_refused(tmp_path: Path) -> None:
    for system, version, want in (("linux", "1.2", "want 1.2.3"), ("plan9", "1.2.3", "no tag for plan9/amd64")):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            build(tmp_path, system, "amd64", version)
        assert want in caught.value.stderr
