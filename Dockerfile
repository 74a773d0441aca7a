# Builds on the build machine's own platform and cross-compiles, so an image for
# another architecture needs no emulation:
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=… .
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ARG COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -o /out/sidecar \
      -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" ./cmd/sidecar \
 && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/sidecar /sidecar
# The only place that is written to, so the root may be read-only: the default
# store lies in the working directory, and temporary files beside it.
COPY --from=build --chown=65532:65532 /out/data /data
WORKDIR /data
ENV TMPDIR=/data
VOLUME /data
USER 65532:65532
EXPOSE 8400 8402
ENTRYPOINT ["/sidecar"]
CMD ["serve"]
