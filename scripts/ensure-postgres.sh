#!/bin/sh
# Makes sure that PostgreSQL's server is here: tests start private ones. It installs
# the system's package, makes no cluster and starts no service.
set -eu

# Neither Debian nor Homebrew puts it on the PATH.
found() {
  command -v initdb >/dev/null && return
  for initdb in /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
    [ ! -x "$initdb" ] || return 0
  done
  return 1
}

found && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

if command -v apt-get >/dev/null; then
  echo "PostgreSQL is missing: installing Debian's package" >&2
  $as_root apt-get update -qq
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
  $as_root sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
elif command -v brew >/dev/null; then
  echo "PostgreSQL is missing: installing it with Homebrew" >&2
  brew install --quiet postgresql@17
else
  echo "PostgreSQL is missing and neither apt-get nor brew is here." >&2
  echo "Install PostgreSQL 14 or newer so that initdb and postgres are on the PATH, then run make test again." >&2
  exit 1
fi
found
