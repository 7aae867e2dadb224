# The programs of the service, built once, run without root. One image for api, worker and commands.
FROM rust:1.95.0-bookworm AS build
WORKDIR /longshore
# The image's own toolchain; what rust-toolchain.toml adds is for those who change the code.
ENV RUSTUP_TOOLCHAIN=1.95.0
# Queries were checked against .sqlx; no database is needed here.
ENV SQLX_OFFLINE=true
# No path of this image stands in the programs (see `./dev dist`).
ENV RUSTFLAGS="--remap-path-prefix=/longshore=. --remap-path-prefix=/usr/local/cargo=cargo"

# The dependencies, in a layer that stays until one of them changes: empty programs in place of ours.
COPY Cargo.toml Cargo.lock ./
COPY api/Cargo.toml api/
COPY api/http/Cargo.toml api/http/
COPY api/console/Cargo.toml api/console/
COPY worker/Cargo.toml worker/
COPY shared/Cargo.toml shared/
COPY bench/Cargo.toml bench/
COPY bench/stack/Cargo.toml bench/stack/
COPY xtask/Cargo.toml xtask/
RUN mkdir api/src api/http/src api/console/src worker/src shared/src bench/src bench/stack/src xtask/src \
    && touch api/src/lib.rs api/http/src/lib.rs api/console/src/lib.rs worker/src/lib.rs shared/src/lib.rs bench/src/lib.rs \
        bench/stack/src/lib.rs \
    && for crate in api worker bench xtask; do echo 'fn main() {}' > "$crate/src/main.rs"; done \
    && cargo build --locked --profile dist -p longshore-api -p longshore-worker

COPY . .
# Whatever time the files bear, they are newer than the empty ones that were built above.
RUN find api shared worker -name '*.rs' -exec touch {} + \
    && cargo build --locked --profile dist -p longshore-api -p longshore-worker \
    && install -D -t /out target/dist/longshore-api target/dist/longshore-worker

FROM debian:bookworm-slim
# Roots for TLS; the user exists before its folder, which new volumes take over with its owner.
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
# Of the api; a worker says `ready 8081`.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["ready", "8080"]
CMD ["longshore-api", "serve"]
