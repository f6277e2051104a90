#!/usr/bin/env python3
"""Makes a tree that is hard to copy, and compares two trees in everything.

  hard_tree.py make DIR FILES     the tree, with FILES small files besides
  hard_tree.py compare A B        prints differences, exits with 1 if there are any;
                                  [-- NAME ...] leaves out entries of the roots
"""
import hashlib, os, random, socket, stat, sys

WHEN = 1_600_000_000_123_456_789


def write(path, data, mode=0o640):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def make(root, files):
    random.seed(7)
    root = os.fsencode(root)
    at = lambda *names: os.path.join(root, *names)
    data = random.randbytes(1 << 20)

    # Names: any byte but NUL and "/", and names that folding would make equal.
    for name in (b"line\nfeed", b"\xff\xfe", b"back\\slash", b" blank ", b"-n", b"'\"$(x)", b"n" * 255,
                 b"Case", b"case", "\u00e9".encode(), "e\u0301".encode(), b"*", b"#"):
        write(at(b"names", name), name)
        write(at(b"names", b"dir " + name[:200], b"in"), name)
    # Files with several names, in and across directories that different shards would get.
    for i in range(20):
        first = at(b"links", b"%d" % i, b"first")
        write(first, random.randbytes(1000 + i))
        os.link(first, at(b"links", b"%d" % i, b"second"))
        for j in range(5):
            os.makedirs(at(b"far", b"%d" % j), exist_ok=True)
            os.link(first, at(b"far", b"%d" % j, b"%d" % i))
    # Symbolic links, also dangling, absolute and upwards; empty directories; special files.
    os.makedirs(at(b"kinds", b"empty", b"emptier"))
    for name, target in ((b"up", b"../names/case"), (b"none", b"nowhere"), (b"root", b"/etc"), (b"dir", b"empty")):
        os.symlink(target, at(b"kinds", name))
    os.link(at(b"kinds", b"none"), at(b"kinds", b"none too"), follow_symlinks=False)
    os.mkfifo(at(b"kinds", b"fifo"))
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(at(b"kinds"))
        s.bind("socket")
        os.chdir(here)
    # Content: empty, with holes, larger than a block.
    write(at(b"content", b"empty"), b"")
    write(at(b"content", b"large"), data * 2)
    with open(at(b"content", b"holes"), "wb") as f:
        f.truncate(8 << 20)
        f.seek(4 << 20)
        f.write(data[:4096])
    # Metadata: modes, owners, extended attributes, times before 1970 and after 2038.
    for mode in (0o000, 0o400, 0o4755, 0o2755, 0o1777):
        write(at(b"modes", b"%o" % mode), b"x", mode)
    write(at(b"modes", b"owner"), b"x")
    os.chown(at(b"modes", b"owner"), 1234, 5678)
    try:
        os.setxattr(at(b"modes", b"owner"), b"user.note", b"\x00\xff")
    except OSError:
        pass
    write(at(b"times", b"old"), b"x")
    write(at(b"times", b"late"), b"x")
    # A chain of directories, and many files.
    deep = at(b"deep")
    for i in range(60):
        deep = os.path.join(deep, b"d%02d" % i)
    write(os.path.join(deep, b"bottom"), b"x")
    for i in range(files):
        start = random.randrange(1 << 19)
        size = min(65536, int(random.lognormvariate(7, 1.5)))
        write(at(b"many", b"%d" % (i % 97), b"%d" % (i // 1000), b"%d" % i), data[start:start + size])

    count = 0
    for dir, dirs, names in os.walk(root, topdown=False):
        for name in names + dirs:
            count += 1
            when = WHEN + count * 1_000_000_007
            os.utime(os.path.join(dir, name), ns=(when, when), follow_symlinks=False)
    os.utime(at(b"times", b"old"), ns=(-10**18, -10**18))
    os.utime(at(b"times", b"late"), ns=(5 * 10**18, 5 * 10**18))
    os.utime(at(b"times"), ns=(WHEN, WHEN))
    os.chmod(at(b"times"), 0o555)
    os.chmod(at(b"modes"), 0o500)
    os.utime(root, ns=(WHEN, WHEN))


def describe(root, left_out):
    """Returns everything about each entry that a copy keeps, by path."""
    root = os.fsencode(root)
    top = os.lstat(root)
    entries, names = {b"": {"mode": top.st_mode, "owner": (top.st_uid, top.st_gid), "mtime": top.st_mtime_ns}}, {}
    stack = [b""]
    while stack:
        dir = stack.pop()
        for name in os.listdir(os.path.join(root, dir)):
            if not dir and name in left_out:
                continue
            path = os.path.join(dir, name)
            full = os.path.join(root, path)
            s = os.lstat(full)
            e = {"kind": stat.S_IFMT(s.st_mode), "mode": s.st_mode, "owner": (s.st_uid, s.st_gid),
                 "mtime": s.st_mtime_ns, "xattrs": xattrs(full)}
            if stat.S_ISDIR(s.st_mode):
                stack.append(path)
            else:
                e["size"], e["names"] = s.st_size, s.st_nlink
                names.setdefault((s.st_dev, s.st_ino), []).append(path)
            if stat.S_ISLNK(s.st_mode):
                e["target"] = os.readlink(full)
            if stat.S_ISREG(s.st_mode):
                with open(full, "rb") as f:
                    e["digest"] = hashlib.file_digest(f, "sha256").hexdigest()
                e["holes"] = s.st_blocks * 512 < s.st_size - 65536
            entries[path] = e
    for same in names.values():
        for path in same:
            entries[path]["links"] = sorted(same)
    return entries


def xattrs(path):
    try:
        return sorted((n, os.getxattr(path, n, follow_symlinks=False)) for n in os.listxattr(path, follow_symlinks=False))
    except OSError:
        return None


def compare(a, b, left_out):
    left, right = describe(a, left_out), describe(b, left_out)
    differences = 0
    for path in sorted(left.keys() | right.keys()):
        x, y = left.get(path), right.get(path)
        if x == y:
            continue
        differences += 1
        if differences <= 20:
            if x is None or y is None:
                print(f"{path!r} is only in {a if y is None else b}")
            else:
                print(f"{path!r}: " + "; ".join(f"{k} {x.get(k)!r}, {y.get(k)!r}" for k in x.keys() | y.keys() if x.get(k) != y.get(k)))
    print(f"{len(left)} entries, {differences} differ")
    return differences == 0


if __name__ == "__main__":
    args = sys.argv[1:]
    if args[0] == "make":
        make(args[1], int(args[2]))
    else:
        left_out = {os.fsencode(name) for name in args[4:]}
        sys.exit(0 if compare(args[1], args[2], left_out) else 1)
