#!/usr/bin/env python3
"""Makes the wheel of one system: the package with the program in it, and the command evalfleet.

    wheel.py --program dist/…/evalfleet --os linux --arch amd64 --version 1.2.3 --out dist/wheels

.goreleaser.yaml calls it for each program that it builds. Metadata is in pyproject.toml. The same inputs give the same
file; its times are those of --time, in seconds since 1970.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
import time
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Tags of the systems that GoReleaser builds for. The program is static, so it runs with every libc; the tags are those
# that Go itself supports: macOS 12, and Linux with manylinux2014 as with musl.
TAGS = {
    ("linux", "amd64"): "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
    ("windows", "amd64"): "win_amd64",
    ("windows", "arm64"): "win_arm64",
}


def python_version(version: str) -> str:
    """Returns a version of GoReleaser in Python's form: 1.2.3, 1.2.3-rc.1 or 1.2.3-snapshot.abc123."""
    match = re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:-([a-z]+)\.?([0-9a-z]+)?)?", version)
    if not match:
        raise SystemExit(f"wheel.py: version {version!r}: want 1.2.3, 1.2.3-rc.1 or 1.2.3-snapshot.COMMIT")
    release, kind, number = match.groups()
    if kind is None:
        return release
    if kind == "snapshot":
        return f"{release}.dev0+{number or 'snapshot'}"
    if kind not in ("alpha", "beta", "rc") or not (number or "0").isdigit():
        raise SystemExit(f"wheel.py: version {version!r}: want alpha, beta, rc or snapshot after the hyphen")
    return f"{release}{ {'alpha': 'a', 'beta': 'b', 'rc': 'rc'}[kind] }{number or 0}"


def metadata(project: dict[str, object], version: str) -> str:
    """Returns the core metadata of the package."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Keywords: {','.join(project['keywords'])}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Project-URL: {name}, {url}" for name, url in project["urls"].items()),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in requirements]
    readme = (HERE / project["readme"]).read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path: Path, when: int) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._when = time.gmtime(max(when, 315532800))[:6]  # zip begins with 1980
        self._record: list[str] = []

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Adds a file to the archive and to its record."""
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")
        self._write(name, content, mode)

    def close(self, record: str) -> None:
        """Adds the record and ends the archive."""
        self._write(record, "\n".join([*self._record, f"{record},,", ""]).encode(), 0o644)
        self._zip.close()

    def _write(self, name: str, content: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(name, self._when)
        entry.create_system = 3  # Unix, whose mode follows
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, content)


def make(program: Path, system: str, arch: str, version: str, out: Path, when: int) -> Path:
    """Writes a wheel and returns its path."""
    if (system, arch) not in TAGS:
        raise SystemExit(f"wheel.py: no tag for {system}/{arch}: add it to TAGS")
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = python_version(version)
    tags = TAGS[system, arch]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"evalfleet-{version}-py3-none-{tags}.whl"
    wheel = Wheel(path, when)
    for file in sorted((HERE / "evalfleet").iterdir()):
        if file.suffix == ".py" or file.name == "py.typed":
            wheel.add(f"evalfleet/{file.name}", file.read_bytes())
    name = "evalfleet.exe" if system == "windows" else "evalfleet"
    wheel.add(f"evalfleet/bin/{name}", program.read_bytes(), 0o755)

    info = f"evalfleet-{version}.dist-info"
    wheel.add(f"{info}/METADATA", metadata(project, version).encode())
    lines = ["Wheel-Version: 1.0", "Generator: evalfleet", "Root-Is-Purelib: false"]
    lines += [f"Tag: py3-none-{tag}" for tag in tags.split(".")]
    wheel.add(f"{info}/WHEEL", "\n".join([*lines, ""]).encode())
    wheel.add(f"{info}/entry_points.txt", b"[console_scripts]\nevalfleet = evalfleet._program:main\n")
    wheel.add(f"{info}/licenses/LICENSE", (HERE.parents[1] / "LICENSE").read_bytes())
    wheel.close(f"{info}/RECORD")
    return path


def main() -> None:
    """Reads the command line."""
    line = argparse.ArgumentParser(description="Makes the wheel of one system.")
    line.add_argument("--program", type=Path, required=True, help="the built program")
    line.add_argument("--os", required=True, help="as Go names it, such as linux")
    line.add_argument("--arch", required=True, help="as Go names it, such as amd64")
    line.add_argument("--version", required=True)
    line.add_argument("--out", type=Path, required=True, help="the folder of the wheel")
    line.add_argument("--time", type=int, default=0, help="time of its files, in seconds since 1970")
    a = line.parse_args()
    print(make(a.program, a.os, a.arch, a.version, a.out, a.time), file=sys.stderr)


if __name__ == "__main__":
    main()
