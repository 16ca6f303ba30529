# The image of vedette: docs/docker.md says how to use it, .dockerignore what it is made of.
FROM python:3.12.13-slim-trixie AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /venv
WORKDIR /app
COPY requirements.lock requirements-otel.lock ./
RUN python -m pip --python /venv/bin/python install --require-hashes --only-binary :all: -r requirements.lock \
    -r requirements-otel.lock
# In place, so that the pages of documentation and the examples are where the code looks for them. A checkout made
# with a umask of 077 has files that only its owner reads; here they are root's.
COPY . .
RUN python -m pip --python /venv/bin/python install --no-deps --no-build-isolation --no-index -e . \
    && /venv/bin/python -m compileall -q /app \
    && chmod -R a+rX /app


# The site of the documentation, which the service shows at /docs: only its files get into the image.
FROM python:3.12.13-slim-trixie AS docs

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 NO_MKDOCS_2_WARNING=1
WORKDIR /app
COPY requirements-docs.lock ./
RUN python -m pip install --require-hashes --only-binary :all: -r requirements-docs.lock
COPY docs docs
COPY docsite docsite
COPY web/icon.svg web/icon.svg
RUN python -P -m mkdocs build --strict --quiet --config-file docsite/mkdocs.yml \
    && chmod -R a+rX dist


FROM python:3.12.13-slim-trixie

LABEL org.opencontainers.image.title="vedette" \
      org.opencontainers.image.description="Look up, watch and automate: a self-hosted enrichment and workflow service" \
      org.opencontainers.image.licenses="Apache-2.0"

# New volumes take over the owner of the folders that they are mounted at.
RUN groupadd --gid 10001 vedette \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin vedette \
    && install -d -o vedette -g vedette -m 0700 /data \
    && install -d -o vedette -g vedette -m 0755 /credentials/postgres /credentials/temporal /credentials/vedette

COPY --from=build /venv /venv
COPY --from=build /app /app
COPY --from=docs /app/dist/docs /app/dist/docs

ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    VEDETTE_DATA=/data VEDETTE_HOST=0.0.0.0
USER 10001:10001
WORKDIR /app
EXPOSE 8000
ENTRYPOINT ["vedette"]
CMD ["--help"]
