"""Taking rights away from this process, for good, before it runs a candidate.

Best effort on Linux, in layers that do not depend on each other; `confine` returns which are in
force. Without any of them a candidate still cannot reach the verdict by ordinary means, but it
could attack processes of the same user.

- `limits`: memory, CPU seconds, no core files, nothing may be written to files.
- `capabilities`: none left, even for root, and none to be gained.
- `landlock`: of the file system only Python's own libraries can be read; nothing can be written;
  no TCP; no signals to and no tracing of processes outside (kernel 5.13 and newer; by version).
- `seccomp`: a short list of system calls: no new processes or programs, no sockets, no signals,
  no tracing, files only for reading (x86-64).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SIGKILL = 9

# System calls of x86-64 that a computation needs, by number (arch/x86/entry/syscalls).
ALLOWED = (
    # read write close stat fstat lstat poll lseek mmap mprotect munmap brk
    0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    # rt_sigaction rt_sigprocmask rt_sigreturn pread64 readv writev access pipe select
    13, 14, 15, 17, 19, 20, 21, 22, 23,
    # sched_yield mremap msync mincore madvise dup dup2 nanosleep getitimer alarm setitimer getpid
    24, 25, 26, 27, 28, 32, 33, 35, 36, 37, 38, 39,
    # exit uname getdents getcwd readlink umask gettimeofday getrlimit getrusage sysinfo times
    60, 63, 78, 79, 89, 95, 96, 97, 98, 99, 100,
    # getuid getgid geteuid getegid getppid getgroups getresuid getresgid rt_sigtimedwait
    102, 104, 107, 108, 110, 115, 118, 120, 128,
    # sigaltstack statfs fstatfs sched_getparam sched_getscheduler mlock arch_prctl gettid time
    131, 137, 138, 143, 145, 149, 158, 186, 201,
    # futex sched_getaffinity getdents64 set_tid_address restart_syscall fadvise64
    202, 204, 217, 218, 219, 221,
    # clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl newfstatat
    228, 229, 230, 231, 232, 233, 262,
    # readlinkat faccessat pselect6 ppoll set_robust_list get_robust_list epoll_pwait
    267, 269, 270, 271, 273, 274, 281,
    # timerfd_create eventfd2 epoll_create1 dup3 pipe2 getcpu getrandom membarrier statx rseq
    283, 290, 291, 292, 293, 309, 318, 324, 332, 334,
    # faccessat2 futex_waitv
    439, 449,
)  # fmt: skip
OPEN, IOCTL, CLONE, FCNTL, OPENAT, PRLIMIT64, CLONE3, OPENAT2 = 2, 16, 56, 72, 257, 302, 435, 437
CLONE_THREAD = 0x10000
WRITING = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000  # O_ACCMODE CREAT TRUNC APPEND TMPFILE
HARMLESS_FCNTL = (0, 1, 2, 3, 4, 1030)  # DUPFD GETFD SETFD GETFL SETFL DUPFD_CLOEXEC

AUDIT_ARCH_X86_64 = 0xC000003E
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


def confine(memory_bytes: int, cpu_s: int) -> list[str]:
    """Take the rights of this process away. Returns the layers in force."""
    layers = [_limits(memory_bytes, cpu_s)]
    if not sys.platform.startswith("linux"):
        return layers
    libc = ctypes.CDLL(None, use_errno=True)
    # The checker's end must end this process too, and nobody may read its memory or descriptors.
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return layers
    for name, apply in (
        ("capabilities", _drop_capabilities),
        ("landlock", _landlock),
        ("seccomp", _seccomp),
    ):
        if apply(libc):
            layers.append(name)
    return layers


def hide() -> None:
    """Keep other processes of this user out of this one's memory and descriptors."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _limits(memory_bytes: int, cpu_s: int) -> str:
    wanted = (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    )
    for kind, value in wanted:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    return "limits"


def _drop_capabilities(libc: ctypes.CDLL) -> bool:
    header = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    return bool(libc.capset(header, nothing) == 0)


def _landlock(libc: ctypes.CDLL) -> bool:
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return False
    files = (1 << 13) - 1 if version < 2 else (1 << 14) - 1
    files |= (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    fields = [files, 3, 3][: 1 if version < 4 else 2 if version < 6 else 3]
    rights = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = libc.syscall(create, rights, ctypes.c_size_t(len(rights)), ctypes.c_uint(0))
    if ruleset < 0:
        return False
    for path in _readable():
        _allow_reading(libc, add, ruleset, path)
    done = libc.syscall(restrict, ruleset, ctypes.c_uint(0)) == 0
    os.close(ruleset)
    return bool(done)


def _readable() -> list[str]:
    """Python's standard library and shared libraries; nothing of the user's."""
    own = [path for path in sys.path if path] + [os.path.join(sys.base_prefix, "lib")]
    return [*own, "/usr/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/dev/null", "/dev/urandom"]


def _allow_reading(libc: ctypes.CDLL, add: int, ruleset: int, path: str) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # this machine does not have it: nothing to allow
        return
    read_file, read_folder = 1 << 2, 1 << 3
    rights = read_file | (read_folder if os.path.isdir(path) else 0)
    rule = struct.pack("=Qi", rights, fd)
    libc.syscall(add, ruleset, ctypes.c_uint(1), rule, ctypes.c_uint(0))
    os.close(fd)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _seccomp(libc: ctypes.CDLL) -> bool:
    if os.uname().machine != "x86_64" or struct.calcsize("P") != 8:
        return False
    code = b"".join(_filter())
    program = _Program(len(code) // 8, code)
    return bool(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) == 0)


def _filter() -> list[bytes]:
    """A classic BPF program. A jump skips the given number of instructions when it fails."""
    allow, refuse = _op(RETURN, ALLOW), _op(RETURN, FAIL | errno.EPERM)
    code = [
        _op(LOAD, ARCHITECTURE),
        _op(EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        _op(RETURN, KILL),
        _op(LOAD, NUMBER),
        _op(AT_LEAST, 0x40000000, 0, 1),  # the x32 table has the same calls under other numbers
        refuse,
    ]
    for number in ALLOWED:
        code += [_op(EQUAL, number, 0, 1), allow]
    for number, argument in ((OPEN, 1), (OPENAT, 2)):
        code += _when(number, argument, WRITING, [_op(EQUAL, 0, 0, 1), allow])
    code += _when(CLONE, 0, CLONE_THREAD, [_op(EQUAL, 0, 1, 0), allow])
    code += _when(PRLIMIT64, 0, 0xFFFFFFFF, [_op(EQUAL, 0, 0, 1), allow])
    fine = [step for command in HARMLESS_FCNTL for step in (_op(EQUAL, command, 0, 1), allow)]
    code += _when(FCNTL, 1, 0xFFFFFFFF, fine)
    code += [_op(EQUAL, IOCTL, 0, 1), _op(RETURN, FAIL | errno.ENOTTY)]
    for number in (CLONE3, OPENAT2):  # the C library then uses the older call
        code += [_op(EQUAL, number, 0, 1), _op(RETURN, FAIL | errno.ENOSYS)]
    return [*code, refuse]


def _when(number: int, argument: int, mask: int, then: list[bytes]) -> list[bytes]:
    """For one system call: load an argument, mask it, go through `then`, else refuse."""
    body = [_op(LOAD, ARGUMENTS + 8 * argument), _op(AND, mask), *then]
    body.append(_op(RETURN, FAIL | errno.EPERM))
    return [_op(EQUAL, number, 0, len(body)), *body]


def _op(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, jump_true, jump_false, value)
