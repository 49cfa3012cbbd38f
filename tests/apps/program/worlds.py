# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program share.

A world is a folder and a store of one's own; in it, `leasehold` is run as its
users run it. Whatever is still alive at the end of a test is killed.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "worker.py")

#: Set by run.py.
PROGRAM = ""
STORE = "sqlite"

#: What a busy machine may add to any duration that is measured here.
SLACK = 0.7


#: Held while a file is open for writing and while a process is made: a file
#: that is open for writing, be it in a fork of ours, cannot be executed.
FORKING = threading.Lock()


class GuardedPopen(subprocess.Popen):
    def __init__(self, *args, **more):
        with FORKING:
            super().__init__(*args, **more)


# For subprocess.run, too.
subprocess.Popen = GuardedPopen


def now():
    # The clock of all processes: children write its values into files.
    return time.monotonic()


def wait_for(condition, limit, what):
    """Looks every few milliseconds; returns what the condition returned."""
    end = now() + limit
    while True:
        got = condition()
        if got:
            return got
        if now() > end:
            what = what() if callable(what) else what
            raise AssertionError(f"waited {limit:.1f} s in vain: {what}")
        time.sleep(0.005)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(pid):
    """Process IDs of everything below a process."""
    found, todo = set(), [pid]
    while todo:
        parent = todo.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as f:
                    for child in f.read().split():
                        if int(child) not in found:
                            found.add(int(child))
                            todo.append(int(child))
    return found


def without_leasehold(environment):
    return {key: value for key, value in environment.items()
            if not key.startswith("LEASEHOLD_")}


class Result:
    """How a command ended."""

    def __init__(self, code, out, err, took):
        self.code = code
        self.out = out
        self.err = err
        self.took = took

    def json(self):
        return json.loads(self.out)


class Pool:
    """One `leasehold pool` process and all that it says, with the time."""

    def __init__(self, world, config, *, holder=None, env=None, args=(),
                 prefix=()):
        self.world = world
        self.holder = holder
        self.events = []
        self.lines = []
        self.other = []
        self.changed = threading.Condition()
        self.open_streams = 2
        argv = [*prefix, PROGRAM, "pool", "--config", config,
                "--log-format", "json", *args]
        if holder:
            argv += ["--holder", holder]
        self.process = subprocess.Popen(
            argv, env=world.environment(env or {}), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.readers = [
            threading.Thread(target=self._read, args=(stream, hear),
                             daemon=True)
            for stream, hear in ((self.process.stdout, self._hear_line),
                                 (self.process.stderr, self._hear_event))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, hear):
        for raw in stream:
            at = now()
            with self.changed:
                hear(at, raw.decode("utf-8", "surrogateescape").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.open_streams -= 1
            self.changed.notify_all()
        stream.close()

    def _hear_line(self, at, line):
        self.lines.append((at, line))

    def _hear_event(self, at, line):
        try:
            event = json.loads(line)
            event["at"] = at
            self.events.append(event)
        except ValueError:
            self.other.append(line)

    # -- what was said --------------------------------------------------------

    def having(self, event, **fields):
        with self.changed:
            return [x for x in self.events if x["event"] == event
                    and all(x.get(key) == value
                            for key, value in fields.items())]

    def await_event(self, event, limit=10, count=1, **fields):
        """The count-th such event."""
        end = now() + limit
        with self.changed:
            while True:
                found = [x for x in self.events if x["event"] == event
                         and all(x.get(key) == value
                                 for key, value in fields.items())]
                if len(found) >= count:
                    return found[count - 1]
                left = end - now()
                if left <= 0 or self.open_streams == 0:
                    raise AssertionError(
                        f"waited {limit} s in vain for {event} {fields} "
                        f"({len(found)} of {count})\n{self.told()}")
                self.changed.wait(left)

    def await_line(self, text, limit=10):
        end = now() + limit
        with self.changed:
            while True:
                for at, line in self.lines:
                    if text in line:
                        return at
                left = end - now()
                if left <= 0 or self.open_streams == 0:
                    raise AssertionError(f"waited in vain for {text!r}\n"
                                         + self.told())
                self.changed.wait(left)

    def told(self):
        start = self.events[0]["at"] if self.events else 0
        events = "\n".join(
            f"{x['at'] - start:7.3f} "
            + " ".join(f"{k}={v}" for k, v in x.items()
                       if k not in ("at", "time")) for x in self.events[-60:])
        lines = "\n".join(line for _, line in self.lines[-20:])
        return (f"-- {self.holder}, exit {self.process.poll()}\n{events}\n"
                f"{lines}\n" + "\n".join(self.other))

    # -- how it ends ----------------------------------------------------------

    def send(self, number):
        self.process.send_signal(number)
        return now()

    def kill(self):
        self.process.kill()
        return now()

    def await_end(self, limit=10):
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {limit} s\n"
                                 + self.told()) from None
        self.ended = now()
        for reader in self.readers:
            reader.join(2)
        return code

    def stop(self, limit=10):
        self.send(signal.SIGTERM)
        return self.await_end(limit)


class World:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="leasehold-program-")
        os.chmod(self.folder, 0o755)
        self.processes = []
        self.pools = []
        self.before = {}
        self.number = 0
        self.table = "leasehold_leases"
        if STORE == "postgres":
            self.table = "t_" + uuid.uuid4().hex[:12]
            self.url = (os.environ["LEASEHOLD_TEST_POSTGRES"]
                        + "?table=" + self.table)
        else:
            self.url = f"sqlite://{self.folder}/leases.db"

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        # Renamed, because a file that is being executed cannot be written.
        path = self.path(name)
        with FORKING, open(path + ".new", "w") as f:
            f.write(text)
        os.chmod(path + ".new", mode)
        os.rename(path + ".new", path)
        return path

    def read(self, name):
        try:
            with open(self.path(name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    def script(self, text, name="work.sh"):
        """A command in plain sh; `leasehold` is in its PATH."""
        return self.write(name, "#!/bin/sh\n" + text, 0o755)

    def config(self, *, command, work=("w",), pool=(), run=(), schema="apply",
               url=None, timeout="1s", name=None, **defaults):
        """A configuration with one pool; `-` in option names is `_` here."""
        self.number += 1
        path = self.path(name or f"config-{self.number}.yaml")
        timing = {"ttl": "3s", "renew": "750ms", "idle": "300ms",
                  "rerun": "300ms", "backoff": "300ms", "cleanup": "1s",
                  "stop": {"grace": "2s"}, **defaults}
        settings = {
            "version": 1,
            "store": {"url": url or self.url, "schema": schema,
                      "timeout": timeout},
            "defaults": timing,
            "pools": [{"name": "p", "work": {"list": list(work)},
                       **dict(pool), "run": {"command": list(command),
                                             **dict(run)}}],
        }
        with open(path, "w") as f:
            # JSON is YAML, as long as no character is split in two.
            json.dump(settings, f, indent=1, ensure_ascii=False)
        return path

    def environment(self, more):
        result = without_leasehold(os.environ)
        result["PATH"] = (os.path.dirname(PROGRAM) + ":" + result["PATH"])
        result["OUT"] = self.folder
        result["TMPDIR"] = self.folder
        result.update(more)
        return result

    def pool(self, config, **more):
        result = Pool(self, config, **more)
        self.pools.append(result)
        return result

    def run(self, *args, env=None, stdin=None, limit=20, store=True,
            prefix=()):
        """One command, to its end."""
        argv = [*prefix, PROGRAM, *args]
        environment = self.environment(env or {})
        if store:
            environment.setdefault("LEASEHOLD_STORE", self.url)
        start = now()
        got = subprocess.run(
            argv, env=environment, input=stdin if stdin is not None else b"",
            capture_output=True, timeout=limit)
        return Result(got.returncode, got.stdout.decode(),
                      got.stderr.decode(), now() - start)

    def spawn(self, argv, **more):
        process = subprocess.Popen(argv, **more)
        self.processes.append(process)
        return process

    def show(self, work="w"):
        got = self.run("show", "-o", "json", "--", work)
        if got.code != 0:
            raise AssertionError(f"show {work}: {got.code} {got.err}")
        return got.json()

    # -- past the program, into its store -------------------------------------

    def sql(self, text):
        if STORE == "postgres":
            subprocess.run(
                ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-c", text,
                 os.environ["LEASEHOLD_TEST_POSTGRES"]],
                check=True, capture_output=True)
        else:
            with contextlib.closing(sqlite3.connect(
                    self.path("leases.db"), timeout=5)) as db, db:
                db.execute(text)

    def steal(self, work="w"):
        """Gives a lease to somebody else for an hour."""
        later = ("now() + interval '1 hour'" if STORE == "postgres" else
                 str(int((time.time() + 3600) * 1e6)))
        self.sql(f"update {self.table} set holder_id = 'thief', "
                 f"fencing_token = fencing_token + 1000, exit_mode = null, "
                 f"expires_at = {later} where work_id = '{work}'")

    # -- the end --------------------------------------------------------------

    def close(self):
        below = set()
        for pool in self.pools:
            if pool.process.poll() is None:
                below |= descendants(pool.pid)
                pool.process.kill()
                pool.process.wait()
        for process in self.processes:
            if process.poll() is None:
                below |= descendants(process.pid)
                process.kill()
                process.wait()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        if STORE == "postgres":
            with contextlib.suppress(subprocess.CalledProcessError):
                self.sql(f"drop table if exists {self.table}")


class ProgramTest(unittest.TestCase):
    """A test with a world of its own, on the store that the run is for."""

    stores = ("sqlite",)
    #: Stops a server that others use.
    alone = False

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.figures = []

    def measured(self, what, value, limit=None):
        self.figures.append(
            f"{what}: {value:.2f} s"
            + (f" (limit {limit:.2f} s)" if limit is not None else ""))
        if limit is not None:
            self.assertLessEqual(value, limit, what)

    def worker(self, *words):
        return [sys.executable, "-I", "-S", WORKER, *words]

    def acknowledged(self):
        """(time, work, number) of each confirmed checkpoint of `count`."""
        return [(float(at), work, int(n)) for at, work, n in
                (line.split() for line in
                 self.world.read("acks").decode().splitlines())]
