#!/bin/sh
# need.sh COMMAND: makes sure that redis-server, valkey-server or gcc is there,
# installing it where that takes no password.
set -eu
command=$1

have() { command -v "$1" >/dev/null 2>&1; }

# A server that the user points at is as good as an installed one.
[ "$command" != redis-server ] || [ ! -x "${REDIS_SERVER:-}" ] || exit 0
[ "$command" != valkey-server ] || [ ! -x "${VALKEY_SERVER:-}" ] || exit 0
! have "$command" || exit 0

case $command in
redis-server) debian="redis-server" brew="redis" ;;
valkey-server) debian="valkey-server" brew="valkey" ;; # since Debian 13; 12 has it in its backports
gcc) debian="gcc libc6-dev" brew="gcc" ;;
*) echo "need.sh: no recipe for $command" >&2; exit 2 ;;
esac

if [ "$(id -u)" = 0 ]; then sudo=
elif have sudo && sudo -n true 2>/dev/null; then sudo="sudo -n"
else sudo=no
fi

echo "$command is missing; trying to install it"
if have apt-get && [ "$sudo" != no ]; then
	$sudo apt-get update -qq || true # lists may be absent or old
	# shellcheck disable=SC2086 # two words are two packages
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $debian >/dev/null || true
elif have brew; then
	brew install $brew || true
fi
if have "$command"; then
	# Debian's package also starts a server of its own where there is systemd.
	[ "$command" = gcc ] || [ ! -d /run/systemd/system ] ||
		echo "the tests start servers of their own; to stop the system's: systemctl disable --now $command"
	exit 0
fi

cat >&2 <<END

$command is not installed, and could not be installed without your password. Run one of
    sudo apt-get install $debian      (Debian, Ubuntu)
    brew install $brew                (macOS)
and then the same command again.
END
exit 1
