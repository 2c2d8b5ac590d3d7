#!/bin/sh
# Takes the pictures of docs/pages.md with Chromium: a fleet at work (evalfleet demo), and the pairs of the first example.
# Argument: the folder of the first example's results. CHROMIUM=path selects the browser.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
pages=
trap 'for p in $pages; do kill "$p" 2>/dev/null && wait "$p" || true; done; rm -rf "$work"' EXIT

# serve COMMAND... starts pages, and sets address to theirs.
serve() {
	: > "$work/address"
	"$@" --listen 127.0.0.1:0 > "$work/address" 2> "$work/log" &
	pages="$pages $!"
	until address=$(sed -n 's|^\(http://.*\)/$|\1|p' "$work/address" | head -n 1) && [ -n "$address" ]; do
		kill -0 "$!" || { cat "$work/log" >&2; exit 1; }
		sleep 1
	done
}

# take NAME PATH WIDTH,HEIGHT
take() {
	"${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=1 \
		--user-data-dir="$work/chromium" --window-size="$3" --screenshot="$root/docs/images/$1.png" "$address$2" 2>> "$work/log"
}

first() { curl --silent --fail "$address/api/evaluations" | sed -n 's/.*"evaluation": *"\(ev-[^"]*\)".*/\1/p' | head -n 1; }

serve "$root/bin/evalfleet" ui "$1"
take pairs "/evaluations/$(first)/pairs" 1000,700

serve "$root/bin/evalfleet" demo
until id=$(first) && [ -n "$id" ] && curl --silent "$address/api/evaluations/$id" | grep -q '"done": *[1-9][0-9]'; do sleep 1; done
take dashboard / 1000,420
take evaluation "/evaluations/$id" 1000,900
take workers /workers 1200,420
