"""Services answer over HTTP: their apps, and the server that runs them. Loading this takes half a second, so
what a service can begin before comes first."""

from millrace_service.web.app import needs, service_app
from millrace_service.web.serve import serve

__all__ = ["needs", "serve", "service_app"]
