# The programs of the service, built once, run without root.
FROM rust:1.95.0-bookworm AS build
WORKDIR /longshore
COPY . .
# Queries were checked against .sqlx; no database is needed here.
ENV SQLX_OFFLINE=true
# The image's own toolchain; what rust-toolchain.toml adds is for those who change the code.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/longshore/target \
    cargo build --locked --profile dist -p longshore-api -p longshore-worker \
    && install -D -t /out target/dist/longshore-api target/dist/longshore-worker

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home longshore \
    && install -d -o longshore /var/lib/longshore
COPY --from=build /out/ /usr/local/bin/
USER 10001
EXPOSE 8080 8081
CMD ["longshore-api", "serve"]
