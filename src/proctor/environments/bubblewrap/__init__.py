"""Provider `bubblewrap`: namespaces of its own for every session, without a daemon or an image."""

from proctor.environments.bubblewrap.provider import BubblewrapEnvironment, BubblewrapOptions

__all__ = ["BubblewrapEnvironment", "BubblewrapOptions"]
