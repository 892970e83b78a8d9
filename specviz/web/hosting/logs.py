"""Log lines as JSON, one object a line. Prompts and other texts of visitors are not logged."""

from __future__ import annotations

import json
import logging
import time

from streamlit import logger as streamlit_logger


class JsonFormatter(logging.Formatter):
    """Time (UTC), level, logger, message, and the traceback of an error."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as_json() -> None:
    """Make the root logger, Streamlit's and uvicorn's write JSON."""
    formatter = JsonFormatter()
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # a PDF's fonts: names the letters of a visitor's text, in 200 lines
    if not logging.root.handlers:
        logging.root.addHandler(logging.StreamHandler())
        logging.root.setLevel(logging.INFO)
    for logger in (logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))):
        for handler in logger.handlers:
            handler.setFormatter(formatter)
    # Streamlit gives each of its loggers a handler of its own, also those that it makes later. One without any passes
    # its lines to the root.
    streamlit_logger.setup_formatter = lambda logger: setattr(logger, "propagate", not logger.handlers)
