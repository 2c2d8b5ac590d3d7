#!/bin/sh
# Makes sure that prometheus and promtool are on the PATH: the tests of alerts and
# dashboards start a private one. It installs the system's package and starts no
# service.
set -eu

command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"

if command -v apt-get >/dev/null; then
  echo "prometheus is missing: installing Debian's package" >&2
  $as_root apt-get update -qq
  # A service is not wanted: its start script is told so.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends prometheus >/dev/null
elif command -v brew >/dev/null; then
  echo "prometheus is missing: installing it with Homebrew" >&2
  brew install --quiet prometheus
else
  echo "prometheus is missing and neither apt-get nor brew is here." >&2
  echo "Install Prometheus 2.40 or newer so that prometheus and promtool are on the PATH, then run make check-deploy again." >&2
  exit 1
fi
command -v prometheus >/dev/null
command -v promtool >/dev/null
