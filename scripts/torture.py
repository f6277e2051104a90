"""The sweep of scripts/torture, which describes it."""
import collections
import ctypes
import errno
import fcntl
import hashlib
import multiprocessing
import os
import random
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import time

# The calls about files, by their numbers on x86-64, and what they are about: "f"
# is an argument that is a descriptor, "p" a path, "@" a directory and a path.
CALLS = {
    "read": (0, "f"), "write": (1, "f"), "close": (3, "f"), "stat": (4, "p"), "fstat": (5, "f"), "lstat": (6, "p"),
    "lseek": (8, "f"), "ioctl": (16, "f"), "pread64": (17, "f"), "pwrite64": (18, "f"), "readv": (19, "f"),
    "writev": (20, "f"), "access": (21, "p"), "fcntl": (72, "f"), "flock": (73, "f"), "fsync": (74, "f"),
    "fdatasync": (75, "f"), "truncate": (76, "p"), "ftruncate": (77, "f"), "rename": (82, "pp"), "mkdir": (83, "p"),
    "link": (86, "pp"), "unlink": (87, "p"), "readlink": (89, "p"), "chmod": (90, "p"), "fchmod": (91, "f"),
    "chown": (92, "p"), "fchown": (93, "f"), "lchown": (94, "p"), "statfs": (137, "p"), "fstatfs": (138, "f"),
    "setxattr": (188, "p"), "lsetxattr": (189, "p"), "fsetxattr": (190, "f"), "getxattr": (191, "p"),
    "lgetxattr": (192, "p"), "fgetxattr": (193, "f"), "listxattr": (194, "p"), "llistxattr": (195, "p"),
    "flistxattr": (196, "f"), "removexattr": (197, "p"), "lremovexattr": (198, "p"), "fremovexattr": (199, "f"),
    "getdents64": (217, "f"), "fadvise64": (221, "f"), "openat": (257, "@"), "mkdirat": (258, "@"),
    "mknodat": (259, "@"), "fchownat": (260, "@"), "newfstatat": (262, "@"), "unlinkat": (263, "@"),
    "renameat": (264, "@@"), "linkat": (265, "@@"), "symlinkat": (266, ".@"), "readlinkat": (267, "@"),
    "fchmodat": (268, "@"), "faccessat": (269, "@"), "splice": (275, "f.f"), "sync_file_range": (277, "f"),
    "utimensat": (280, "@"), "fallocate": (285, "f"), "preadv": (295, "f"), "pwritev": (296, "f"),
    "syncfs": (306, "f"), "renameat2": (316, "@@"), "copy_file_range": (326, "f.f"), "preadv2": (327, "f"),
    "pwritev2": (328, "f"), "statx": (332, "@"), "openat2": (437, "@"), "cachestat": (451, "f"),
    "fchmodat2": (452, "@"),
}
NAMES = {number: name for name, (number, _) in CALLS.items()}

# What each kind of call can fail with. EINTR and SHORT, a part of what was asked
# for, are no failures: nothing may come of them.
SHORT = "short"
ERRORS = {
    "EIO ENOMEM EACCES EMFILE ESTALE EINTR": "openat openat2",
    "EIO ESTALE EINTR short": "read pread64 readv preadv preadv2",
    "EIO ENOSPC EDQUOT EINTR short": "write pwrite64 writev pwritev pwritev2",
    "EIO ENOSPC EINVAL EXDEV EINTR short": "copy_file_range",
    "EIO ENOSPC EOPNOTSUPP EINVAL EINTR": "ioctl fallocate",
    "EIO ENOSPC EACCES EROFS EINTR": "mkdirat mkdir linkat link symlinkat renameat renameat2 rename",
    "EIO ENOSPC EPERM EINTR": "mknodat",
    "EIO EACCES EROFS EINTR": "unlinkat unlink",
    "EIO EPERM EROFS EINTR": "fchmod fchmodat fchmodat2 chmod fchown fchownat chown lchown utimensat",
    "EIO ENOSPC EPERM EOPNOTSUPP EINTR": "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr",
    "EIO EACCES EOPNOTSUPP EINTR": "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
    "EIO ENOMEM EACCES ESTALE EINTR": "newfstatat statx fstat stat lstat readlinkat readlink",
    "EIO ENOSPC EINTR": "ftruncate truncate",
    "EIO ENOSPC EDQUOT EINTR": "fsync fdatasync syncfs sync_file_range close",
    "EIO ESTALE ENOMEM EINTR": "getdents64",
    "EIO EOPNOTSUPP EINTR": "fadvise64 fstatfs statfs cachestat access faccessat",
    "EIO EINVAL": "lseek",
    "EMFILE EIO EINTR": "fcntl",
    "ENOLCK EIO EINTR": "flock",
    "EIO EINVAL EINTR": "splice",
}
FAILURES = {call: errors.split() for errors, calls in ERRORS.items() for call in calls.split()}
LASTING = {"EIO", "ENOSPC", "EMFILE"}  # also tried for all calls of the kind from one on


def text_of(error):
    return os.strerror(getattr(errno, error)).lower()  # as Go has it


# ---- one run under a filter of system calls ---------------------------------------

libc = ctypes.CDLL(None, use_errno=True)
RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND


def install(calls):
    """Lets the kernel ask about these calls of this process and all that come of it
    (seccomp_unotify(2)), and returns the descriptor over which it asks."""
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
    for i, number in enumerate(calls):
        code.append((0x15, len(calls) - i, 0, number))
    code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FC00000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters)))
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    # 8 | 32: a listener, and only deadly signals interrupt a call that is being
    # asked about (Linux 5.19): Go's scheduler sends others all the time.
    return libc.syscall(317, 1, 8 | 32, ctypes.c_void_p(ctypes.addressof(program)))


class Asked:
    """A system call that the kernel asks about."""

    def __init__(self, notification):
        self.id, self.tid, _, self.number, _, _, *self.args = struct.unpack("QIIiIQ6Q", notification)
        self.name = NAMES[self.number]

    def descriptor(self, fd):
        try:
            return os.readlink("/proc/%d/fd/%d" % (self.tid, fd))
        except OSError:
            return ""

    def memory(self, address, size):
        with open("/proc/%d/mem" % self.tid, "rb", buffering=0) as f:
            f.seek(address)
            return f.read(size)

    def store(self, address, data):
        with open("/proc/%d/mem" % self.tid, "wb", buffering=0) as f:
            f.seek(address)
            f.write(data)

    def path(self, address):
        if address == 0:
            return b""
        data = b""
        while b"\0" not in data and len(data) < 8192:  # page by page: the next one may not be there
            data += self.memory(address + len(data), 4096 - (address + len(data)) % 4096)
        return data.split(b"\0")[0]

    def at(self, directory, address):
        name = os.fsdecode(self.path(address))
        if name.startswith("/proc/self/fd/"):
            return self.descriptor(int(name.rsplit("/", 1)[1]))
        directory = ctypes.c_int32(directory & 0xFFFFFFFF).value
        if directory == -100:  # AT_FDCWD
            base = os.readlink("/proc/%d/cwd" % self.tid)
        else:
            base = self.descriptor(directory)
        return os.path.join(base, name) if name else base

    def about(self):
        """The paths that the call is about."""
        i, paths = 0, []
        for kind in CALLS[self.name][1]:
            if kind == "f":
                paths.append(self.descriptor(self.args[i]))
            elif kind == "p":
                paths.append(self.at(-100, self.args[i]))
            elif kind == "@":
                paths.append(self.at(self.args[i], self.args[i + 1]))
                i += 1
            i += 1
        return paths

    def do_part(self, pidfd):
        """Does half of what is asked for, in the place of the kernel. Returns how
        much, or None where that cannot be."""
        args = self.args
        if self.name == "copy_file_range":
            # from, offset, to, offset, size
            count = args[4] // 2
            if count == 0 or not args[1] or not args[3]:
                return None
            source, target = take(pidfd, args[0]), take(pidfd, args[2])
            try:
                off = [struct.unpack("q", self.memory(args[i], 8))[0] for i in (1, 3)]
                n = os.copy_file_range(source, target, count, *off)
                for i, at in zip((1, 3), off):
                    self.store(args[i], struct.pack("q", at + n))
                return n
            except OSError:
                return None
            finally:
                os.close(source)
                os.close(target)
        if self.name not in ("read", "pread64", "write", "pwrite64") or args[2] < 2:
            return None
        fd, count = take(pidfd, args[0]), args[2] // 2
        try:
            if self.name == "read":
                data = os.read(fd, count)
            elif self.name == "pread64":
                data = os.pread(fd, count, args[3])
            elif self.name == "write":
                return os.write(fd, self.memory(args[1], count))
            else:
                return os.pwrite(fd, self.memory(args[1], count), args[3])
            self.store(args[1], data)
            return len(data)
        except OSError:
            return None
        finally:
            os.close(fd)


def take(pidfd, fd):
    own = libc.syscall(438, pidfd, int(fd), 0)  # pidfd_getfd
    if own < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return own


Ended = collections.namedtuple("Ended", "code hits counts hung")


def run(command, at, calls, decide, stdin=None, limit=60):
    """Runs a command in the directory at, its output in the files out and err there.
    decide gets each of the calls that is about something there, and how many of its
    name came before: None lets the kernel do it, else it is the error, or SHORT.
    Hits are the calls that were failed, counts how many of each name there were."""
    here, there = socket.socketpair()
    with open(at + "/out", "wb") as out, open(at + "/err", "wb") as err, open(stdin or os.devnull, "rb") as inp:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                os.chdir(at)
                for i, f in enumerate((inp, out, err)):
                    os.dup2(f.fileno(), i)
                listener = install([CALLS[c][0] for c in calls]) if calls else os.open("/dev/null", os.O_RDONLY)
                if listener < 0:
                    os._exit(77)
                socket.send_fds(there, [b"x"], [listener])
                os.execv(command[0], command)
            finally:
                os._exit(78)
    there.close()
    _, fds, _, _ = socket.recv_fds(here, 1, 1)
    here.close()
    if not fds:
        os.waitpid(pid, 0)
        print("torture: the kernel cannot ask about system calls (seccomp_unotify, Linux 5.19)", file=sys.stderr)
        os._exit(77)
    listener, pidfd = fds[0], os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if calls:
        poll.register(listener, select.POLLIN)
    counts, hits, end, hung = collections.Counter(), [], time.monotonic() + limit, False
    try:
        while True:
            ready = dict(poll.poll(1000))
            if ready.get(listener, 0) & select.POLLIN:
                notification = bytearray(80)
                try:
                    fcntl.ioctl(listener, RECEIVE, notification, True)
                except OSError:  # killed meanwhile
                    continue
                asked = Asked(notification)
                value, error, flags = 0, 0, 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
                paths = []
                try:
                    paths = [p for p in asked.about() if counted(p, at)]
                except OSError:
                    pass
                if paths and not (asked.name == "fcntl" and asked.args[0] < 3): # the runtime's own
                    nth = counts[asked.name]
                    counts[asked.name] += 1
                    what = decide(asked, nth, paths)
                    if what == SHORT:
                        try:
                            done = asked.do_part(pidfd)
                        except ProcessLookupError:  # it has ended meanwhile
                            done = None
                        if done is not None:
                            value, flags = done, 0
                            hits.append((asked.name, nth, what, paths))
                    elif what is not None:
                        error, flags = -getattr(errno, what), 0
                        hits.append((asked.name, nth, what, paths))
                try:
                    fcntl.ioctl(listener, SEND, struct.pack("QqiI", asked.id, value, error, flags))
                except OSError:
                    pass
            elif pidfd in ready:
                break
            if time.monotonic() > end:
                # Go prints the stacks of all goroutines, then the process must end.
                os.kill(pid, signal.SIGKILL if hung else signal.SIGQUIT)
                hung, end = True, time.monotonic() + 10
    finally:
        os.close(listener)
        os.close(pidfd)
    status = os.waitpid(pid, 0)[1]
    return Ended(os.waitstatus_to_exitcode(status), hits, counts, hung)


def counted(path, at):
    """Only what the program does itself counts, not what its runtime does at the
    start: what is below the directory of this run, and what is asked of the system."""
    if path == at + "/err" or path.endswith("/maps"):  # where the message would be; libc, of a thread's stack
        return False
    return path == at or path.startswith((at + "/", "/proc/", "/sys/"))


# ---- trees ------------------------------------------------------------------------

LONG_AGO, BEFORE, SINCE = 1_000_000_000_111_111_111, 1_500_000_000_222_222_222, 1_600_000_000_333_333_333


def content(size, seed):
    return random.Random(seed).randbytes(size)


FILES = {  # of the source: name -> content
    "inline": content(100, 1), "empty": b"", "big": content(300_001, 2), "d/replaced": content(200, 3),
    "d/replaced-big": content(280_003, 4), "d/same": content(300, 5), "d/differs": content(310, 6),
    "d/vouched": content(320, 7), "d/unproven": content(330, 8), "link1": content(400, 9), "attributes": content(420, 11),
    "ro/in": content(430, 12), "d/attributes-old": content(440, 14), "two\nlines": content(50, 15),
    "sparse": bytes(1 << 20) + content(4096, 13) + bytes(1 << 20),
}
OLD = {  # of the destination: name -> content, None for that of the source
    "d/replaced": content(150, 23), "d/replaced-big": content(270_000, 24), "d/same": None, "d/differs": content(310, 26),
    "d/vouched": None, "d/unproven": None, "d/attributes-old": None, "extra/kept": content(77, 40),
}


def write(root, name, data, when):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        if name == "sparse":
            f.seek(1 << 20)
            f.write(data[1 << 20:-(1 << 20)])
            f.truncate(len(data))
        else:
            f.write(data)
    os.chmod(path, 0o640)
    os.utime(path, ns=(when, when))


def attribute(path, name, value):
    try:
        os.setxattr(path, name, value)
    except OSError as e:
        if e.errno not in (errno.ENOTSUP, errno.EPERM):
            raise


def make_source(root):
    for name, data in FILES.items():
        write(root, name, data, SINCE)
    for name in ("m", "hollow"):
        os.mkdir(os.path.join(root, name))
    os.link(root + "/link1", root + "/m/link2")
    os.link(root + "/link1", root + "/m/link3")
    os.symlink("d/replaced", root + "/symlink")
    os.symlink("new target", root + "/d/symlink")
    os.mkfifo(root + "/fifo", 0o620)
    attribute(root + "/attributes", "user.torture", b"one")
    attribute(root + "/d/attributes-old", "user.torture", b"new")
    attribute(root + "/m", "user.torture", b"dir")
    if os.geteuid() == 0:
        os.chown(root + "/inline", 1000, 1000)
        os.lchown(root + "/symlink", 1000, 1000)
    for name in ("inline", "symlink", "d/symlink", "fifo", "link1", "attributes", "d/attributes-old"):
        os.utime(os.path.join(root, name), ns=(SINCE, SINCE), follow_symlinks=False)
    for name in ("d", "m", "hollow", "ro"):
        os.utime(os.path.join(root, name), ns=(BEFORE, BEFORE))
    os.chmod(root + "/ro", 0o555)


def make_old(root):
    os.mkdir(root)
    lines = []
    for name, data in sorted(OLD.items()):
        when = LONG_AGO if data is not None or name == "d/same" else SINCE
        data = FILES[name] if data is None else data
        write(root, name, data, when)
        if name != "d/unproven":
            lines.append("%s  %s\n" % (hashlib.sha256(data).hexdigest(), name))
    attribute(root + "/d/attributes-old", "user.torture", b"old")
    attribute(root + "/d/attributes-old", "user.surplus", b"x")
    os.utime(root + "/d/attributes-old", ns=(SINCE, SINCE))
    os.symlink("old target", root + "/d/symlink")
    os.utime(root + "/d/symlink", ns=(LONG_AGO, LONG_AGO), follow_symlinks=False)
    with open(root + "/SHA256SUMS", "w") as f:
        f.writelines(lines)
    time.sleep(0.01)


def digest_lines(path):
    """The lines of a manifest: name -> digest."""
    lines = {}
    with open(path, "rb") as f:
        for line in f.read().splitlines():
            escaped = line.startswith(b"\\")
            digest, name = line[escaped:].decode().split(" ", 1)
            name = name[1:]  # "*" marks what an earlier manifest said and this run has not checked
            lines[name.replace("\\n", "\n").replace("\\\\", "\\") if escaped else name] = digest
    return lines


def look(root):
    """What is below root: name -> everything that a copy is to keep."""
    nodes = {}
    for at, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(at, name)
            info = os.lstat(path)
            kind, data = stat.S_IFMT(info.st_mode), None
            if kind == stat.S_IFREG:
                with open(path, "rb") as f:
                    data = f.read()
            elif kind == stat.S_IFLNK:
                data = os.readlink(path)
            attributes = ()
            if kind in (stat.S_IFREG, stat.S_IFDIR):
                attributes = tuple((a, os.getxattr(path, a)) for a in sorted(os.listxattr(path)))
            nodes[os.path.relpath(path, root)] = {
                "kind": kind, "mode": stat.S_IMODE(info.st_mode), "owner": (info.st_uid, info.st_gid),
                "time": info.st_mtime_ns, "data": data, "attributes": attributes,
                "links": info.st_nlink if kind == stat.S_IFREG else 0,
                "holes": kind == stat.S_IFREG and info.st_blocks * 512 < info.st_size // 2,
            }
    return nodes


def ours(name):
    return any(part.startswith(".sealift-") for part in name.split("/"))


def unlike(nodes, wanted):
    """What is not as wanted."""
    out = []
    for name in sorted(set(nodes) | set(wanted)):
        if name not in nodes:
            out.append("missing: %r" % name)
        elif name not in wanted:
            out.append("left: %r" % name)
        else:
            for key, value in wanted[name].items():
                if nodes[name][key] != value:
                    have = nodes[name][key]
                    if name == "SHA256SUMS":
                        have, value = have.splitlines(), value.splitlines()
                        have, value = [x for x in have if x not in value], [x for x in value if x not in have]
                        out.append("lines of the manifest: %r, not %r" % (have, value))
                        continue
                    out.append("%s of %r%s" % (key, name, "" if key == "data" else ": %r, not %r" % (have, value)))
    return out


# ---- what is swept ------------------------------------------------------------------


class Scenario:
    """A command, and what holds for it. It is run in a directory of its own."""

    def __init__(self, name, *args, place="memory", files=(), old=(), stdin=None):
        self.name, self.args, self.place, self.files, self.old, self.stdin = name, args, place, files, old, stdin

    def prepare(self, at):
        os.mkdir(at)
        make_source(at + "/src")
        for name in self.old:
            make_old(os.path.join(at, name))

    def reset(self, at):
        """As prepare has left it."""
        for name in os.listdir(at):
            if name not in ("src", "in"):
                path = os.path.join(at, name)
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        for name in self.old:
            make_old(os.path.join(at, name))

    def again(self):
        return self.args


MARKER = "SEALIFT-INCOMPLETE-src.txt"  # what a copy that fails leaves


class Copy(Scenario):
    targets = ("dst",)

    def __init__(self, name, *args, targets=("dst",), manifest=True, **more):
        super().__init__(name, "copy", "--workers=1", "--progress=none", *args, **more)
        self.targets, self.manifest = targets, manifest

    def result(self, at):
        return {t: look(os.path.join(at, t)) for t in self.targets}

    def complete(self, at, wanted, printed):
        """What is wrong where exit 0 says that all is done. printed is what the run with the failure
        printed."""
        out = []
        for target in self.targets:
            nodes = look(os.path.join(at, target)) if os.path.isdir(os.path.join(at, target)) else {}
            right = self.without_replaced(wanted[target], nodes, printed)
            out += ["%s: %s" % (target, u) for u in unlike(nodes, right)]
        return out

    def without_replaced(self, wanted, nodes, printed):
        """What is wanted, without the missing lines of files that were replaced because they cannot be
        read. A copy without hashes has no new lines for them."""
        if "--hash=none" not in self.args or not {"SHA256SUMS"} <= wanted.keys() & nodes.keys():
            return wanted
        replaced = [line for line in printed if "warning: " in line and "so it is replaced" in line]
        right = [line for line in wanted["SHA256SUMS"]["data"].splitlines(keepends=True)
                 if line in nodes["SHA256SUMS"]["data"].splitlines(keepends=True)
                 or not any("'%s'" % line.decode()[66:-1] in r for r in replaced)]
        return wanted | {"SHA256SUMS": wanted["SHA256SUMS"] | {"data": b"".join(right)}}

    def whole(self, at, wanted, hits):
        """What may never be, whatever has failed."""
        out = []
        for target in self.targets:
            root = os.path.join(at, target)
            if not os.path.isdir(root):
                continue
            nodes = look(root)
            for name, node in nodes.items():
                if ours(name):
                    if name.endswith(".tmp") and not any(h[0] == "unlinkat" for h in hits):
                        out.append("%s: a temporary is left: %r" % (target, name))
                    continue
                if node["kind"] != stat.S_IFREG or name in ("SHA256SUMS", MARKER):
                    continue
                old = OLD.get(name) if target in self.old else None
                right = wanted[target].get(name, {}).get("data")
                if node["data"] not in (old, right):
                    out.append("%s: neither old nor new: %r, %d bytes" % (target, name, len(node["data"])))
            if "SHA256SUMS" in nodes:
                for name, digest in digest_lines(root + "/SHA256SUMS").items():
                    if name not in nodes:
                        out.append("%s: the manifest lists what is not there: %r" % (target, name))
                    elif hashlib.sha256(nodes[name]["data"]).hexdigest() != digest:
                        out.append("%s: the manifest is wrong about %r" % (target, name))
        return out


class Read(Scenario):
    """A command that prints results: all of them are right, or it does not exit with 0."""

    def __init__(self, name, *args, outputs=("out",), **more):
        super().__init__(name, *args, **more)
        self.outputs = outputs

    def result(self, at):
        out = {}
        for name in self.outputs:
            path = os.path.join(at, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    out[name] = f.read()
        return out

    def complete(self, at, wanted, _):
        have = self.result(at)
        return ["%s is not as without a failure: %r" % (name, have.get(name, b"")[:300])
                for name in self.outputs if have.get(name) != wanted.get(name)]

    def whole(self, at, wanted, hits):
        out = []
        for name in os.listdir(at):
            if name.startswith(".sealift-") and not any(h[0] == "unlinkat" for h in hits):
                out.append("left: " + name)
        if "list" in self.outputs and os.path.exists(at + "/list"):
            have, right = self.result(at)["list"].splitlines(), wanted["list"].splitlines()
            out += ["the manifest has a line that is not right: %r" % line for line in have if line not in right]
        return out


class Verify(Read):
    def prepare(self, at):
        super().prepare(at)
        with open(at + "/src/SHA256SUMS", "w") as f:
            for name, data in sorted(FILES.items()):
                if "\n" not in name:
                    f.write("%s  %s\n" % (hashlib.sha256(data).hexdigest(), name))


class Stream(Read):
    def prepare(self, at):
        os.mkdir(at)
        os.mkdir(at + "/src")
        with open(at + "/in", "wb") as f:
            f.write(content(700_000, 50))


def scenarios(places):
    every = [
        Copy("new", "src", "dst"),
        Copy("old", "src", "dst", old=["dst"]),
        Copy("two", "src", "dst", "-o", "dst2", targets=("dst", "dst2"), old=["dst"]),
        Copy("file-sync", "--sync=file", "src", "dst", old=["dst"]),
        Copy("verify-after", "--verify=full", "src", "dst", old=["dst"]),
        Copy("none", "--hash=none", "src", "dst"),
        Copy("checksum", "--overwrite-policy=checksum", "--preserve=none", "src", "dst", old=["dst"]),
        Copy("ext4", "src", "dst", place="ext4", old=["dst"]),
        Copy("xfs", "src", "dst", place="xfs", old=["dst"]),
        Copy("btrfs", "--hash=none", "src", "dst", place="btrfs", old=["dst"]),
        Verify("verify", "verify", "--workers=1", "--progress=none", "-v", "--no-summary", "src"),
        Verify("verify-unlisted", "verify", "--workers=1", "--progress=none", "--unlisted", "--no-summary", "src"),
        Read("sum", "sum", "--workers=1", "--progress=none", "src"),
        Read("sum-list", "sum", "--workers=1", "--progress=none", "--manifest", "list", "src", outputs=["list"]),
        Read("du", "du", "--workers=1", "-a", "src"),
        Read("du-top", "du", "--workers=1", "--top", "3", "src"),
        Stream("stream", "stream", "--progress=none", "--manifest", "list", "in", "first", "second",
               outputs=["first", "second"]),
        Stream("stream-standard", "stream", "--progress=none", "--sync=none", "--block-size=64K", "--sparse",
               stdin="in"),
    ]
    return [s for s in every if s.place in places]


Point = collections.namedtuple("Point", "scenario call nth error lasting")


def describe(p):
    return "%s: %s %s#%d%s" % (p.scenario.name, p.error, p.call, p.nth, " and all after it" if p.lasting else "")


# ---- judging ----------------------------------------------------------------------

sealift = os.environ["SEALIFT"]
NEEDS_NOTHING = {"EINTR", SHORT}
# What a destination cannot hold is warned about and no failure.
CANNOT_HOLD = {"EPERM", "EOPNOTSUPP", "EINVAL", "ENOSPC", "EACCES"}
METADATA = set("fchmod fchmodat fchmodat2 chmod fchown fchownat chown lchown utimensat setxattr lsetxattr fsetxattr "
               "removexattr lremovexattr fremovexattr listxattr flistxattr getxattr fgetxattr mknodat".split())


def messages(at):
    out = []
    for name in ("err", "out"):
        with open(os.path.join(at, name), "rb") as f:
            out += f.read().decode(errors="replace").splitlines()
    return out


def complaints(at):
    """What a copy without a failure should not say. It may warn of several destinations on one device."""
    with open(at + "/err", encoding="utf-8", errors="replace") as f:
        return [line for line in f if " on one device, " not in line]


def judge(p, at, wanted, source):
    """One run with a failure and one without: what is wrong about them."""
    s = p.scenario
    s.reset(at)

    def decide(_, nth, __):
        return p.error if nth == p.nth or p.lasting and nth > p.nth else None

    ended = run([sealift, *s.args], at, [p.call], decide, stdin=s.stdin and os.path.join(at, s.stdin))
    printed, wrong = messages(at), []
    text = "\n".join(printed)
    if not ended.hits:
        return None, [], text
    if ended.hung:
        wrong.append("it hangs")
    elif ended.code not in (0, 1, 2, 3):
        wrong.append("exit %d" % ended.code)
    if not ended.hung and any(sign in text for sign in ("panic:", "goroutine ", "fatal error:", "runtime error")):
        wrong.append("panic")
    if not wrong:
        if ended.code == 0:
            unfit = allowed(p, s.complete(at, wanted, printed))
            warned = p.error in CANNOT_HOLD and p.call in METADATA and names_cause(printed, p)
            if unfit and not warned:
                wrong += ["exit 0, but " + u for u in unfit]
        elif p.error in NEEDS_NOTHING:
            wrong.append("exit %d" % ended.code)
        else:
            if ended.code == 3:
                wrong.append("exit 3")
            names = {a for a in s.args if not a.startswith("-")}
            for path in {path for hit in ended.hits for path in hit[3]}:
                names |= {part for part in path.removeprefix(at).removesuffix(" (deleted)").split("/") if part}
            if not names_cause(printed, p):
                wrong.append("no message names the cause")
            elif not any(text_of(p.error) in line and any(n in line for n in named(names))
                         for line in printed):
                wrong.append("no message names what it is about")
        wrong += s.whole(at, wanted, ended.hits)
    if source is not None and unlike(look(at + "/src"), source):
        wrong.append("the source is not what it was")
    if not ended.hung and not isinstance(s, Read):
        after = run([sealift, *s.again()], at, [], None, stdin=s.stdin and os.path.join(at, s.stdin))
        if after.code != 0:
            wrong.append("the same command again: exit %d: %s" % (after.code, "; ".join(messages(at)[:3])))
        else:
            left = [u for u in allowed(p, s.complete(at, wanted, printed)) if ".sealift-bad-" not in u]
            wrong += ["after the same command again: " + u for u in left]
    return ended, wrong, text


def allowed(p, unfit):
    """Without what follows from the answer that there is no such thing."""
    if p.error == "EOPNOTSUPP" and p.call in ("listxattr", "flistxattr"):
        return [u for u in unfit if ": attributes of " not in u]
    if p.error == "EINVAL" and p.call == "lseek":  # a file system that does not know of holes
        return [u for u in unfit if ": holes of " not in u]
    return unfit


def named(names):
    return {n.replace("\n", "\\n") for n in names} | {"the source's directory", "'-'"}


def names_cause(printed, p):
    return any(text_of(p.error) in line for line in printed)


# ---- the sweep --------------------------------------------------------------------


def baseline(s, at):
    """A run without a failure: what it leaves, and how many calls there are to fail."""
    s.prepare(at)
    source = look(at + "/src")
    counts = collections.Counter()
    for _ in range(2):
        s.reset(at)
        ended = run([sealift, *s.args], at, list(CALLS), lambda *_: None, stdin=s.stdin and os.path.join(at, s.stdin))
        if ended.code != 0 or isinstance(s, Copy) and complaints(at):
            raise SystemExit("torture: %s fails without a failure: exit %d\n%s" % (
                s.name, ended.code, "\n".join(messages(at))))
        for call, n in ended.counts.items():
            counts[call] = max(counts[call], n)
    wanted = s.result(at)
    if isinstance(s, Copy):
        for target in s.targets:
            extra = {n: {} for n in ("SHA256SUMS", "extra", "extra/kept") if n in wanted[target]}
            keep = set(wanted[target][next(iter(source))]) # every property
            if s.name == "checksum":
                keep = {"kind", "data"}
            wrong = unlike(wanted[target], {n: {k: v for k, v in node.items() if k in keep} for n, node in source.items()} | extra)
            if wrong:
                raise SystemExit("torture: %s without a failure: %s" % (s.name, wrong))
            for name, node in wanted[target].items():
                if s.name == "checksum":
                    wanted[target][name] = {k: node[k] for k in keep}
                elif name in ("extra", "SHA256SUMS"):
                    node.pop("time")
                    node.pop("mode")  # the manifest's may stay narrow where chmod is refused
    return wanted, source, counts


def worker(number, places, points, known, results):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    made = {}
    while True:
        p = points.get()
        if p is None:
            break
        index, name, call, nth, error, lasting = p
        s, wanted, source = known[name]
        at = os.path.join(places[s.place], "%d-%s" % (number, name))
        if at not in made:
            s.prepare(at)
            made[at] = look(at + "/src")
        try:
            ended, wrong, text = judge(Point(s, call, nth, error, lasting), at, wanted, made[at])
        except Exception as e:  # ours
            import traceback
            ended, wrong, text = None, ["the rig fails: " + traceback.format_exc()], ""
        results.put((index, wrong, text, ended and (ended.code, ended.hits[:1])))


def points_of(s, counts):
    """What can be tried."""
    for call in sorted(counts):
        for nth in range(counts[call]):
            for error in FAILURES[call]:
                yield Point(s, call, nth, error, False)
                if error in LASTING:
                    yield Point(s, call, nth, error, True)


def drawn(points, limit, lot):
    """As many by lot: each kind of call before each call, and that before more of one."""
    lot.shuffle(points)
    kinds, calls = set(), set()

    def rank(p):
        kind, call = (p.scenario.name, p.call), (p.scenario.name, p.call, p.nth)
        seen = (kind in kinds) + (call in calls)
        kinds.add(kind)
        calls.add(call)
        return seen

    return sorted(points, key=rank)[:limit]


def main():
    places = dict(a.split("=", 1) for a in os.environ["PLACES"].split())
    seed, limit, jobs = int(os.environ["SEED"]), os.environ["FAILURES"], int(os.environ["JOBS"])
    only, begun = sys.argv[1:], time.monotonic()
    chosen = [s for s in scenarios(places) if not only or s.name in only]
    known, points = {}, []
    for s in chosen:
        at = os.path.join(places[s.place], "base-" + s.name)
        wanted, source, counts = baseline(s, at)
        known[s.name] = (s, wanted, source)
        some = list(points_of(s, counts))
        points += some
        if not os.environ["SHORT"]:
            print("%-16s %4d calls of %2d kinds, %5d failures" % (
                s.name, sum(counts.values()), len(counts), len(some)), flush=True)
    if limit:
        points = drawn(points, int(limit), random.Random(seed))
    todo, results = multiprocessing.Queue(), multiprocessing.Queue()
    for i, p in enumerate(points):
        todo.put((i, p.scenario.name, *p[1:]))
    for _ in range(jobs):
        todo.put(None)
    workers = [multiprocessing.Process(target=worker, args=(n, places, todo, known, results)) for n in range(jobs)]
    for w in workers:
        w.start()
    signal.signal(signal.SIGTERM, lambda *_: ([w.kill() for w in workers], os._exit(143)))
    wrong = missed = silent = 0
    for done in range(len(points)):
        index, problems, text, ended = results.get()
        p = points[index]
        if ended is None and not problems:
            missed += 1
        elif ended and ended[0] == 0:
            silent += 1
        if problems:
            wrong += 1
            print("WRONG %s%s" % (describe(p), ", of %s" % " and ".join(ended[1][0][3]) if ended and ended[1] else ""))
            for line in problems[:6] + ["| " + t for t in text.splitlines()[:6]]:
                print("      " + line)
            sys.stdout.flush()
        if (done + 1) % 1000 == 0:
            print("%d of %d, %d wrong, %.0f s" % (done + 1, len(points), wrong, time.monotonic() - begun), flush=True)
    for w in workers:
        w.join()
    print("%d failures of system calls, seed %d: %d without consequence, %d not met again, %d wrong" % (
        len(points), seed, silent, missed, wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
