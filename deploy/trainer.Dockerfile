# Trains on what a gateway recorded: agentfw train --from RUN. On a GPU, run it with the NVIDIA container runtime.
#
#   docker build -f deploy/trainer.Dockerfile -t agentfw-trainer .
FROM python:3.11-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir uv && python -m venv --without-pip /opt/agentfw
COPY deploy/requirements-trainer.lock deploy/
RUN uv pip install --python /opt/agentfw/bin/python --no-cache --require-hashes -r deploy/requirements-trainer.lock
COPY . .
RUN uv pip install --python /opt/agentfw/bin/python --no-cache --no-deps .

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home agentfw && install -d -m 700 -o agentfw -g agentfw /data
COPY --from=build /opt/agentfw /opt/agentfw
ENV PATH=/opt/agentfw/bin:$PATH PYTHONUNBUFFERED=1 AGENTFW_TRUST=/etc/agentfw:/data
USER agentfw
WORKDIR /data
VOLUME /data
ENTRYPOINT ["agentfw"]
CMD ["train", "--help"]
