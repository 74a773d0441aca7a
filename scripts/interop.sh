#!/bin/sh
# interop.sh [flags of go run ./interop]: real clients and agents, straight and
# through the sidecar. interop.sh need COMMAND… installs node, npm or python3
# where that takes no password; the lab calls it for what it misses.
set -eu
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

need() {
	case $1 in
	node) packages="nodejs" ;;
	npm) packages="npm" ;;
	python3) packages="python3 python3-venv" ;;
	*) echo "interop.sh: no recipe for $1" >&2; exit 2 ;;
	esac
	! have "$1" || return 0
	if [ "$(id -u)" = 0 ]; then sudo=
	elif have sudo && sudo -n true 2>/dev/null; then sudo="sudo -n"
	else sudo=no
	fi
	echo "$1 is missing; trying to install it"
	if have apt-get && [ "$sudo" != no ]; then
		$sudo apt-get update -qq || true # lists may be absent or old
		# shellcheck disable=SC2086 # two words are two packages
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null || true
	elif have brew; then
		brew install "$1" || true
	fi
	have "$1" || { echo "$1 could not be installed; it comes in the package $packages (Debian, Ubuntu)" >&2; exit 1; }
}

if [ "${1:-}" = need ]; then
	shift
	for command in "$@"; do need "$command"; done
	exit 0
fi

for command in node npm python3; do need "$command"; done

# The lab's JavaScript needs Node 20, and Debian 12 has 18. npm has newer ones.
case $(node --version) in
v?.* | v1?.*)
	at=${XDG_CACHE_HOME:-$HOME/.cache}/a2a-sidecar-interop-node
	[ -x "$at/node_modules/.bin/node" ] || npm install --silent --no-audit --no-fund --prefix "$at" node@20.19.5
	PATH=$at/node_modules/.bin:$PATH
	export PATH
	node --version
	;;
esac
exec go run ./interop "$@"
