# The gateway: agentfw serve, in front of an OpenAI-compatible server, with the skill graph on PostgreSQL.
#
#   docker build -f deploy/gateway.Dockerfile -t agentfw-gateway .
FROM python:3.11-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir uv && python -m venv --without-pip /opt/agentfw
COPY deploy/requirements-gateway.lock deploy/
RUN uv pip install --python /opt/agentfw/bin/python --no-cache --require-hashes -r deploy/requirements-gateway.lock
COPY . .
# Nothing that runs needs the tests and sources of libraries, or hf_xet, with which huggingface_hub would download.
RUN uv pip install --python /opt/agentfw/bin/python --no-cache --no-deps . \
    && uv pip uninstall --python /opt/agentfw/bin/python hf-xet \
    && find /opt/agentfw -type d -name tests -prune -exec rm -rf {} + \
    && find /opt/agentfw \( -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.pyx' -o -name '*.pyi' -o -name '*.a' \) -delete

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home agentfw && install -d -m 700 -o agentfw -g agentfw /data
COPY --from=build /opt/agentfw /opt/agentfw
COPY deploy/gateway.toml /etc/agentfw/gateway.toml
ENV PATH=/opt/agentfw/bin:$PATH PYTHONUNBUFFERED=1 AGENTFW_TRUST=/etc/agentfw:/data
USER agentfw
WORKDIR /data
VOLUME /data
EXPOSE 8765
CMD ["agentfw", "serve", "--spec", "/etc/agentfw/gateway.toml", "--runs", "/data/runs", "--host", "0.0.0.0", "--log", "json"]
