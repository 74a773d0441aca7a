#!/bin/sh
# test.sh [go test arguments]: the whole suite over a real Redis, race detector on.
set -eu
cd "$(dirname "$0")/.."

REQUIRE_REDIS=1
if ! scripts/need.sh redis-server; then
	if [ "${ALLOW_NO_REDIS:-}" != 1 ]; then
		echo "Or run \`ALLOW_NO_REDIS=1 make test\`, which skips what needs Redis." >&2
		exit 1
	fi
	echo "ALLOW_NO_REDIS=1: going on; tests that need Redis are skipped" >&2
	REQUIRE_REDIS=
fi
export REQUIRE_REDIS

# Valkey is tested beside Redis where there is a package of it; without one its
# tests are skipped.
if command -v apt-cache >/dev/null 2>&1 && apt-cache show valkey-server >/dev/null 2>&1; then
	scripts/need.sh valkey-server || echo "going on without valkey-server" >&2
fi

# The race detector is C code.
case $(go env CC) in
gcc) scripts/need.sh gcc ;;
esac
export CGO_ENABLED=1

exec go test -race -shuffle=on "$@"
