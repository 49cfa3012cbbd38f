# SPDX-License-Identifier: Apache-2.0
"""The store does not answer for a while."""

import os
import signal
import subprocess
import sys

import worlds
from worlds import descendants, is_alive, now, wait_for

LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
db.execute("begin exclusive")
print("locked", flush=True)
sys.stdin.read()
"""


def server(command):
    subprocess.run([os.environ["LEASEHOLD_TEST_POSTGRES_SERVER"], command],
                   check=True, timeout=20, stdout=subprocess.DEVNULL)


class Outage(worlds.ProgramTest):
    stores = ("sqlite", "postgres")
    alone = True

    # -- the ways in which a store goes away ----------------------------------

    def silence(self):
        if worlds.STORE == "postgres":
            self.addCleanup(server, "thaw")
            server("freeze")
        else:
            self.lock = self.world.spawn(
                [sys.executable, "-c", LOCK, self.world.path("leases.db")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(self.lock.stdout.readline(), b"locked\n")

    def end_silence(self):
        if worlds.STORE == "postgres":
            server("thaw")
        else:
            self.lock.stdin.close()
            self.lock.wait(5)
            self.lock.stdout.close()

    # -- what the work went through -------------------------------------------

    def start(self, *how, **timing):
        config = self.world.config(
            command=self.worker("heartbeat", "put", *how), timeout="500ms",
            **timing)
        pool = self.world.pool(config, holder="a")
        pool.await_event("acquired")
        wait_for(lambda: len(self.puts()) >= 2, 10, "checkpoints")
        return pool

    def starts(self):
        return [line.split() for line in
                self.world.read("starts").decode().splitlines()]

    def beats(self, start):
        text = self.world.read("beats-" + start[5]).decode()
        return [float(x) for x in text.split("\n")[:-1]]

    def puts(self):
        return [(float(a), float(b), int(code)) for a, b, code in
                (line.split() for line in
                 self.world.read("puts").decode().splitlines())]

    def outlive(self, pool, begin, end):
        """The work went on as if nothing had been."""
        wait_for(lambda: [x for x in self.puts() if x[0] > end and x[2] == 0],
                 5, "a checkpoint after the outage")
        pool.await_event("store_up")
        self.assertEqual(len(self.starts()), 1)
        beats = self.beats(self.starts()[0])
        gap = max(b - a for a, b in zip(beats, beats[1:]))
        during = [x for x in self.puts() if begin < x[0] and x[1] < end]
        self.assertTrue(during)
        self.assertEqual({code for *_, code in during}, {69})
        self.measured("longest wait of a put",
                      max(b - a for a, b, _ in self.puts()), 2.0)
        self.measured("longest gap of the work", gap)
        self.assertEqual(pool.having("lost"), [])
        self.assertEqual(len(pool.having("acquired")), 1)
        self.assertEqual(len(pool.having("store_down")), 1, pool.told())
        self.assertEqual(len(pool.having("store_up")), 1, pool.told())
        self.assertEqual(pool.stop(), 0)
        self.assertEqual(self.world.show()["exit"], "abandoned")

    # -- tests ----------------------------------------------------------------

    def test_a_short_silence_harms_nothing(self):
        pool = self.start(ttl="8s", renew="1s")
        self.silence()
        begin = now()
        pool.await_event("store_down")
        # Half of the window.
        wait_for(lambda: now() > begin + 4, 5, "")
        end = now()
        self.end_silence()
        self.outlive(pool, begin, end)

    def test_a_long_silence_ends_the_work_in_time(self):
        ttl = 4.0
        pool = self.start("stubborn", ttl="4s", renew="1s")
        token = int(pool.having("acquired")[0]["token"])
        group = descendants(pool.pid)
        first = self.starts()[0]
        self.silence()
        begin = now()
        lost = pool.await_event("lost", limit=ttl + 1)
        self.assertEqual(lost["reason"], "lease_window_exhausted")
        leader = int(first[5])
        wait_for(lambda: not is_alive(leader), 1, "the worker is gone")
        members = [pid for pid in group if self.is_member(pid, leader)]
        self.assertEqual(members, [])
        last = self.beats(first)[-1]
        self.measured("last sign of life after the silence began",
                      last - begin, ttl)
        self.assertGreater(last - begin, ttl / 2)
        self.end_silence()
        took = pool.await_event("takeover", limit=10)
        self.measured("taken up again after the silence",
                      took["at"] - begin)
        self.assertEqual((took["prior"], took["prior_holder"]),
                         ("expired", "a"))
        self.assertGreater(int(took["token"]), token)
        wait_for(lambda: len(self.starts()) == 2, 5, "the second run")
        self.assertEqual(self.starts()[1][3], "expired")
        self.assertEqual(len(pool.having("store_down")), 1, pool.told())
        self.assertEqual(pool.stop(), 0)

    def test_term_in_a_silence(self):
        grace, cleanup = 2.0, 1.0
        pool = self.start(ttl="10s", renew="1s")
        self.silence()
        begin = now()
        pool.await_event("store_down")
        group = descendants(pool.pid)
        stopped = pool.send(signal.SIGTERM)
        self.assertEqual(pool.await_end(grace + cleanup + 1), 69, pool.told())
        self.measured("end after TERM", pool.ended - stopped,
                      grace + cleanup + 1)
        self.assertFalse([pid for pid in group if is_alive(pid)])
        # Whoever comes next has to wait, and is told how long.
        told = pool.having("release_failed")
        self.assertEqual(len(told), 1, pool.told())
        self.assertEqual(
            (told[0]["level"], told[0]["pool"], told[0]["work"],
             told[0]["token"]),
            ("warn", "p", "w", pool.having("acquired")[0]["token"]))
        self.assertRegex(told[0]["left"], r"^\d(\.\d)?s$")
        self.assertTrue(told[0]["detail"])
        self.assertEqual(pool.events[-1]["event"], "stopped")
        self.end_silence()
        # It could not be released and ends by itself, unless a frozen server
        # had the request already.
        row = self.world.show()
        self.assertLess(now() - begin, 10)
        self.assertIn(row["exit"], (None, "abandoned")
                      if worlds.STORE == "postgres" else (None,))

    def test_a_second_term_in_a_silence_names_the_lease_too(self):
        pool = self.start("stubborn", ttl="10s", renew="1s",
                          stop={"grace": "8s"})
        self.silence()
        pool.await_event("store_down")
        first = pool.send(signal.SIGTERM)
        pool.await_event("stopping")
        wait_for(lambda: now() > first + 1.5, 5, "a second")
        pool.send(signal.SIGTERM)
        self.assertEqual(pool.await_end(5), 1, pool.told())
        self.assertEqual(len(pool.having("release_failed", work="w")), 1,
                         pool.told())
        self.end_silence()

    def is_member(self, pid, group):
        try:
            return os.getpgid(pid) == group and is_alive(pid)
        except ProcessLookupError:
            return False


class Refusal(worlds.ProgramTest):
    """The store answers, but never with yes."""

    stores = ("sqlite", "postgres")

    def test_a_store_that_refuses_all_is_told_once(self):
        config = self.world.config(command=["true"], backoff="50ms",
                                   rerun="50ms")
        pool = self.world.pool(config, holder="a", args=["-v"])
        pool.await_event("released", exit="finished")
        table = self.world.table
        self.world.sql(f"alter table {table} rename to {table}_away")
        down = pool.await_event("store_down")
        self.assertEqual((down["level"], down["error"]),
                         ("error", "store_failed"))
        self.assertIn("run `leasehold schema apply -s", down["detail"])
        pool.await_event("backoff", count=10, token="-")
        self.assertEqual(
            {x["level"] for x in pool.having("backoff", token="-")}, {"debug"})
        self.assertEqual(len(pool.having("store_down")), 1, pool.told())
        # As soon as the table is there again, the work goes on.
        self.world.sql(f"alter table {table}_away rename to {table}")
        pool.await_event("store_up")
        pool.await_event("released", exit="finished",
                         count=len(pool.having("released")) + 1)
        self.assertEqual(pool.stop(), 0)

    def test_a_state_that_finds_no_room_is_no_outage(self):
        if worlds.STORE != "sqlite":
            self.skipTest("the disk is not ours")
        disk = self.world.path("disk")
        os.mkdir(disk)
        alone = ["unshare", "--mount"]
        mount = f"mount -t tmpfs -o size=1m tmpfs '{disk}'"
        if subprocess.run([*alone, "sh", "-c", mount],
                          capture_output=True).returncode != 0:
            self.skipTest("cannot mount a small disk")
        command = self.world.script("""
            while :; do
              head -c 2000000 /dev/zero | leasehold checkpoint put 2>>"$OUT/message"
              echo $? >>"$OUT/codes"
              # Until a renewal has gone through.
              sleep 0.4
            done""")
        config = self.world.config(
            command=[command], url=f"sqlite://{disk}/l.db", renew="200ms")
        pool = self.world.pool(
            config, holder="a",
            prefix=[*alone, "sh", "-c", mount + ' && exec "$@"', "sh"])
        wait_for(lambda: len(self.world.read("codes").split()) >= 5, 15,
                 pool.told)
        self.assertEqual(set(self.world.read("codes").split()), {b"69"})
        self.assertIn("full", pool.await_event("checkpoint_refused")["detail"])
        self.assertEqual(pool.having("store_down"), [], pool.told())
        self.assertEqual(pool.stop(), 0)


class Restart(Outage):
    stores = ("postgres",)

    test_a_long_silence_ends_the_work_in_time = None
    test_a_short_silence_harms_nothing = None
    test_term_in_a_silence = None
    test_a_second_term_in_a_silence_names_the_lease_too = None

    def test_a_restart_of_the_server_harms_nothing(self):
        pool = self.start(ttl="8s", renew="1s")
        stopped = now()
        server("stop")
        try:
            begin = now()
            pool.await_event("store_down")
            wait_for(lambda: now() > stopped + 2, 5, "")
            end = now()
        finally:
            server("start")
        self.outlive(pool, begin, end)
