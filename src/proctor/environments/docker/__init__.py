"""Provider `docker`: containers of any engine that speaks the Docker API (docker, podman)."""

from proctor.environments.docker.owned import Containers
from proctor.environments.docker.provider import DockerEnvironment, DockerOptions

__all__ = ["Containers", "DockerEnvironment", "DockerOptions"]
