#!/bin/sh
# usage: ensure.sh redis|postgres|prometheus|pandas|python|docker|node ...
#
# Makes sure that the servers named, pandas for a Python, or what make test-python uses are installed; tests start private ones. As root
# on Debian or Ubuntu, and on macOS with Homebrew, it installs the system's packages.
# It creates no database cluster and starts no service. An ordinary user without a
# server gets one line that says what to install; no password is ever asked for.
set -eu

found() { # found NAME: is every program of this server here?
  case $1 in
  redis)
    server=${REDIS_SERVER:-redis-server}
    if ! command -v "$server" >/dev/null; then
      [ -n "${REDIS_SERVER:-}" ] || return 1
      echo "REDIS_SERVER=$REDIS_SERVER is not a program" >&2
      exit 1
    fi
    version=$("$server" --version | sed 's/.* v=\([0-9.]*\).*/\1/')
    [ "${version%%.*}" -ge 7 ] && return
    echo "$server is Redis $version: install 7.0 or newer, or name another with REDIS_SERVER=/path/to/redis-server" >&2
    exit 1 ;;
  postgres) command -v initdb >/dev/null || postgres_off_path ;;
  prometheus) command -v prometheus >/dev/null && command -v promtool >/dev/null ;;
  pandas) python3 -c 'import pandas' 2>/dev/null || /usr/bin/python3 -c 'import pandas' 2>/dev/null ;;
  python) /usr/bin/python3 -c 'import pytest, mypy, pandas, ensurepip' 2>/dev/null || python3 -c 'import pytest, mypy, pandas, ensurepip' 2>/dev/null ;;
  docker) docker info >/dev/null 2>&1 || { command -v docker && command -v dockerd && command -v ip && command -v busybox; } >/dev/null ;;
  node) { command -v etcd && command -v containerd && command -v dnsmasq && command -v conntrack && command -v openssl && [ -x /usr/lib/cni/bridge ]; } >/dev/null ;;
  *) echo "usage: $0 redis|postgres|prometheus|pandas|python|docker|node ..." >&2; exit 2 ;;
  esac
}

# Neither Debian nor Homebrew puts PostgreSQL's programs on the PATH.
postgres_off_path() {
  for folder in /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
    [ ! -x "$folder/initdb" ] || return 0
  done
  return 1
}

debian() { case $1 in redis) echo redis-server ;; postgres) echo postgresql ;; prometheus) echo prometheus ;; pandas) echo python3-pandas ;; python) echo python3-pytest python3-venv python3-pandas mypy ;; docker) echo docker.io iproute2 iptables busybox-static ;; node) echo etcd-server containerd dnsmasq-base conntrack openssl containernetworking-plugins ;; esac; }
formula() { case $1 in redis) echo redis ;; postgres) echo postgresql@17 ;; prometheus) echo prometheus ;; pandas) echo python-pandas ;; python) echo pytest mypy python-pandas ;; docker) echo docker colima ;; node) echo kubernetes-cli ;; esac; }
needed() { case $1 in redis) echo "redis-server 7.0 or newer" ;; postgres) echo "PostgreSQL 14 or newer" ;; prometheus) echo "Prometheus 2.40 or newer" ;; pandas) echo "pandas for Python 3" ;; python) echo "pytest, mypy and pandas for Python 3" ;; docker) echo "a Docker engine that answers, or dockerd" ;; node) echo "the name of a cluster in KUBECONFIG, or Linux" ;; esac; }

missing=""
for name in "$@"; do
  found "$name" || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

packages="" formulas="" needs=""
for name in $missing; do
  packages="$packages $(debian "$name")"
  formulas="$formulas $(formula "$name")"
  needs="$needs${needs:+ and }$(needed "$name")"
done

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "installing$packages" >&2
  # RUNLEVEL=1 keeps the packages from starting their services.
  install() { RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
  apt-get update -qq
  case $packages in *postgresql*)
    install postgresql-common
    sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf ;;
  esac
  # shellcheck disable=SC2086 # one word a package
  install $packages
elif command -v apt-get >/dev/null; then
  echo "missing: $needs. Install with: sudo apt-get install --no-install-recommends$packages" >&2
  exit 1
elif command -v brew >/dev/null; then
  echo "installing$formulas with Homebrew" >&2
  # shellcheck disable=SC2086
  brew install --quiet $formulas
else
  echo "missing: $needs. Install with your system's package manager so that the programs are on the PATH." >&2
  exit 1
fi

for name in $missing; do
  found "$name" || { echo "$(needed "$name") is still missing after the installation" >&2; exit 1; }
done
