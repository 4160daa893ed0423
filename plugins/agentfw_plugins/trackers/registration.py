"""Registers the trackers."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    trackers=[
        Component(
            "tensorboard",
            "agentfw_plugins.trackers.tensorboard:TensorBoardTracker",
            "Writes event files for TensorBoard",
            settings="agentfw_plugins.trackers.tensorboard:TensorBoardSettings",
            extra="track",
            needs=("tensorboard",),
        ),
        Component(
            "mlflow",
            "agentfw_plugins.trackers.mlflow:MLflowTracker",
            "Logs settings and metrics to MLflow, in a local store or on a server",
            settings="agentfw_plugins.trackers.mlflow:MLflowSettings",
            extra="track",
            needs=("mlflow", "sqlalchemy", "alembic"),
        ),
        Component(
            "wandb",
            "agentfw_plugins.trackers.wandb:WandbTracker",
            "Logs settings and metrics to Weights & Biases, offline by default",
            settings="agentfw_plugins.trackers.wandb:WandbSettings",
            extra="track",
            needs=("wandb",),
        ),
        Component(
            "mirror",
            "agentfw_plugins.trackers.mirror:MirrorTracker",
            "Keeps a copy of the run's folder in object storage, to resume and view it on other machines",
            settings="agentfw_plugins.trackers.mirror:MirrorSettings",
            extra="cloud",
            needs=("fsspec",),
        ),
        Component(
            "otel",
            "agentfw_plugins.trackers.otel:OtelTracker",
            "Sends OpenTelemetry spans of turns, tool calls, recalls and scores",
            settings="agentfw_plugins.trackers.otel:OtelSettings",
            extra="otel",
            needs=("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        ),
    ],
)
