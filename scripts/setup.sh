# Sourced by the scripts beside it: makes the virtual environment and keeps it up to date.
#
#   ensure_installed [EXTRA]   afterwards $bin holds python and proctor
#   ensure_command COMMAND PACKAGE   a program of the system that tests need
#
# PYTHON       the interpreter to build the environment with (default: the first >= 3.11 found)
# PROCTOR_VENV where the environment is (default: .venv in the checkout)

set -eu
unset PYTHONDONTWRITEBYTECODE  # the tests start proctor very often: compile it once
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=${PROCTOR_VENV:-$root/.venv}
bin=$venv/bin

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() {
    say "$@"
    exit 1
}

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_lists_updated=no
apt_install() {
    say "installing the system package $1"
    if [ "$apt_lists_updated" = no ]; then
        apt-get update -qq >/dev/null 2>&1 || say "apt-get update failed; trying with what is known"
        apt_lists_updated=yes
    fi
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null
}

# A version manager's shim exists for versions that are not there, so a candidate has to run.
is_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1; }

can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Every interpreter on the PATH, not only the first of its name: a shim may hide a good one.
candidates() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do type -aP "$name" || true; done
}

find_python() {
    local candidate without_venv=
    if [ -n "${PYTHON:-}" ]; then
        is_python "$PYTHON" || die "PYTHON=$PYTHON is not a Python >= 3.11"
        python=$PYTHON
        can_make_venv "$python" || add_venv_module
        return
    fi
    while read -r candidate; do
        is_python "$candidate" || continue
        if can_make_venv "$candidate"; then
            python=$candidate
            return
        fi
        : "${without_venv:=$candidate}"
    done <<<"$(candidates)"
    [ -n "$without_venv" ] || die "no Python >= 3.11 found; install one, or name it: PYTHON=/path/to/python3 $0"
    python=$without_venv
    add_venv_module
}

# Debian ships Python without the modules that make virtual environments.
add_venv_module() {
    local package
    package=$("$python" -c 'import sys; print("python{}.{}-venv".format(*sys.version_info))')
    if may_install && apt_install "$package" && can_make_venv "$python"; then
        return
    fi
    die "$python cannot make virtual environments. On Debian or Ubuntu run: sudo apt-get install $package"
}

make_venv() {
    find_python
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        die "$venv exists and is not a virtual environment; move it away or set PROCTOR_VENV"
    fi
    say "making the virtual environment $venv with $("$python" -V)"
    "$python" -m venv --clear "$venv"
}

# What the installation depends on: the declared and pinned packages, the interpreter, the place.
fingerprint() {
    "$bin/python" - "$root" "$1" <<'PYTHON'
import hashlib, pathlib, sys
root, extra = sys.argv[1:]
digest = hashlib.sha256("\0".join([root, extra, sys.version, sys.prefix]).encode())
for name in ("pyproject.toml", "constraints.txt"):
    digest.update(pathlib.Path(root, name).read_bytes())
print(digest.hexdigest())
PYTHON
}

install() {
    say "installing proctor${1:+ with the extra $1}"
    # Through the environment the constraints reach the build back end too (relative paths: the
    # variables are split at blanks). Compiling happens on first use, only for what is used.
    (
        cd "$root"
        export PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
        "$bin/python" -m pip install --quiet --quiet --no-input --no-compile \
            --disable-pip-version-check --no-warn-script-location -e ".${1:+[$1]}"
    ) || die "the installation failed; see above. Is a Python package index reachable?"
}

ensure_installed() {
    local extra=${1:-} stamp wanted
    # Two scripts started together must not install into one environment at once.
    exec 9<"${BASH_SOURCE[0]}"
    if command -v flock >/dev/null 2>&1; then flock 9; fi
    is_python "$bin/python" && "$bin/python" -m pip --version >/dev/null 2>&1 || make_venv
    stamp=$venv/.installed${extra:+-$extra}
    wanted=$(fingerprint "$extra")
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        install "$extra"
        printf '%s\n' "$wanted" >"$stamp"
        # The extras include the core, so that `demo` after `test` has nothing to do.
        if [ -n "$extra" ]; then fingerprint "" >"$venv/.installed"; fi
    fi
    exec 9<&-
}

ensure_command() {
    if command -v "$1" >/dev/null 2>&1; then return; fi
    if may_install && apt_install "$2" && command -v "$1" >/dev/null 2>&1; then return; fi
    [ "${CI:-}" != true ] || die "$1 is missing and could not be installed; in CI nothing is skipped. Install the Debian package $2"
    say "$1 is missing: the tests that need it are skipped. On Debian or Ubuntu: sudo apt-get install $2"
}
