#!/bin/sh
# Writes the passwords of docker-compose.yml that are missing to .secrets in the current
# folder, and the files that its servers read them from. Linux and macOS have what it uses.
#
# The folder is closed to other users. The files are not: each container's own user reads them.
# To change a password, edit .secrets/redis, .secrets/postgres or .secrets/grafana, and run it again.
set -eu
umask 077
dir=.secrets
mkdir -p "$dir"
chmod 700 "$dir"
touch .env
chmod 600 .env

# Earlier versions kept passwords in .env.
earlier() {
	sed -n "s/^$1=//p" .env | tail -n 1 | tr -d "\"'\r\n"
}
for name in redis:REDIS_PASSWORD postgres:PGPASSWORD grafana:GRAFANA_PASSWORD; do
	variable=${name#*:} name=${name%:*}
	if [ ! -s "$dir/$name" ]; then
		earlier "$variable" >"$dir/$name"
	fi
	if [ ! -s "$dir/$name" ]; then
		od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$dir/$name"
	fi
done

# In the places of the files that are there, which running containers have mounted.
printf 'requirepass "%s"\n' "$(sed 's/[\\"]/\\&/g' "$dir/redis")" >"$dir/redis.conf"
printf '*:*:*:*:%s\n' "$(sed 's/[\\:]/\\&/g' "$dir/postgres")" >"$dir/pgpass"
cat "$dir/pgpass" >"$dir/worker-cache" # for workers with EVALFLEET_CACHE
: >"$dir/worker"                       # and without
for name in redis redis.conf postgres pgpass worker worker-cache grafana; do
	chmod 644 "$dir/$name"
done

if [ -n "$(tail -c 1 .env)" ]; then
	echo >>.env # the last line had no end
fi
if ! grep -Eq "^(export )?FLEET_SECRETS=[\"']?[^\"' ]" .env; then
	echo "FLEET_SECRETS=$dir" >>.env
fi
