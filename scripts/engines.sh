#!/usr/bin/env bash
# Container engines for the tests, apart from any engine of the machine: own sockets, own storage,
# own bridges, no firewall rules.
#
#   engines.sh start FOLDER [OWNER]   start what is installed; prints lines NAME=ADDRESS to export
#   engines.sh stop FOLDER            stop what `start` started there, and remove every trace of it
#   engines.sh sweep                  stop what was left behind by owners that are dead; `start` does it too
#
# OWNER is the process whose engines they are: `sweep` takes its death for their end. Without one they
# stay until `stop`, or until none of them runs. Several may run at once: each takes a place of its own,
# whose bridge carries the folder and the owner as its alias.
#
# Needs root and the Debian packages docker.io, podman, runc, iproute2, and for podman 4.3
# containernetworking-plugins. An engine that does not start is named on standard error; its log
# stays in FOLDER until `stop`.
set -eu
PATH=$PATH:/usr/sbin:/sbin
action=${1:-} folder=${2:-} owner=${3:-}
wait_s=40
forwarding=/proc/sys/net/ipv4/ip_forward
places="0 1 2 3 4 5 6 7"

# at PLACE: the names there. Private networks: behind a block set apart for documents a machine may
# well reach its mirrors.
at() {
    group=prtest$1
    docker_bridge=prtest-d$1 docker_address=172.30.$((201 + 2 * $1)).1/24
    podman_bridge=prtest-p$1 podman_address=172.30.$((202 + 2 * $1)).1
    podman_subnet=172.30.$((202 + 2 * $1)).0/24
}

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

# up NAME VARIABLE: wait until the engine that was started answers
up() {
    local pid tries
    pid=$(cat "$folder/$1.pid")
    for tries in $(seq $((wait_s * 5))); do
        if answers "$folder/$1.sock"; then
            echo "$2=unix://$folder/$1.sock"
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    say "$1 did not start: $(tail -n 2 "$folder/$1.log" | tr '\n' ' ')"
}

start_docker() {
    echo '{}' >"$folder/daemon.json"
    dockerd --host "unix://$folder/docker.sock" --data-root "$folder/docker" \
        --exec-root "$folder/docker-run" --pidfile "$folder/dockerd.pid" \
        --config-file "$folder/daemon.json" --bridge "$docker_bridge" \
        --cgroup-parent "/$group" --iptables=false --ip-forward=false --ip-masq=false \
        >"$folder/docker.log" 2>&1 </dev/null &
    echo $! >"$folder/docker.pid"
}

# Debian's podman on small machines: no systemd, cgroups of any version, few descriptors allowed.
podman_settings() {
    mkdir -p "$folder/podman-networks"
    cat >"$folder/containers.conf" <<CONF
[containers]
default_ulimits=["nofile=20000:20000","nproc=4096:4096"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
exit_command_delay=10
runtime="runc"
[network]
network_config_dir="$folder/podman-networks"
CONF
    if [ -x /usr/lib/cni/bridge ]; then
        cat >"$folder/podman-networks/podman.conflist" <<CONF
{"cniVersion": "0.4.0", "name": "podman", "plugins": [
  {"type": "bridge", "bridge": "$podman_bridge", "isGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "$folder/podman-addresses",
            "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [[{"subnet": "$podman_subnet", "gateway": "$podman_address"}]]}}]}
CONF
    fi
}


start_podman() {
    podman_settings
    CONTAINERS_CONF=$folder/containers.conf podman --root "$folder/podman/storage" \
        --runroot "$folder/podman/run" --tmpdir "$folder/podman/tmp" \
        system service --time 0 "unix://$folder/podman.sock" \
        >"$folder/podman.log" 2>&1 </dev/null &
    echo $! >"$folder/podman.pid"
}

# started_at PID: when a process started, in ticks since the machine did; nothing when it has ended
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 !~ /[ZX]/ {print $20}'; }

# take_place: the first free one. Making its bridge is what takes it: only one can.
take_place() {
    local place
    for place in $places; do
        at "$place"
        ip link add name "$docker_bridge" type bridge 2>/dev/null || continue
        echo "$place" >"$folder/place"
        ip link set dev "$docker_bridge" alias \
            "$(readlink /proc/self/ns/pid) ${owner:-0} $(started_at "${owner:-0}") $folder"
        ip address add "$docker_address" dev "$docker_bridge"
        ip link set "$docker_bridge" up
        return
    done
    say "every place is taken (ip link show type bridge); stop other tests first"
    return 1
}

# leave_place: with its bridge a place is free, so this comes last
leave_place() {
    ip link delete "$podman_bridge" 2>/dev/null || true
    ip link delete "$docker_bridge" 2>/dev/null || true
}

start_engines() {
    [ "$(id -u)" = 0 ] || { say "engines are started by root only"; return; }
    # The longest name of a socket that an engine makes there must stay within the kernel's 107 bytes.
    [ "${#folder}" -le 60 ] || { say "$folder is too long a name: 60 characters at most"; return; }
    sweep
    if [ -e "$folder/place" ]; then say "$folder has engines already"; return; fi
    mkdir -p "$folder" && chmod 700 "$folder"
    cd "$folder"  # podman's watchers write into the folder that it was started in
    take_place || return 0
    cat "$forwarding" >"$folder/forwarding"
    if command -v dockerd >/dev/null; then start_docker; else say "dockerd is not installed"; fi
    if command -v podman >/dev/null && command -v runc >/dev/null; then start_podman
    else say "podman or runc is not installed"; fi
    if [ -e "$folder/docker.pid" ]; then up docker PROCTOR_TEST_DOCKER; fi
    if [ -e "$folder/podman.pid" ]; then up podman PROCTOR_TEST_PODMAN; fi
}

# left_behind PIDSPACE OWNER STARTED FOLDER: whether those engines are nobody's any more. Of processes
# in another namespace nothing is known here: they are left alone.
left_behind() {
    local engine pid
    [ "$1" = "$(readlink /proc/self/ns/pid)" ] || return 1
    if [ "$2" != 0 ]; then [ "$(started_at "$2")" != "$3" ]; return; fi
    for engine in docker podman; do
        pid=$(cat "$4/$engine.pid" 2>/dev/null) || continue
        if tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$4/"; then return 1; fi
    done
}

# sweep: what a killed run left would hold its place for ever
sweep() {
    local place alias space was started kept
    for place in $places; do
        alias=$(ip link show dev "prtest-d$place" 2>/dev/null | sed -n 's/^ *alias //p')
        read -r space was started kept <<<"$alias"
        # an owner of 0 has no start: the folder comes third
        [ "$was" != 0 ] || { kept="$started${kept:+ $kept}" started=; }
        [ -n "$kept" ] && left_behind "$space" "$was" "$started" "$kept" || continue
        say "removing what was left behind in $kept"
        if [ "$(cat "$kept/place" 2>/dev/null)" = "$place" ]; then (folder=$kept && stop_engines); fi
        at "$place" && leave_place
    done
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

# remove_containers SOCKET: those of an engine; they would go on without it
remove_containers() {
    python3 - "$1" <<'PYTHON'
import http.client, json, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(sys.argv[1])
engine = Local("engine")
engine.request("GET", "/v1.40/containers/json?all=1")
for row in json.loads(engine.getresponse().read()):
    engine.request("DELETE", f"/v1.40/containers/{row['Id']}?force=1&v=1")
    engine.getresponse().read()
PYTHON
}

# kin: the processes whose command line names something below the folder (engines, and the watcher
# that each container has), and the first process of each container: a child of its watcher
kin() {
    local process pid parent named=" "
    for process in /proc/[0-9]*; do
        if tr '\0' '\n' 2>/dev/null <"$process/cmdline" | grep -qF "$folder/"; then
            named="$named$(basename "$process") "
        fi
    done
    for process in /proc/[0-9]*; do
        pid=$(basename "$process")
        parent=$(sed 's/.*) //' "$process/stat" 2>/dev/null | cut -d ' ' -f 2)
        case $named in *" $parent "* | *" $pid "*) echo "$pid" ;; esac
    done
}

stop_engines() {
    local engine place process
    [ -e "$folder/place" ] || return 0
    at "$(cat "$folder/place")"
    cd /
    for engine in docker podman; do
        [ -e "$folder/$engine.pid" ] || continue
        if answers "$folder/$engine.sock"; then
            remove_containers "$folder/$engine.sock" 2>/dev/null || say "$engine kept containers"
            ended "$(cat "$folder/$engine.pid")"
        fi
    done
    # Every command of podman has a watcher that outlives it by exit_command_delay seconds.
    for process in $(kin); do kill -9 "$process" 2>/dev/null || true; done
    # What the engines mounted below the folder, innermost first.
    for place in $(awk -v at="$folder/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | sort -r); do
        umount "$place" 2>/dev/null || umount -l "$place" || true
    done
    # Empty control groups; those in use stay.
    find /sys/fs/cgroup -maxdepth 4 -depth -type d \
        \( -path "*/$group" -o -path "*/$group/*" -o -path '*/libpod_parent' -o -path '*/libpod_parent/*' \) \
        -exec rmdir {} + 2>/dev/null || true
    # podman's plug-in switches it on for the whole machine.
    [ "$(cat "$folder/forwarding" 2>/dev/null)" != 0 ] || echo 0 >"$forwarding"
    rm -rf "$folder"
    leave_place
}

case $action:$folder in
start:/*) start_engines ;;
stop:/*) stop_engines ;;
sweep:) sweep ;;
*) echo "usage: $0 start /ABSOLUTE/FOLDER [OWNER] | stop /ABSOLUTE/FOLDER | sweep" >&2; exit 2 ;;
esac
