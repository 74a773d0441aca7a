#!/bin/sh
# tool.sh bin/NAME-VERSION PACKAGE: builds a Go tool, outside this module's go.mod.
set -eu
out=$1 package=$2
version=${out##*-}

echo "building $package@$version (once)"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
GOBIN=$dir go install -trimpath "$package@$version"
mkdir -p "$(dirname "$out")"
mv "$dir/${package##*/}" "$out"
