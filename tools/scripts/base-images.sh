#!/bin/sh
# usage: base-images.sh
#
# Sees to it that the engine has the images that deploy/Dockerfile and docker-compose.yml of the current folder start
# from: those that are there, else from their registry, else stand-ins made of what this machine has. A stand-in is
# this machine's Go toolchain with the modules of go.mod, or its redis-server, each beside a static busybox. The name
# of each stand-in is printed, for the caller to remove it.
set -eu

golang=$(sed -n 's/^FROM .*\(golang:[^ ]*\).*/\1/p' deploy/Dockerfile)
redis=$(sed -n 's/^ *image: \(redis:[^ ]*\).*/\1/p' docker-compose.yml)

have() {
	docker image inspect "$1" >/dev/null 2>&1 || docker pull --quiet "$1" >/dev/null 2>&1
}

stage=$(mktemp -d)
trap 'chmod -R u+w "$stage"; rm -rf "$stage"' EXIT

# furnish ROOT: busybox, as a shell and its tools. Without root's folder in passwd, Go would not find the cache of a build.
furnish() {
	mkdir -p "$1/bin" "$1/etc" "$1/tmp" "$1/root"
	printf 'root:x:0:0::/root:/bin/sh\nredis:x:999:999::/data:/bin/sh\n' >"$1/etc/passwd"
	chmod 1777 "$1/tmp"
	cp "$(command -v busybox)" "$1/bin/busybox"
	for name in $("$1/bin/busybox" --list); do
		[ "$name" = busybox ] || ln -s busybox "$1/bin/$name"
	done
}

if ! have "$redis"; then
	root=$stage/redis
	furnish "$root"
	mkdir -p "$root/usr/local/bin" "$root/data"
	chown 999:999 "$root/data"
	for program in redis-server redis-cli; do
		path=$(command -v $program)
		cp -L "$path" "$root/usr/local/bin/"
		for library in $(ldd "$path" | grep -o '/[^ ]*'); do
			mkdir -p "$root$(dirname "$library")"
			cp -L "$library" "$root$library"
		done
	done
	tar -C "$root" -c . | docker import --change 'ENV PATH=/usr/local/bin:/bin' --change 'WORKDIR /data' \
		--change 'VOLUME /data' --change 'CMD ["redis-server"]' - "$redis" >/dev/null
	echo "$redis"
fi

if ! have "$golang"; then
	root=$stage/golang
	furnish "$root"
	mkdir -p "$root/etc/ssl/certs"
	cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	modules=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
	GOMODCACHE=$stage/modules GOFLAGS=-modcacherw GOPROXY=$modules go mod download
	mv "$stage/modules/cache/download" "$root/modules"
	toolchain=$(go env GOROOT)
	tar -c --transform "s,^${toolchain#/},usr/local/go," -C "$root" . -C / "${toolchain#/}" |
		docker import --change 'ENV PATH=/usr/local/go/bin:/bin' --change 'ENV GOPATH=/go GOTOOLCHAIN=local' \
			--change 'ENV GOPROXY=file:///modules GONOSUMDB=*' --change 'WORKDIR /go' - "$golang" >/dev/null
	echo "$golang"
fi
