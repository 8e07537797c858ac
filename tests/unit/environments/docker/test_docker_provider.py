"""Addresses, refusals, notices, labels and registry words: what needs no engine."""

import base64
import json
import os
import socket
import threading

import pytest

from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.docker import DockerEnvironment, DockerOptions, owned
from proctor.environments.docker.endpoint import Endpoint, endpoint
from proctor.environments.docker.freezing import says_frozen
from proctor.environments.docker.images import _pull_fault, _registry_auth, _split
from proctor.environments.docker.probe import probed
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.owner import Owner
from proctor.environments.reaping.leftovers import State

LISTED = NetworkPolicy(NetworkMode.ALLOWLIST, ("example.org",))


def test_addresses(tmp_path):
    assert endpoint("unix:///run/x.sock", {}) == Endpoint("/run/x.sock")
    assert endpoint(None, {"DOCKER_HOST": "tcp://h:1"}) == Endpoint(None, "h", 1)
    assert endpoint(None, {"DOCKER_HOST": "tcp://h"}) == Endpoint(None, "h", 2375)
    assert endpoint("unix:///a", {"DOCKER_HOST": "unix:///b"}) == Endpoint("/a")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))
        found = endpoint(None, {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert found.path in (f"{tmp_path}/docker.sock", "/var/run/docker.sock")
    for wrong in ("ssh://h", "unix://", "/run/x.sock", "tcp://"):
        with pytest.raises(ValueError, match="neither"):
            endpoint(wrong, {})
    with pytest.raises(ValueError, match="TLS"):
        endpoint("tcp://h:2376", {"DOCKER_TLS_VERIFY": "1"})


def test_what_cannot_be_honoured_is_refused(tmp_path):
    environment = DockerEnvironment(DockerOptions(host=f"unix://{tmp_path}/none"))
    (problem,) = environment.problems(EnvironmentSpec())
    assert "environment.image" in problem
    named = EnvironmentSpec(image="x")
    assert environment.problems(named) == []
    assert environment.problems(EnvironmentSpec(context="/x", build=("RUN y",))) == []
    for wrong in (
        EnvironmentSpec(image="x", network=NetworkPhases(run=LISTED)),
        EnvironmentSpec(image="x", resources=Resources(gpus=1)),
        EnvironmentSpec(image="x", workdir="/sys"),
        EnvironmentSpec(image="x", copies=(("/a", "../proc/b"),)),
    ):
        assert len(environment.problems(wrong)) == 1, wrong
    (requirement,) = environment.requirements()
    assert "DOCKER_HOST" in requirement
    (requirement,) = DockerEnvironment(DockerOptions(host="nonsense")).requirements()
    assert "neither" in requirement
    assert DockerEnvironment(DockerOptions(host="nonsense")).owned() is None


def test_what_an_engine_says_of_frozen_containers():
    for refused in (
        "Container x is paused, unpause the container before exec",
        "cannot create exec session as container 1f is paused",
        "unable to restart a container in a paused or unknown state: container state improper",
    ):
        assert says_frozen(refused)
    for other in ("Container 1f is not paused", '"1f" is not paused, can\'t unpause', "no space"):
        assert not says_frozen(other)


def test_options_stand_in_for_the_task(tmp_path):
    environment = DockerEnvironment(DockerOptions(image="mine", network="no-network"))
    spec = EnvironmentSpec(image="its", build=("RUN x",), context="/c", copies=(("/a", "b"),))
    adapted = environment.adapt(spec)
    assert (adapted.image, adapted.context, adapted.copies) == ("mine", None, spec.copies)
    assert adapted.network == NetworkPhases(run=NetworkPolicy(NetworkMode.NO_NETWORK))
    assert environment.adapt(adapted) == adapted
    options = DockerOptions(network={"run": "allowlist"}, allowed_hosts=("x.org",))
    assert DockerEnvironment(options).adapt(spec).network == NetworkPhases(
        run=NetworkPolicy(NetworkMode.ALLOWLIST, ("x.org",))
    )


def test_wishes_that_nobody_enforces_are_told(tmp_path):
    environment = DockerEnvironment(DockerOptions(host=f"unix://{tmp_path}/none"))
    wishes = Resources(cpus=1, memory_mb=10, storage_mb=5, pids=9)
    ((code, message),) = environment.notices(EnvironmentSpec(image="x", resources=wishes))
    assert code == "resource_not_enforced"
    assert "storage_mb=5" in message


def answering(path, body, status="200 OK"):
    """An engine that answers one call."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def serve():
        with server:
            stream, _ = server.accept()
            with stream:
                stream.recv(10_000)
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
                stream.sendall(head.encode() + body)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_an_engine_says_what_it_enforces(tmp_path):
    told = {"MemoryLimit": True, "PidsLimit": False, "ServerVersion": "9", "CpuCfsQuota": True}
    thread = answering(f"{tmp_path}/a.sock", json.dumps(told).encode())
    found = probed(Endpoint(f"{tmp_path}/a.sock"))
    thread.join()
    assert not isinstance(found, str), found
    assert found.enforced == ("memory_mb", "cpus")
    assert found.facts["engine_version"] == "9"
    assert not found.here


@pytest.mark.parametrize(
    ("body", "status"), [(b"{}", "500 Broken"), (b"not json", "200 OK")]
)  # fmt: skip
def test_an_engine_that_answers_nonsense_cannot_be_used(body, status, tmp_path):
    thread = answering(f"{tmp_path}/b.sock", body, status)
    found = probed(Endpoint(f"{tmp_path}/b.sock"))
    thread.join()
    assert isinstance(found, str)
    assert "no engine answers" in found


def row(labels):
    return {"Id": "abc", "Names": ["/name"], "Labels": labels}


def test_labels_tell_the_owner():
    labels = owned.labels_for({"run": "r", "kept": "1"})
    found = owned._leftover(row(labels))
    assert (found.owner, found.state) == (Owner.this_process(), State.ALIVE)
    assert (found.name, found.where, found.provider) == ("name", "abc", "docker")
    assert dict(found.labels) == {"run": "r", "kept": "1"}
    assert found.spared


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"pid": "1"}', '{"pid": 1, "started_ticks": true}']
)
def test_labels_that_name_nobody(text):
    labels = {**owned.labels_for({}), owned.OWNER: text}
    assert owned._leftover(row(labels)).state is State.UNKNOWN


def test_a_dead_owner_is_dead_only_on_its_own_machine():
    record = {"pid": os.getpid(), "started_ticks": 1, "boot_id": "earlier"}
    labels = {**owned.labels_for({}), owned.OWNER: json.dumps(record)}
    assert owned._leftover(row(labels)).state is State.DEAD
    assert owned._leftover(row({**labels, owned.MACHINE: "other"})).state is State.UNKNOWN


def test_names_of_images():
    assert _split("python") == ("python", "latest")
    assert _split("python:3.12") == ("python", "3.12")
    assert _split("host:5000/a/b") == ("host:5000/a/b", "latest")
    assert _split("host:5000/a/b:c") == ("host:5000/a/b", "c")
    assert _split("a@sha256:00") == ("a", "sha256:00")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("unauthorized: authentication required", "image_auth"),
        ("pull access denied for x", "image_auth"),
        ("manifest unknown", "image_missing"),
        ("dial tcp: connection refused", "image_pull"),
    ],
)
def test_what_a_registry_says(words, code):
    fault = _pull_fault("x", words)
    assert (fault.fault_code, fault.permanent) == (code, code != "image_pull")


def test_a_stored_login_is_sent_to_its_own_registry_only(tmp_path, monkeypatch):
    pair = base64.b64encode(b"user:pass:word").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"r.example": {"auth": pair}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    def sent(name):
        return json.loads(base64.urlsafe_b64decode(_registry_auth(name)))

    assert sent("r.example/x:1")["password"] == "pass:word"
    assert sent("other.example/x:1") == {}
    assert sent("python:3") == {}
