#!/usr/bin/env python3
"""Makes the npm package that carries the program of one system, and the package evalfleet, which needs one of them.

    pack.py --program dist/…/evalfleet --os linux --arch amd64 --version 1.2.3 --out dist/npm

.goreleaser.yaml calls it for each program that it builds. The same inputs give the same files; their times are those of
--time, in seconds since 1970.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Node's names of the systems that GoReleaser builds for.
SYSTEMS = {
    ("linux", "amd64"): ("linux", "x64"),
    ("linux", "arm64"): ("linux", "arm64"),
    ("darwin", "amd64"): ("darwin", "x64"),
    ("darwin", "arm64"): ("darwin", "arm64"),
    ("windows", "amd64"): ("win32", "x64"),
    ("windows", "arm64"): ("win32", "arm64"),
}


def pack(path: Path, when: int, files: dict[str, tuple[bytes, int]]) -> None:
    """Writes a package: an archive of files, each with its mode, in the folder package."""
    with path.open("wb") as out, gzip.GzipFile("", "wb", 6, out, mtime=when) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, when
            archive.addfile(entry, io.BytesIO(content))


def make(program: Path, system: str, arch: str, version: str, out: Path, when: int) -> list[Path]:
    """Writes the package of a system; with that of linux/amd64, the package evalfleet, too. Returns their paths."""
    if (system, arch) not in SYSTEMS:
        raise SystemExit(f"pack.py: no name for {system}/{arch}: add it to SYSTEMS")
    main = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    common = {name: (path.read_bytes(), 0o644) for name, path in (("README.md", HERE / "README.md"), ("LICENSE", HERE.parents[1] / "LICENSE"))}
    out.mkdir(parents=True, exist_ok=True)

    node_os, cpu = SYSTEMS[system, arch]
    name = "evalfleet.exe" if system == "windows" else "evalfleet"
    carrier = {key: main[key] for key in ("description", "license", "homepage", "repository")}
    carrier = {"name": f"@evalfleet/{node_os}-{cpu}", "version": version, **carrier, "os": [node_os], "cpu": [cpu]}
    paths = [out / f"evalfleet-{node_os}-{cpu}-{version}.tgz"]
    pack(paths[0], when, {"package.json": (json.dumps(carrier, indent=2).encode(), 0o644), **common, name: (program.read_bytes(), 0o755)})

    if (system, arch) == ("linux", "amd64"):
        main["version"] = version
        main["optionalDependencies"] = {f"@evalfleet/{node_os}-{cpu}": version for node_os, cpu in SYSTEMS.values()}
        paths.append(out / f"evalfleet-{version}.tgz")
        launcher = "bin/evalfleet.js"
        pack(paths[1], when, {
            "package.json": (json.dumps(main, indent=2).encode(), 0o644), **common, launcher: ((HERE / launcher).read_bytes(), 0o755),
        })
    return paths


def main() -> None:
    """Reads the command line."""
    line = argparse.ArgumentParser(description="Makes the npm packages of one system.")
    line.add_argument("--program", type=Path, required=True, help="the built program")
    line.add_argument("--os", required=True, help="as Go names it, such as linux")
    line.add_argument("--arch", required=True, help="as Go names it, such as amd64")
    line.add_argument("--version", required=True)
    line.add_argument("--out", type=Path, required=True, help="the folder of the packages")
    line.add_argument("--time", type=int, default=0, help="time of their files, in seconds since 1970")
    a = line.parse_args()
    for path in make(a.program, a.os, a.arch, a.version, a.out, a.time):
        print(path, file=sys.stderr)


if __name__ == "__main__":
    main()
