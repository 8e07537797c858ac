"""A deterministic model made of rules: in process, and as an HTTP server."""

from proctor.models.scripted.model import ScriptedModel

__all__ = ["ScriptedModel"]
