# The serving image: CPU only, no torch, no compiler, not root. Only building it needs a network; indexes and proxies
# come from build arguments (PIP_INDEX_URL and the like, HTTP_PROXY), never from this file.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS dependencies
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        print(*p['dependencies'], *p['optional-dependencies']['otel'], sep='\n')" > /requirements.txt \
    && python -m venv --without-pip /venv \
    && pip --python /venv/bin/python install -c constraints.txt -r /requirements.txt \
    && rm -rf /venv/lib/python3*/site-packages/pyarrow/include /venv/lib/python3*/site-packages/pyarrow/tests
ENV PATH=/venv/bin:$PATH

# Python's reference as HTML. Slim images drop documentation on installing, so the package is only unpacked.
FROM ${PYTHON_IMAGE} AS reference
WORKDIR /reference
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update \
    && apt-get download "$(apt-cache depends python3-doc | grep -oEm1 'python3\.[0-9]+-doc')" \
    && dpkg-deb --extract python3*.deb / \
    && rm -rf /reference/* /var/lib/apt/lists/*

FROM dependencies AS demo
COPY --from=reference /usr/share/doc /usr/share/doc
COPY models/santa-minilm-l6-int8 ./purlin/models/santa-minilm-l6-int8
COPY purlin ./purlin
COPY index ./purlin/index
RUN PURLIN_HOME=/data python -m purlin index demo

FROM dependencies AS installed
COPY . .
RUN pip --python /venv/bin/python install --no-deps . \
    && ln -s /models "$(python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/purlin/models"

FROM ${PYTHON_IMAGE}
COPY --from=installed /venv /venv
COPY models /models
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
