#!/usr/bin/env bash
# Container engines for the tests, apart from any engine of the machine: own sockets, own storage.
#
#   engines.sh start FOLDER   start what is installed; prints lines NAME=ADDRESS to export
#   engines.sh stop FOLDER    stop what `start` started there, and remove the folder
#
# Needs root, the Debian packages docker.io and iptables, podman, runc. An engine that does not
# start is named on standard error; its log stays in FOLDER until `stop`.
set -eu
case ${2:-} in /*) ;; *) echo "usage: $0 start|stop /ABSOLUTE/FOLDER" >&2; exit 2 ;; esac
action=$1 folder=$2
wait_s=40

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# answers SOCKET: whether an engine answers there now
answers() {
    python3 - "$1" 2>/dev/null <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as stream:
    stream.settimeout(5)
    stream.connect(sys.argv[1])
    stream.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
    sys.exit(b" 200 " not in stream.recv(100))
PYTHON
}

# up NAME SOCKET VARIABLE: wait until the engine that was started answers
up() {
    local pid tries
    pid=$(cat "$folder/$1.pid")
    for tries in $(seq $((wait_s * 5))); do
        if answers "$2"; then
            echo "$3=unix://$2"
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    say "$1 did not start: $(tail -n 2 "$folder/$1.log" | tr '\n' ' ')"
}

# Debian's podman on small machines: no systemd, cgroups of any version, few descriptors allowed.
podman_settings() {
    cat >"$folder/containers.conf" <<'CONF'
[containers]
default_ulimits=["nofile=20000:20000","nproc=4096:4096"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime="runc"
CONF
}

podman_here() {
    CONTAINERS_CONF=$folder/containers.conf exec podman --root "$folder/podman/storage" \
        --runroot "$folder/podman/run" --tmpdir "$folder/podman/tmp" "$@"
}

start_engines() {
    [ "$(id -u)" = 0 ] || { say "engines are started by root only"; return; }
    mkdir -p "$folder" && chmod 700 "$folder"
    PATH=$PATH:/usr/sbin:/sbin
    echo '{}' >"$folder/daemon.json"
    if command -v dockerd >/dev/null && command -v containerd >/dev/null; then
        dockerd --host "unix://$folder/docker.sock" --data-root "$folder/docker" \
            --exec-root "$folder/docker-run" --pidfile "$folder/dockerd.pid" \
            --config-file "$folder/daemon.json" >"$folder/docker.log" 2>&1 </dev/null &
        echo $! >"$folder/docker.pid"
    else say "dockerd is not installed"; fi
    if command -v podman >/dev/null && command -v runc >/dev/null; then
        podman_settings
        podman_here system service --time 0 "unix://$folder/podman.sock" \
            >"$folder/podman.log" 2>&1 </dev/null &
        echo $! >"$folder/podman.pid"
    else say "podman or runc is not installed"; fi
    if [ -e "$folder/docker.pid" ]; then up docker "$folder/docker.sock" PROCTOR_TEST_DOCKER; fi
    if [ -e "$folder/podman.pid" ]; then up podman "$folder/podman.sock" PROCTOR_TEST_PODMAN; fi
}

# ended PID: ask a process to end, wait, insist
ended() {
    local tries
    kill "$1" 2>/dev/null || return 0
    for tries in $(seq 100); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$1" 2>/dev/null || true
}

stop_engines() {
    local place
    [ -d "$folder" ] || return 0
    PATH=$PATH:/usr/sbin:/sbin
    if [ -e "$folder/podman.pid" ]; then
        (podman_here rm --all --force --time 0) >/dev/null 2>&1 || say "podman kept containers"
        ended "$(cat "$folder/podman.pid")"
    fi
    # dockerd ends its containerd with itself; containers would go on without it.
    if [ -e "$folder/docker.pid" ]; then
        python3 - "$folder/docker.sock" 2>/dev/null <<'PYTHON' || say "docker kept containers"
import http.client, json, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(sys.argv[1])
engine = Local("engine")
engine.request("GET", "/containers/json?all=1")
for row in json.loads(engine.getresponse().read()):
    engine.request("DELETE", f"/containers/{row['Id']}?force=1&v=1")
    engine.getresponse().read()
PYTHON
        ended "$(cat "$folder/docker.pid")"
    fi
    # What the engines mounted below the folder, innermost first.
    for place in $(awk -v at="$folder/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | sort -r); do
        umount "$place" 2>/dev/null || umount -l "$place" || true
    done
    rm -rf "$folder"
}

case $action in
start) start_engines ;;
stop) stop_engines ;;
*) say "unknown action $action"; exit 2 ;;
esac
