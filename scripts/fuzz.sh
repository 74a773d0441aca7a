#!/bin/sh
# fuzz.sh TIME [PACKAGES]: finds every fuzz target and runs each for TIME.
set -eu
cd "$(dirname "$0")/.."
fuzztime=$1
shift

log=$(mktemp)
trap 'rm -f "$log"' EXIT
ran=0

# Go 1.26 at times reports its own deadline as a failure when the time is up
# (go.dev/issue/75804, mended in 1.27). A finding always writes its input.
only_deadline() {
	grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'Failing input written|^panic:|--- FAIL: .*/' "$log"
}

for dir in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "${@:-./...}"); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+\(' "$dir"/*_test.go | sed 's/^func //; s/($//' | sort -u); do
		echo "fuzz $target ${dir#"$PWD"/} $fuzztime"
		if ! go test -run='^$' -fuzz="^$target\$" -fuzztime="$fuzztime" "$dir" >"$log" 2>&1; then
			if only_deadline; then
				echo "  (the fuzzer's own deadline: no finding)"
			else
				cat "$log"
				exit 1
			fi
		fi
		grep '^fuzz: elapsed' "$log" | tail -n 1 | sed 's/^/  /'
		ran=$((ran + 1))
	done
done
echo "$ran fuzz targets ran"
[ $ran -gt 0 ] # finding none is a fault of this script or of the tree
