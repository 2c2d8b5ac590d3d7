#!/bin/sh
# usage: stress.sh [ROUNDS]
#
# Runs the tests of every package ROUNDS times (5 by default) on a machine that is too
# slow, in two ways: with one thread (GOMAXPROCS=1), and beside 16 busy processes. Then
# prints what failed and how often, and exits 1 if anything did. Logs of failed rounds
# stay in .stress/.
set -u
cd "$(dirname "$0")/../.."
rounds=${1:-5}
logs=.stress
rm -rf "$logs"
mkdir -p "$logs"

busy=""
stop_busy() {
  # shellcheck disable=SC2086 # one process id a word
  [ -z "$busy" ] || kill $busy 2>/dev/null
  busy=""
}
trap stop_busy EXIT
trap 'exit 130' INT TERM

start_busy() {
  parent=$$
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    # Ends by itself when this script is killed.
    sh -c 'while kill -0 '"$parent"' 2>/dev/null; do i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; done' &
    busy="$busy $!"
  done
}

failed=0
round() { # round NAME N
  log="$logs/$1-$2.log"
  if go test -short -shuffle=on -count=1 -timeout 60m ./... >"$log" 2>&1; then
    echo "$1 round $2 of $rounds: ok"
    rm "$log"
  else
    echo "$1 round $2 of $rounds: FAILED, see $log"
    failed=$((failed + 1))
  fi
}

go test -short -run '^$' ./... >/dev/null || exit 1 # compiles everything once

n=1
while [ "$n" -le "$rounds" ]; do
  GOMAXPROCS=1 round one-thread "$n"
  n=$((n + 1))
done

start_busy
n=1
while [ "$n" -le "$rounds" ]; do
  round busy "$n"
  n=$((n + 1))
done
stop_busy

if [ "$failed" -gt 0 ]; then
  echo "failures in $failed of $((2 * rounds)) rounds (times, test or package):"
  cat "$logs"/*.log | grep -E '^ *--- FAIL: |^FAIL	|^panic: ' | sed 's/ ([0-9.]*s)$//; s/	[0-9.]*s$//' | sort | uniq -c | sort -rn
  exit 1
fi
echo "0 failures in $((2 * rounds)) rounds"
