# SPDX-License-Identifier: Apache-2.0
"""What the end of a command means, where its output goes, and how the program
lives in a terminal or without one."""

import fcntl
import os
import struct
import subprocess
import termios

import worlds
from worlds import descendants, is_alive, wait_for

FAST = {"rerun": "300ms", "backoff": "400ms"}


class Outcomes(worlds.ProgramTest):
    def pool_of(self, text, **more):
        return self.world.pool(
            self.world.config(command=[self.world.script(text)],
                              **{**FAST, **more}), holder="a")

    def test_retired_work_ends_the_pool(self):
        pool = self.pool_of(
            'echo x >>"$OUT/runs-$LEASEHOLD_WORK_ID"; exit 10',
            work=["one", "two"], run={"exit-codes": {"retired": [10]}})
        self.assertEqual(pool.await_end(), 0)
        for work in "one", "two":
            self.assertEqual(len(pool.having("retired", work=work)), 1)
            row = self.world.show(work)
            self.assertEqual((row["state"], row["exit"]),
                             ("retired", "retired"))
        pool.await_event("pool_ended", retired="2", dead="0")
        # Nobody runs it again, a new process neither.
        again = self.pool_of(
            'echo x >>"$OUT/runs-$LEASEHOLD_WORK_ID"; exit 10',
            work=["one", "two"], run={"exit-codes": {"retired": [10]}})
        self.assertEqual(again.await_end(), 0)
        self.assertEqual(self.world.read("runs-one"), b"x\n")

    def test_permanent_failures_end_the_pool_in_failure(self):
        pool = self.pool_of("exit 11", work=["one", "two"],
                            run={"exit-codes": {"permanent": [11]}})
        self.assertEqual(pool.await_end(), 1)
        dead = pool.having("dead")
        self.assertEqual(sorted(x["work"] for x in dead), ["one", "two"])
        self.assertIn("exited with 11", dead[0]["detail"])
        pool.await_event("pool_failed")
        self.assertEqual(self.world.show("one")["exit"], "abandoned")

    def test_one_of_two_dead_is_no_failure_of_the_pool(self):
        pool = self.pool_of(
            '[ "$LEASEHOLD_WORK_ID" = one ] && exit 10; exit 11',
            work=["one", "two"],
            run={"exit-codes": {"retired": [10], "permanent": [11]}})
        self.assertEqual(pool.await_end(), 0)
        pool.await_event("pool_ended", retired="1", dead="1")

    def test_failures_pause_and_success_runs_again(self):
        pool = self.pool_of(
            'if [ "$LEASEHOLD_WORK_ID" = bad ]; then exit 3; fi',
            work=["bad", "good"])
        backoff = pool.await_event("backoff", count=3, work="bad")
        self.assertEqual((backoff["reason"], backoff["detail"]),
                         ("work_failed", "the command exited with 3"))
        self.assertEqual(backoff["again_in"], "400ms")
        pool.await_event("released", count=3, work="good", exit="finished")
        for event, work, pause in (("backoff", "bad", 0.4),
                                   ("released", "good", 0.3)):
            ends = [x["at"] for x in pool.having(event, work=work)]
            starts = [x["at"] for x in pool.having("acquired", work=work)]
            for end, start in zip(ends, starts[1:]):
                self.assertGreaterEqual(start - end, pause - 0.05)
                self.assertLess(start - end, pause * 1.2 + worlds.SLACK)
        self.assertEqual(pool.having("released", work="bad")[0]["exit"],
                         "abandoned")
        self.assertEqual(pool.stop(), 0)

    def test_a_signal_is_named(self):
        pool = self.pool_of("kill -SEGV $$")
        detail = pool.await_event("backoff")["detail"]
        self.assertRegex(detail, r"signal 11 \(Segmentation fault\)")
        self.assertEqual(pool.stop(), 0)

    def test_a_command_that_goes_away(self):
        path = self.world.script("exit 0", "gone.sh")
        pool = self.world.pool(
            self.world.config(command=[path], **FAST), holder="a")
        pool.await_event("released", exit="finished")
        os.unlink(path)
        backoff = pool.await_event("backoff")
        self.assertIn(path, backoff["detail"])
        self.assertIn("No such file or directory", backoff["detail"])
        self.world.write("gone.sh", "not executable")
        wait_for(lambda: any("Permission denied" in x["detail"]
                             for x in pool.having("backoff")), 5, pool.told)
        # It is not given up: once it is back, the work goes on.
        done = len(pool.having("released", exit="finished"))
        self.world.script("exit 0", "gone.sh")
        pool.await_event("released", exit="finished", count=done + 1)
        self.assertEqual(pool.stop(), 0)

    def test_max_held(self):
        def start(holder, most):
            pool = self.world.pool(self.world.config(
                command=[self.world.script("exec sleep 1000")],
                work=[f"w{i}" for i in range(6)], pool={"max-held": most}),
                holder=holder)
            pool.await_event("acquired", count=most)
            return pool

        pool = start("a", 2)
        other = start("b", 3)
        held = [x["holder_id"] for x in
                self.world.run("list", "-o", "json").json()["leases"]]
        self.assertEqual(sorted(held), ["a", "a", "b", "b", "b"])
        self.assertEqual(pool.stop(), 0)
        # b was full and stays so.
        self.assertEqual(other.stop(), 0)
        self.assertEqual(len(other.having("acquired")), 3)


class Output(worlds.ProgramTest):
    TEXT = 'echo "out $LEASEHOLD_WORK_ID"; printf "err" >&2; exit 10'

    def run_pool(self, output):
        config = self.world.config(
            command=[self.world.script(self.TEXT)], work=["one", "two"],
            run={"output": output, "exit-codes": {"retired": [10]}})
        pool = self.world.pool(config, holder="a")
        self.assertEqual(pool.await_end(), 0)
        return pool

    def test_prefix(self):
        pool = self.run_pool("prefix")
        self.assertEqual(sorted(line for _, line in pool.lines),
                         ["p/one | err", "p/one | out one",
                          "p/two | err", "p/two | out two"])
        self.assertEqual(pool.other, [])

    def test_inherit(self):
        pool = self.run_pool("inherit")
        self.assertEqual(sorted(line for _, line in pool.lines),
                         ["out one", "out two"])
        self.assertIn("err", "".join(pool.other))

    def test_file(self):
        pool = self.run_pool({"file": "log-{work}"})
        self.assertEqual(pool.lines, [])
        self.assertEqual(self.world.read("log-two"), b"out two\nerr")
        self.assertEqual(self.world.read("log-one"), b"out one\nerr")
        self.assertEqual(os.stat(self.world.path("log-one")).st_mode & 0o777,
                         0o640 & ~self.umask())

    def umask(self):
        value = os.umask(0)
        os.umask(value)
        return value

    def test_discard(self):
        pool = self.run_pool("discard")
        self.assertEqual((pool.lines, pool.other), ([], []))


class Terminal(worlds.ProgramTest):
    """A real terminal, and none of the standard streams."""

    def start(self, config):
        master, slave = os.openpty()
        self.open = {master}
        self.addCleanup(self.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        # As a shell does: its own session, with this terminal to control it.
        process = self.world.spawn(
            ["setsid", "--ctty", worlds.PROGRAM, "pool", "-c", config,
             "--holder", "a"],
            stdin=slave, stdout=slave, stderr=slave,
            env=self.world.environment({}))
        os.close(slave)
        os.set_blocking(master, False)
        self.text = ""
        return process, master

    def close(self, master):
        if master in self.open:
            self.open.remove(master)
            os.close(master)

    def heard(self, master):
        try:
            self.text += os.read(master, 65536).decode()
        except (BlockingIOError, OSError):
            pass
        return self.text

    def test_ctrl_c_stops_it_in_good_order(self):
        config = self.world.config(
            command=[self.world.script(
                "trap 'echo stopped by TERM; exit 1' TERM\n"
                "trap 'echo stopped by INT; exit 1' INT\n"
                "echo at work; while :; do sleep 0.02; done")])
        process, master = self.start(config)
        wait_for(lambda: "p/w | at work" in self.heard(master), 5,
                 lambda: self.text)
        below = descendants(process.pid)
        os.write(master, b"\x03")
        wait_for(lambda: self.heard(master) is not None
                 and process.poll() is not None, 5, lambda: self.text)
        self.heard(master)
        self.assertEqual(process.returncode, 0, self.text)
        self.assertFalse([pid for pid in below if is_alive(pid)])
        # The signal of the terminal is for us; the command gets its own.
        self.assertIn("p/w | stopped by TERM", self.text)
        self.assertNotIn("stopped by INT", self.text)
        lines = [line for line in self.text.splitlines() if " | " not in line]
        for line in lines:
            if line not in ("^C", ""):
                self.assertRegex(line.removeprefix("^C"),
                                 r"^\d\d:\d\d:\d\d (info |warn |error) \w+")
        self.assertRegex(self.text, r"stopping signal=INT\r\n")
        self.assertRegex(self.text, r"released pool=p work=w .*exit=abandoned")
        self.assertEqual(self.world.show()["exit"], "abandoned")

    def test_a_terminal_that_goes_away(self):
        config = self.world.config(command=self.worker("heartbeat"))
        process, master = self.start(config)
        wait_for(lambda: self.world.read("starts"), 5, "the worker")
        below = descendants(process.pid)
        self.close(master)
        # HUP is for files, not for terminals: it goes on, and can be stopped.
        beats = self.world.path("beats-"
                                + self.world.read("starts").split()[5].decode())
        size = os.stat(beats).st_size
        wait_for(lambda: os.stat(beats).st_size > size + 200, 5,
                 "the work goes on")
        process.terminate()
        self.assertEqual(process.wait(5), 0)
        self.assertFalse([pid for pid in below if is_alive(pid)])
        self.assertEqual(self.world.show()["exit"], "abandoned")

    def without_streams(self, redirection):
        config = self.world.config(
            command=[self.world.script(
                'echo chatter; echo chatter >&2\n'
                'echo state | leasehold checkpoint put\n'
                'echo $? >"$OUT/code"\nexec sleep 1000')])
        process = self.world.spawn(
            ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}',
             worlds.PROGRAM, "pool", "-c", config, "-v"],
            env=self.world.environment({}))
        wait_for(lambda: self.world.read("code"), 5,
                 "the command under a lease")
        self.assertEqual(self.world.read("code"), b"0\n")
        wait_for(lambda: self.world.show()["state_bytes"] == 6, 2, "its state")
        below = descendants(process.pid)
        process.terminate()
        self.assertEqual(process.wait(5), 0)
        self.assertFalse([pid for pid in below if is_alive(pid)])
        self.assertEqual(self.world.show()["exit"], "abandoned")
        self.assertEqual(self.world.run("schema", "check").code, 0)


class NoStreams(Terminal):
    stores = ("sqlite", "postgres")

    test_ctrl_c_stops_it_in_good_order = None
    test_a_terminal_that_goes_away = None

    def test_closed_streams(self):
        self.without_streams("<&- >&- 2>&-")

    def test_full_streams(self):
        self.without_streams("</dev/null >/dev/full 2>/dev/full")

    def test_a_reader_that_left(self):
        config = self.world.config(
            command=[self.world.script(
                'for i in 1 2 3 4; do echo chatter; done\n'
                'echo state | leasehold checkpoint put\n'
                'echo $? >"$OUT/code"\nexec sleep 1000')])
        ends = [os.pipe(), os.pipe()]
        process = self.world.spawn(
            [worlds.PROGRAM, "pool", "-c", config, "-v"],
            stdin=subprocess.DEVNULL, stdout=ends[0][1], stderr=ends[1][1],
            env=self.world.environment({}))
        for end in ends:
            os.close(end[0])
            os.close(end[1])
        wait_for(lambda: self.world.read("code"), 5, "a command at work")
        process.terminate()
        self.assertEqual(process.wait(5), 0)
        self.assertEqual(self.world.show()["exit"], "abandoned")

    def test_a_reader_that_stands_still_costs_no_lease(self):
        config = self.world.config(
            command=self.worker("heartbeat", "put"), ttl="3s", renew="200ms")
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        os.write(write, b"x" * fcntl.fcntl(write, fcntl.F_GETPIPE_SZ))
        process = self.world.spawn(
            [worlds.PROGRAM, "pool", "-c", config, "-v"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=write,
            env=self.world.environment({}))
        os.close(write)
        wait_for(lambda: self.world.read("starts"), 5, "the worker")
        wait_for(lambda: len(self.world.read("puts").splitlines()) >= 15, 15,
                 "checkpoints for longer than the window")
        self.assertEqual({x.split()[2] for x in
                          self.world.read("puts").splitlines()}, {b"0"})
        self.assertEqual(len(self.world.read("starts").splitlines()), 1)
        process.terminate()
        self.assertEqual(process.wait(5), 0)
