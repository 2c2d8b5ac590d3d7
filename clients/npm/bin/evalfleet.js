#!/usr/bin/env node
// Runs the program of the package for this system, or the one that EVALFLEET_BINARY names.
"use strict";
const { spawn } = require("node:child_process");
const { dirname, join } = require("node:path");

function program() {
  if (process.env.EVALFLEET_BINARY) return process.env.EVALFLEET_BINARY;
  const carrier = `@evalfleet/${process.platform}-${process.arch}`;
  try {
    const folder = dirname(require.resolve(`${carrier}/package.json`));
    return join(folder, process.platform === "win32" ? "evalfleet.exe" : "evalfleet");
  } catch {
    console.error(`error: the package ${carrier} is missing; install it beside evalfleet, or set EVALFLEET_BINARY to the program`);
    process.exit(1);
  }
}

// A terminal sends SIGINT to the program itself. Twice would be the second Ctrl-C, which stops at once.
const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !terminal) child.kill(signal); // runs after the next line at the earliest
  });
}
const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: cannot run ${error.path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  for (const name of signals) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
