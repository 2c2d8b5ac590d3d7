#!/bin/sh
# Writes the passwords of docker-compose.yml that are missing to .env in the current
# folder, and leaves the rest of the file as it is. Linux and macOS have what it uses.
set -eu
umask 077
touch .env
chmod 600 .env
if [ -n "$(tail -c 1 .env)" ]; then
	echo >>.env # the last line had no end
fi
for name in REDIS_PASSWORD PGPASSWORD GRAFANA_PASSWORD; do
	if ! grep -Eq "^(export )?$name=[\"']?[^\"' ]" .env; then
		printf '%s=%s\n' "$name" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >>.env
	fi
done
