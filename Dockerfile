# The programs of the service, which run without root. One image for api, worker and commands.
FROM rust:1.95.0-bookworm AS build
# `./dev test` builds this file with one that is quick to build.
ARG PROFILE=dist
WORKDIR /longshore
# The toolchain of the image; the additions of rust-toolchain.toml are for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
# Queries were checked against .sqlx; no database is needed here.
ENV SQLX_OFFLINE=true
# The programs contain no path of this image (see `./dev dist`).
ENV RUSTFLAGS="--remap-path-prefix=/longshore=. --remap-path-prefix=/usr/local/cargo=cargo"
ENV CFLAGS="-ffile-prefix-map=/longshore=. -ffile-prefix-map=/usr/local/cargo=cargo"

# The dependencies, in a layer that is reused until one of them changes: built with empty programs.
COPY Cargo.toml Cargo.lock ./
COPY api/Cargo.toml api/
COPY api/cli/Cargo.toml api/cli/
COPY api/client/Cargo.toml api/client/
COPY api/http/Cargo.toml api/http/
COPY api/console/Cargo.toml api/console/
COPY worker/Cargo.toml worker/
COPY shared/kernel/Cargo.toml shared/kernel/
COPY shared/domain/Cargo.toml shared/domain/
COPY shared/operate/Cargo.toml shared/operate/
COPY shared/http-time/Cargo.toml shared/http-time/
COPY shared/serve/Cargo.toml shared/serve/
COPY bench/Cargo.toml bench/
COPY bench/demo/Cargo.toml bench/demo/
COPY bench/stack/Cargo.toml bench/stack/
COPY bench/testkit/Cargo.toml bench/testkit/
COPY xtask/Cargo.toml xtask/
RUN for crate in api api/cli api/client api/http api/console worker shared/kernel shared/domain shared/operate shared/http-time shared/serve \
        bench bench/demo bench/stack bench/testkit xtask; do mkdir "$crate/src" && touch "$crate/src/lib.rs"; done \
    && for crate in api api/cli worker bench bench/demo xtask; do echo 'fn main() {}' > "$crate/src/main.rs"; done \
    && cargo build --locked --profile "$PROFILE" -p longshore-api -p longshore-cli -p longshore-worker

COPY . .
# Makes the files newer than the empty ones that were built above.
RUN find api shared worker -name '*.rs' -exec touch {} + \
    && cargo build --locked --profile "$PROFILE" -p longshore-api -p longshore-cli -p longshore-worker \
    && install -D -t /out target/*/longshore target/*/longshore-api target/*/longshore-worker

FROM debian:bookworm-slim
# Root certificates for TLS. The user is created before its folder, because new volumes copy the owner of the folder.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --home-dir /var/lib/longshore --shell /usr/sbin/nologin longshore \
    && install -d -o longshore -g longshore -m 700 /var/lib/longshore
COPY --from=build /out/ /usr/local/bin/
COPY deploy/docker/ready /usr/local/bin/ready
USER 10001
WORKDIR /var/lib/longshore
ENV LONGSHORE_BIND=0.0.0.0:8080 LONGSHORE_WORKER_BIND=0.0.0.0:8081 LONGSHORE_OBJECT_STORE=/var/lib/longshore/objects
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# For the api; a worker uses `ready 8081`.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["ready", "8080"]
CMD ["longshore-api", "serve"]
