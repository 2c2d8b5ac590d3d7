#!/bin/sh
# usage: engine.sh COMMAND ...
#
# Runs a command with a Docker engine, with Compose 2.24 or newer and with buildx.
#
# An engine that answers (DOCKER_HOST, docker's context, or the default socket; podman's socket, too) is used
# as it is. Where none does, root on Linux gets one for as long as the command runs: the dockerd that is installed,
# in a network namespace with nothing outside of it, so that no bridge, rule or port touches this machine's. It has
# no registry, therefore. TMPDIR, or /var/tmp, needs 5 GB. Compose and buildx are built from Go modules into .tools
# where docker lacks them.
set -eu

tools=$(cd "$(dirname "$0")/../.." && pwd)/.tools
COMPOSE_VERSION=v2.40.3 BUILDX_VERSION=v0.30.1

# plugin NAME MODULE VERSION PACKAGE builds a plugin of docker. Its go.mod has exclude lines, with which
# `go install` refuses it: a module that requires it takes them over.
plugin() {
	program=$tools/$1-$3
	if [ ! -x "$program" ]; then
		echo "building $1 $3" >&2
		from=$(mktemp -d)
		(
			cd "$from"
			sed 's/^module .*/module plugin/' "$(go list -m -f '{{.GoMod}}' "$2@$3")" >go.mod
			echo "require $2 $3" >>go.mod
			printf '//go:build tools\n\npackage plugin\n\nimport _ "%s"\n' "$4" >tools.go
			CGO_ENABLED=0 go build -mod=mod -trimpath -buildvcs=false \
				-ldflags "-s -w -X $2/internal.Version=$3 -X $2/version.Version=$3" -o "$program" "$4"
		)
		rm -rf "$from"
	fi
	mkdir -p "$tools/docker/cli-plugins"
	ln -sf "$program" "$tools/docker/cli-plugins/$1"
}

# Of a context, whose name is in the folder of settings that is replaced here.
endpoint() {
	docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || true
}

suits() { # suits VERSION: can this Compose read docker-compose.yml?
	[ -n "$1" ] && [ "$(printf '2.24\n%s\n' "${1#v}" | sort -V | head -n 1)" = 2.24 ]
}
if ! suits "$(docker compose version --short 2>/dev/null)" || ! docker buildx version >/dev/null 2>&1; then
	DOCKER_HOST=${DOCKER_HOST:-$(endpoint)}
	[ -n "$DOCKER_HOST" ] || unset DOCKER_HOST
	plugin docker-compose github.com/docker/compose/v2 $COMPOSE_VERSION github.com/docker/compose/v2/cmd
	plugin docker-buildx github.com/docker/buildx $BUILDX_VERSION github.com/docker/buildx/cmd/buildx
	export DOCKER_CONFIG="$tools/docker"
fi

if docker info >/dev/null 2>&1; then
	exec "$@"
fi
if [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then
	echo "no Docker engine answers: start one, name one in DOCKER_HOST, or run this as root on Linux with dockerd installed" >&2
	exit 1
fi

dir=$(mktemp -d "${TMPDIR:-/var/tmp}/evalfleet-engine.XXXXXX")
space=${dir##*/}
engine=
# shellcheck disable=SC2329 # the trap calls it
stop() {
	if [ -n "$engine" ]; then
		kill "$engine" 2>/dev/null || true
		wait "$engine" 2>/dev/null || true
	fi
	awk -v dir="$dir/" 'index($5, dir) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r mount; do
		umount "$mount" 2>/dev/null || true
	done
	ip netns delete "$space" 2>/dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

ip netns add "$space"
inside="nsenter --net=/run/netns/$space"
$inside ip link set lo up
echo '{}' >"$dir/daemon.json" # that of this machine is for its own engine
export DOCKER_HOST="unix://$dir/docker.sock"
# setsid: Ctrl-C is for the command, which removes its containers while the engine still runs.
# shellcheck disable=SC2086 # words
setsid $inside dockerd --config-file "$dir/daemon.json" --data-root "$dir/data" --exec-root "$dir/exec" \
	--pidfile "$dir/docker.pid" --host "$DOCKER_HOST" >"$dir/dockerd.log" 2>&1 &
engine=$!
until docker info >/dev/null 2>&1; do
	if ! kill -0 $engine 2>/dev/null; then
		echo "dockerd ended:" >&2
		tail -n 5 "$dir/dockerd.log" >&2
		exit 1
	fi
	sleep 0.2
done
echo "started $(dockerd --version), with its files in $dir" >&2
# shellcheck disable=SC2086
$inside "$@"
