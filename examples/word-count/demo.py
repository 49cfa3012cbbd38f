#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes count words together; one is killed; the totals are right.

Usage: demo.py PATH-OF-THE-LEASEHOLD-PROGRAM [FOLDER-OF-TEXT-FILES]
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# As in word-count.yaml.
TTL = 3.0
POLL = 0.6
MAX_HELD = 8


class Failure(Exception):
    pass


def say(text=""):
    print(text, flush=True)


class Node:
    """One `leasehold pool` process, and what it said."""

    def __init__(self, demo, name):
        self.name = name
        self.demo = demo
        self.process = subprocess.Popen(
            [demo.program, "pool", "--config",
             os.path.join(HERE, "word-count.yaml"), "--holder", name],
            env=demo.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.raw = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.raw.append(line)
            self.demo.heard(self.name, line.rstrip("\n"))

    def children(self):
        """Process IDs of everything below this process."""
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    below = [int(x) for x in f.read().split()]
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children") as f:
                        below += [int(x) for x in f.read().split()]
            except OSError:
                continue
            below = sorted(set(below))
            found += below
            todo += below
        return found


class Demo:
    def __init__(self, program, texts):
        self.program = os.path.abspath(program)
        self.texts = texts
        self.files = sorted(
            name for name in os.listdir(texts)
            if os.path.isfile(os.path.join(texts, name))
            and not os.path.islink(os.path.join(texts, name)))
        if not self.files:
            raise Failure(f"there are no text files in {texts}")
        self.folder = tempfile.mkdtemp(prefix="leasehold-word-count-")
        self.store = os.path.join(self.folder, "leases.db")
        work_list = os.path.join(self.folder, "files")
        with open(work_list, "w") as f:
            f.write("\n".join(self.files) + "\n")
        path = os.path.dirname(self.program) + ":" + os.environ["PATH"]
        self.environment = dict(
            os.environ, PATH=path, TEXTS=texts, STORE=self.store,
            WORK_LIST=work_list, WORKER=os.path.join(HERE, "count-words"))
        self.start = time.monotonic()
        self.lock = threading.Lock()
        self.events = []  # (time, node, kind, file, rest)
        self.done_before = set()  # (node, file)
        self.nodes = []

    # -- what the processes say -----------------------------------------------

    def heard(self, node, line):
        now = time.monotonic()
        event = None
        if m := re.match(r"texts/(\S+) \| (.*)", line):
            event = ("said", m[1], m[2])
        elif m := re.search(r" (acquired|takeover|retired|lost|backoff|dead) "
                            r".*?work=(\S+)(.*)", line):
            event = (m[1], m[2], m[3])
        if event is None:
            return
        kind, name, rest = event
        if "prior=retired" in rest:
            self.done_before.add((node, name))
        if (node, name) in self.done_before:
            return  # Somebody else has finished it: nothing is run again.
        with self.lock:
            self.events.append((now, node, kind, name, rest))
        text = {
            "acquired": f"takes {name}",
            "takeover": f"takes over {name}",
            "retired": f"has finished {name}",
            "said": f"    {name}: {rest}",
        }.get(kind, f"{kind}: {name}{rest}")
        say(f"  {now - self.start:5.1f} s  {node}  {text}")

    def wait_for(self, condition, limit, what):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if condition():
                return
            for node in self.nodes:
                code = node.process.poll()
                if code not in (None, 0, -signal.SIGKILL):
                    raise Failure(f"{node.name} ended with {code}:\n"
                                  + "".join(node.raw[-20:]))
            time.sleep(0.05)
        raise Failure(f"waited {limit:.0f} s in vain: {what}")

    def having(self, node, kind, name=None):
        with self.lock:
            return [e for e in self.events if e[1] == node and e[2] == kind
                    and (name is None or e[3] == name)]

    # -- what the store says --------------------------------------------------

    def ask(self, *args):
        got = subprocess.run(
            [self.program, *args, "--store", "sqlite://" + self.store,
             "-o", "json"], capture_output=True, text=True)
        if got.returncode != 0:
            raise Failure("leasehold " + " ".join(args) + " failed: "
                          + got.stderr)
        return json.loads(got.stdout)

    def progress(self, name):
        """Lines and words that the last checkpoint of a file tells."""
        row = self.ask("show", name)
        if row["state_bytes"] is None:
            return 0, 0
        lines, words = base64.b64decode(row["state_base64"]).split()
        return int(lines), int(words)

    def held_by(self, holder):
        return [row["work_id"] for row in self.ask("list")["leases"]
                if row["holder_id"] == holder]

    # -- the story ------------------------------------------------------------

    def run(self):
        lines = 0
        for name in self.files:
            with open(os.path.join(self.texts, name), "rb") as f:
                lines += f.read().count(b"\n")
        say()
        say(f"The work: count the words of {len(self.files)} text files "
            f"({lines} lines) in {self.texts}.")
        say("Two processes, node-a and node-b, share it. Each file is worked "
            "on by one of them")
        say("at a time: whoever has its lease. Every ten lines the worker "
            "stores how far it is.")
        say()
        say("1. node-a starts and takes as much as it may, then node-b starts.")
        a = Node(self, "node-a")
        self.nodes = [a]
        share = min(MAX_HELD, len(self.files))
        self.wait_for(lambda: len(self.having("node-a", "acquired")) >= share,
                      30, f"node-a takes {share} files")
        b = Node(self, "node-b")
        self.nodes = [a, b]

        victims = {}

        def under_way():
            victims.clear()
            for name in self.held_by("node-a"):
                so_far = self.progress(name)
                if so_far[0] >= 50:
                    victims[name] = so_far
            return bool(victims) and self.having("node-b", "acquired")

        self.wait_for(under_way, 60, "node-a gets past line 50 of a file")
        below = a.children()
        self.nodes = [b]
        say()
        say("2. node-a is killed in the middle of its work (kill -9). It "
            "cannot clean up.")
        a.process.kill()
        a.process.wait()
        killed = time.monotonic()
        # Read after the kill: nothing that node-a stores can come later.
        victims = {name: self.progress(name)
                   for name in self.held_by("node-a")}
        self.wait_for(lambda: not any(alive(pid) for pid in below), 2,
                      "the processes that node-a had started are gone")
        say(f"   The {len(below)} processes that it had started are gone "
            "with it.")
        for name, (done, words) in victims.items():
            say(f"   It leaves {name} at line {done}, {words} words.")
        say(f"   Its leases end by themselves within {TTL:.0f} seconds; "
            "then node-b may go on.")
        say()

        def taken_over():
            return all(self.having("node-b", "takeover", name)
                       for name in victims)

        self.wait_for(taken_over, 120, "node-b takes over")
        first = min(e[0] for name in victims
                    for e in self.having("node-b", "takeover", name))
        self.wait_for(lambda: b.process.poll() is not None, 240,
                      "node-b finishes the rest")
        if b.process.returncode != 0:
            raise Failure("node-b failed:\n" + "".join(b.raw[-20:]))
        b.reader.join()
        say()
        say(f"3. node-b went on {first - killed:.1f} s after the kill, from "
            "the last stored line, and finished.")
        for name, (done, words) in victims.items():
            want = f"going on after line {done} ({words} words, left by node-a)"
            said = [e[4] for e in self.having("node-b", "said", name)]
            # A file that had no checkpoint yet is started by its successor.
            if done > 0 and want not in said:
                raise Failure(f"{name}: expected \"{want}\", heard {said}")
        limit = TTL + POLL + 1.0
        if first - killed > limit:
            raise Failure(f"that took longer than {limit:.1f} s")
        return self.check_totals()

    def check_totals(self):
        say()
        say("4. The totals, against wc -w:")
        say()
        say(f"   {'FILE':<16}{'COUNTED':>9}{'WC -W':>9}")
        wrong = 0
        for name in self.files:
            counted = self.progress(name)[1]
            out = subprocess.run(["wc", "-w", os.path.join(self.texts, name)],
                                 capture_output=True, text=True, check=True)
            right = int(out.stdout.split()[0])
            wrong += counted != right
            say(f"   {name:<16}{counted:>9}{right:>9}"
                f"{'' if counted == right else '   WRONG'}")
        say()
        if wrong:
            raise Failure(f"{wrong} totals are wrong")
        say(f"All {len(self.files)} totals are right: nothing was lost and "
            "nothing was counted twice.")

    def clean_up(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.terminate()
                try:
                    node.process.wait(10)
                except subprocess.TimeoutExpired:
                    node.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__.strip(), file=sys.stderr)
        return 64
    texts = sys.argv[2] if len(sys.argv) == 3 else "/usr/share/common-licenses"
    demo = None
    try:
        demo = Demo(sys.argv[1], os.path.abspath(texts))
        demo.run()
        return 0
    except Failure as x:
        print(f"\ndemo: {x}", file=sys.stderr)
        return 1
    finally:
        if demo:
            demo.clean_up()


if __name__ == "__main__":
    sys.exit(main())
