#!/bin/sh
# Makes sure that a server is here of which tests start private ones: redis, postgres or
# prometheus, as the argument says. It installs the system's package, makes no cluster
# and starts no service.
set -eu

case $1 in
redis) name=redis-server programs=redis-server formula=redis least="Redis 7.0" on_path="redis-server is" again=test ;;
postgres) name=PostgreSQL programs=initdb formula=postgresql@17 least="PostgreSQL 14" on_path="initdb and postgres are" again=test ;;
prometheus) name=prometheus programs="prometheus promtool" formula=prometheus least="Prometheus 2.40" on_path="prometheus and promtool are" again=check-deploy ;;
*) echo "usage: $0 redis|postgres|prometheus" >&2; exit 2 ;;
esac

found() {
  for program in $programs; do
    command -v "$program" >/dev/null || off_path "$program" || return 1
  done
}

# Neither Debian nor Homebrew puts PostgreSQL's on the PATH.
off_path() {
  for folder in /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
    [ ! -x "$folder/$1" ] || return 0
  done
  return 1
}

found && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

install() {
  # A service is not wanted: its start script is told so.
  $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

if command -v apt-get >/dev/null; then
  echo "$name is missing: installing Debian's package" >&2
  $as_root apt-get update -qq
  if [ "$1" = postgres ]; then
    install postgresql-common
    $as_root sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    install postgresql
  else
    install "$name"
  fi
elif command -v brew >/dev/null; then
  echo "$name is missing: installing it with Homebrew" >&2
  brew install --quiet "$formula"
else
  echo "$name is missing and neither apt-get nor brew is here." >&2
  echo "Install $least or newer so that $on_path on the PATH, then run make $again again." >&2
  exit 1
fi
found
