# redisbeater with an application in /app: its beat, its workers and the web page. docs/kubernetes.rst explains it.
#
#     docker build --tag redisbeater .
#     docker run --env REDIS_URL=redis://the-host:6379 redisbeater

FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.rst LICENSE ./
COPY src src
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check ".[dashboard,metrics]" "celery[redis]>=5.5,<6" \
    && /venv/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm
# No name: Kubernetes compares numbers (runAsNonRoot).
USER 10001:10001
COPY --from=build /venv /venv
WORKDIR /app
# Yours instead: --volume or a COPY of it in an image FROM this one.
COPY examples/several_beats/proj.py ./
# APP is Celery's own: what -A says on its command line.
ENV PATH="/venv/bin:$PATH" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 APP=proj
# Of the beat in this container alone, whose process has the number 1. Containers that run something else switch it off.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["sh", "-c", "exec celery --quiet redisbeater health --require any --self \"$(hostname):1\""]
CMD ["celery", "beat", "--scheduler", "redisbeater", "--loglevel", "INFO", "--pidfile="]
