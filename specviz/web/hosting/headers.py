"""Security headers of every answer (docs/reference/security.md). A proxy that ends TLS adds Strict-Transport-Security."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import Any

from specviz.figures.preview import FRONT
from specviz.web.classroom.room import student_page
from specviz.web.hosting.page_html import build_page_html
from specviz.web.hosting.server_options import ServerOptions

POLICY = {  # Content-Security-Policy: directive -> sources; frame-ancestors is the operator's
    "default-src": "'none'",
    "script-src": "'self' blob:",  # Streamlit starts a component's module from a blob that it makes of what this server sent
    "style-src": "'self' 'unsafe-inline'",  # Streamlit's and Plotly's styles are written by their scripts
    "img-src": "'self' data: blob:",  # the icon of the tab; a chart that is saved as a picture
    "font-src": "'self' data:",  # Streamlit's icons
    "connect-src": "'self'",
    "worker-src": "'self' blob:",
    "manifest-src": "'self'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "object-src": "'none'",
}


class SecurityHeadersMiddleware:
    """ASGI middleware that replaces an answer's own headers of these names."""

    def __init__(self, app: Any, options: ServerOptions):
        self.app = app
        policy = POLICY | {"frame-ancestors": options.frame_ancestors}
        policy["script-src"] = " ".join([policy["script-src"], *hash_inline_scripts(), student_page.hash_script()])
        self.headers = {
            b"content-security-policy": "; ".join(f"{name} {sources}" for name, sources in policy.items()).encode(),
            b"x-content-type-options": b"nosniff",
            b"referrer-policy": b"strict-origin-when-cross-origin",
            b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                others = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in self.headers]
                message = message | {"headers": [*others, *self.headers.items()]}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


@lru_cache(maxsize=1)
def hash_inline_scripts() -> tuple[str, ...]:
    """Hashes of the scripts in the pages' own HTML, the same in each; no other inline script runs."""
    scripts = re.findall(r"<script>(.*?)</script>", build_page_html(FRONT), re.DOTALL)
    return tuple(f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts)
