"""Provider `docker`: containers of any engine that speaks the Docker API (docker, podman)."""

from proctor.environments.docker.owned import Owned, list_owned, reap
from proctor.environments.docker.provider import DockerEnvironment, DockerOptions

__all__ = ["DockerEnvironment", "DockerOptions", "Owned", "list_owned", "reap"]
