"""A log of requests as JSON, one line each on stderr. It never has what was said, an address's query or a header.

{"time": "2026-11-21T10:00:00.123+00:00", "level": "INFO", "message": "request", "what": "chat/completions", ...}
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

__all__ = ["log_as_json", "logger"]

logger = logging.getLogger("agentfw.gateway.requests")
logger.propagate = False


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "figures", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json() -> None:
    """Log requests, and whatever else is logged, as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    logging.getLogger().handlers = [handler]
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
