#!/bin/bash
# image.sh: builds the Dockerfile and runs what it makes, as root, with buildah:
# no daemon, no registry, no network. The golang base image is stood in for by
# this machine's own Go and busybox, so the true base is all it cannot prove.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in buildah busybox; do
	command -v $tool >/dev/null || { echo "$tool is missing: apt-get install buildah busybox-static" >&2; exit 1; }
done
go mod download # the build gets its modules, and what is compiled already, from here
mkdir -p "$(go env GOCACHE)"

storage=$(mktemp -d)
buildah=(buildah --root "$storage/graph" --runroot "$storage/run" --storage-driver vfs)
export BUILDAH_ISOLATION=chroot TMPDIR=$storage
trap '"${buildah[@]}" rm --all >/dev/null 2>&1 || true; rm -rf "$storage"' EXIT

base=$("${buildah[@]}" from scratch)
root=$("${buildah[@]}" mount "$base")
mkdir -p "$root"/{bin,tmp,root,proxy,gocache,usr/local/go,etc/ssl/certs}
cp -L "$(command -v busybox)" "$root/bin/busybox"
for applet in sh mkdir; do ln -s busybox "$root/bin/$applet"; done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
"${buildah[@]}" config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOPROXY=file:///proxy --env GOCACHE=/gocache "$base"
"${buildah[@]}" commit -q --rm "$base" "golang:$(sed -n 's/^ARG GO_VERSION=//p' Dockerfile)-alpine" >/dev/null

# BuildKit sets these by itself.
platform=(--build-arg BUILDPLATFORM="linux/$(go env GOARCH)" --build-arg TARGETOS=linux --build-arg TARGETARCH="$(go env GOARCH)")
unshare -n "${buildah[@]}" build -q --pull-never \
	-v "$(go env GOROOT):/usr/local/go:ro" -v "$(go env GOMODCACHE)/cache/download:/proxy:ro" -v "$(go env GOCACHE):/gocache" \
	"${platform[@]}" --build-arg VERSION=v0.0.0-image -t sidecar . >/dev/null

built=$("${buildah[@]}" from --pull-never sidecar)
config=$("${buildah[@]}" inspect --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' "$built")
[ "$config" = "65532:65532 [/sidecar] [serve]" ] || { echo "the image's configuration is $config" >&2; exit 1; }
files=$(cd "$("${buildah[@]}" mount "$built")" && find . -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')
echo "image: $config; holds $files"
version=$(unshare -n "${buildah[@]}" run "$built" /sidecar version)
echo "$version"
case $version in *v0.0.0-image*) ;; *) echo "the build argument VERSION did not reach the program" >&2; exit 1 ;; esac
