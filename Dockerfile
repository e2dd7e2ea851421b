# The serving image: CPU only, no torch, no compiler, not root. Only building it needs a network; indexes and proxies
# come from build arguments (PIP_INDEX_URL and the like, HTTP_PROXY), never from this file.
# What does not depend on the processor (wheel and demo corpora) is made on the building machine's own, so that an
# image for another one only installs packages under emulation.
ARG PYTHON_IMAGE=python:3.11-slim

FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS wheel
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS requirements
# Further extras, separated by commas; docker-compose.milvus.yml adds milvus.
ARG EXTRAS=
WORKDIR /source
COPY pyproject.toml ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        names = filter(None, 'languages,otel,parquet,transformer,${EXTRAS}'.split(',')); \
        extras = [p['optional-dependencies'][name] for name in names]; \
        print(*sum(extras, p['dependencies']), sep='\n')" > /requirements.txt

# The next two stages are the same where the image is for the building machine's processor, and then run once.
FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS building
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST
COPY --from=requirements /requirements.txt /
COPY constraints.txt /
RUN python -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-cache-dir -c /constraints.txt -r /requirements.txt \
    && rm -rf /venv/lib/python3*/site-packages/pyarrow/include /venv/lib/python3*/site-packages/pyarrow/tests

FROM ${PYTHON_IMAGE} AS dependencies
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST
COPY --from=requirements /requirements.txt /
COPY constraints.txt /
RUN python -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-cache-dir -c /constraints.txt -r /requirements.txt \
    && rm -rf /venv/lib/python3*/site-packages/pyarrow/include /venv/lib/python3*/site-packages/pyarrow/tests

# Python's reference as HTML. Slim images drop documentation on installing, so the package is only unpacked.
FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS reference
WORKDIR /reference
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update \
    && apt-get download "$(apt-cache depends python3-doc | grep -oEm1 'python3\.[0-9]+-doc')" \
    && dpkg-deb --extract python3*.deb / \
    && rm -rf /reference/* /var/lib/apt/lists/*

# Only what indexing needs, so that a change of the server does not make the demo corpora again. Static vectors take a
# minute; with better ones, `docker compose up` would first encode for half an hour on two slow cores.
FROM building AS demo
WORKDIR /source
COPY --from=reference /usr/share/doc /usr/share/doc
COPY models ./purlin/models
COPY purlin ./purlin
COPY index ./purlin/index
RUN PURLIN_HOME=/data /venv/bin/python -m purlin index demo --encoder static

FROM dependencies
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    pip --python /venv/bin/python install --no-cache-dir --no-index --no-deps /dist/*.whl
# Read again when a server makes better vectors.
COPY --from=reference /usr/share/doc /usr/share/doc
COPY --from=demo --chown=10001:10001 /data /data
ENV PATH=/venv/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 \
    PURLIN_HOME=/data PURLIN_HOST=0.0.0.0 PURLIN_PORT=8000 PURLIN_LOG=json
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# Without `site` and an HTTP library, so that the check is quick where the processor is busy.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-ISc", "import os, socket; s = socket.create_connection(('127.0.0.1', int(os.environ['PURLIN_PORT'])), 8); s.sendall(b'GET /readyz HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(b' 200 ' not in s.recv(64))"]
CMD ["purlin", "serve"]
