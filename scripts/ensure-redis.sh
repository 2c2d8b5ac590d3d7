#!/bin/sh
# Makes sure that redis-server is on the PATH: tests start private ones. It
# installs the system's package and starts no service.
set -eu

command -v redis-server >/dev/null && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

if command -v apt-get >/dev/null; then
  echo "redis-server is missing: installing Debian's package" >&2
  $as_root apt-get update -qq
  # A service is not wanted: its start script is told so.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends redis-server >/dev/null
elif command -v brew >/dev/null; then
  echo "redis-server is missing: installing it with Homebrew" >&2
  brew install --quiet redis
else
  echo "redis-server is missing and neither apt-get nor brew is here." >&2
  echo "Install Redis 7.0 or newer so that redis-server is on the PATH, then run make test again." >&2
  exit 1
fi
command -v redis-server >/dev/null
