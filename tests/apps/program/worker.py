# SPDX-License-Identifier: Apache-2.0
"""Commands that the pools of the tests run: worker.py WHAT [ARGUMENT...]

Times are those of CLOCK_MONOTONIC, which all processes share. Files are
appended to by one write() each, so several workers may share one.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time

OUT = os.environ["OUT"]
WORK = os.environ["LEASEHOLD_WORK_ID"]


def note(name, *words):
    line = " ".join(str(word) for word in words) + "\n"
    fd = os.open(os.path.join(OUT, name),
                 os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, line.encode())
    os.close(fd)


def ask(**request):
    """The documented protocol: one JSON line in, one out."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ["LEASEHOLD_SOCKET"])
        s.sendall(json.dumps(request).encode() + b"\n")
        with s.makefile("rb") as f:
            return json.loads(f.readline())


def prior_number():
    path = os.environ.get("LEASEHOLD_STATE")
    if path is None:
        return 0
    with open(path) as f:
        return int(f.read())


def stubborn_family():
    """A child and a grandchild that ignore what can be ignored."""
    subprocess.Popen(["/bin/sh", "-c",
                      "trap '' TERM INT HUP QUIT; sleep 1000 & "
                      "while :; do wait; sleep 1; done"])


def ignore_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def count(pace, family=False):
    """Goes on counting from the prior state; `acks` has what was stored."""
    if family:
        ignore_signals()
        stubborn_family()
    number = prior_number()
    note("starts", time.monotonic(), WORK, os.environ["LEASEHOLD_HOLDER_ID"],
         os.environ["LEASEHOLD_PRIOR_EXIT"],
         os.environ["LEASEHOLD_PRIOR_HOLDER"] or "-", number)
    while True:
        number += 1
        got = ask(op="put", state=str(number))
        if got["ok"]:
            note("acks", time.monotonic(), WORK, number)
        else:
            note("refusals", time.monotonic(), WORK, got["exit_code"],
                 got["error"])
        time.sleep(pace)


def heartbeat(*how):
    """Writes the time, often; ends by SIGKILL only if `stubborn`."""
    if "stubborn" in how:
        ignore_signals()
        stubborn_family()
    note("starts", time.monotonic(), WORK, os.environ["LEASEHOLD_HOLDER_ID"],
         os.environ["LEASEHOLD_PRIOR_EXIT"],
         os.environ["LEASEHOLD_PRIOR_HOLDER"] or "-", os.getpid())
    fd = os.open(os.path.join(OUT, f"beats-{os.getpid()}"),
                 os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    next_put = 0
    while True:
        os.write(fd, f"{time.monotonic()}\n".encode())
        time.sleep(0.01)
        if "put" in how and time.monotonic() >= next_put:
            start = time.monotonic()
            got = subprocess.run(["leasehold", "checkpoint", "put"],
                                 input=b"beat", capture_output=True)
            note("puts", start, time.monotonic(), got.returncode)
            next_put = time.monotonic() + 0.2


def environment():
    """All variables and arguments as JSON."""
    with open(os.path.join(OUT, "seen.tmp"), "w") as f:
        seen = {"argv": sys.argv[2:], "environment": dict(os.environ)}
        path = os.environ.get("LEASEHOLD_STATE")
        if path is not None:
            with open(path, "rb") as state:
                seen["state"] = base64.b64encode(state.read()).decode()
            seen["state_mode"] = os.stat(path).st_mode & 0o777
        seen["socket_mode"] = (os.stat(os.environ["LEASEHOLD_SOCKET"]).st_mode
                               & 0o777)
        json.dump(seen, f)
    os.rename(os.path.join(OUT, "seen.tmp"), os.path.join(OUT, "seen"))


def main():
    what, *words = sys.argv[1:]
    if what == "count":
        count(float(words[0]), "family" in words)
    elif what == "heartbeat":
        heartbeat(*words)
    elif what == "environment":
        environment()
    else:
        sys.exit(f"worker.py: unknown: {what}")


main()
