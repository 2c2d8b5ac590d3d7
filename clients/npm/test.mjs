// Installs the packages from files, as a user does, and runs the program of the tree with them: EVALFLEET_BINARY.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.EVALFLEET_BINARY;
const arch = { x64: "amd64", arm64: "arm64" }[process.arch];
const folder = mkdtempSync(join(tmpdir(), "evalfleet-npm-"));
const env = { ...process.env, npm_config_cache: join(folder, "cache"), npm_config_audit: "false", npm_config_fund: "false", npm_config_offline: "true" };
delete env.EVALFLEET_BINARY;

before(() => {
  const args = ["--program", program, "--os", process.platform, "--arch", arch, "--version", "1.2.3", "--out", folder];
  execFileSync("python3", [join(here, "pack.py"), ...args]);
  if (arch !== "amd64") { // it comes with that of linux/amd64
    execFileSync("python3", [join(here, "pack.py"), "--program", program, "--os", "linux", "--arch", "amd64", "--version", "1.2.3", "--out", folder]);
  }
  writeFileSync(join(folder, "package.json"), "{}");
  execFileSync("npm", ["install", "./evalfleet-1.2.3.tgz", `./evalfleet-${process.platform}-${process.arch}-1.2.3.tgz`], { cwd: folder, env });
});
after(() => rmSync(folder, { recursive: true, force: true }));

test("npx evalfleet runs the program, and ends as it does", () => {
  const own = spawnSync(program, ["--version"], { encoding: "utf8" });
  const same = spawnSync("npx", ["--no-install", "evalfleet", "--version"], { cwd: folder, env, encoding: "utf8" });
  assert.equal(same.status, 0, same.stderr);
  assert.equal(same.stdout, own.stdout);
  const wrong = spawnSync("npx", ["--no-install", "evalfleet", "no-such-command"], { cwd: folder, env, encoding: "utf8" });
  assert.equal(wrong.status, spawnSync(program, ["no-such-command"]).status);
  assert.notEqual(wrong.status, 0);
});

test("signals reach the program", async () => {
  const script = join(folder, "waits.sh");
  writeFileSync(script, "#!/bin/sh\ntrap 'exit 7' TERM\necho ready\nwhile :; do sleep 0.1; done\n");
  chmodSync(script, 0o755);
  const launcher = join(folder, "node_modules/evalfleet/bin/evalfleet.js");
  const child = spawn("node", [launcher], { env: { ...env, EVALFLEET_BINARY: script }, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const code = await new Promise((resolve) => child.on("exit", resolve));
  assert.equal(code, 7);
});

test("a missing package is named", () => {
  rmSync(join(folder, "node_modules/@evalfleet"), { recursive: true });
  const run = spawnSync("node", [join(folder, "node_modules/evalfleet/bin/evalfleet.js")], { env, encoding: "utf8" });
  assert.equal(run.status, 1);
  assert.match(run.stderr, /the package @evalfleet\/\w+-\w+ is missing; install it/);
});
