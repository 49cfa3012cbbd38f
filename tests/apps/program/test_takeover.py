# SPDX-License-Identifier: Apache-2.0
"""One process ends, another one goes on: after a crash, after a stop, and
after the lease was given to somebody else."""

import contextlib
import os
import signal

import worlds
from worlds import SLACK, descendants, is_alive, now, wait_for

TTL = 2.0
IDLE = 0.3
POLL = IDLE * 1.2  # with its jitter
GRACE = 2.0
CLEANUP = 1.0


class Crash(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def test_kill_9_and_the_next_one_goes_on(self):
        rounds = 3
        config = self.world.config(
            command=self.worker("count", "0.05", "family"),
            ttl="2s", renew="500ms")
        holders = ["a", "b"] * rounds
        pools = [self.world.pool(config, holder=holders[0])]
        pools[0].await_event("acquired")
        for i in range(rounds):
            victim = pools[-1]
            heir = self.world.pool(config, holder=holders[i + 1] + str(i))
            heir.await_event("starting")
            seen = len(self.acknowledged())
            wait_for(lambda: len(self.acknowledged()) >= seen + 10, 10,
                     "the work makes progress")
            below = descendants(victim.pid)
            # The guard, the worker, and what that has started.
            self.assertGreaterEqual(len(below), 4)
            killed = victim.kill()
            victim.await_end()
            wait_for(lambda: not any(is_alive(pid) for pid in below), 1.0,
                     lambda: f"alive: {[p for p in below if is_alive(p)]}")
            self.measured(f"round {i}: all processes dead", now() - killed,
                          1.0)
            last = self.acknowledged()[-1][2]
            row = self.world.show()
            took = heir.await_event("takeover", limit=TTL + POLL + 1.0)
            self.measured(f"round {i}: takeover", took["at"] - killed,
                          TTL + POLL + 1.0)
            self.assertEqual(took["prior"], "expired")
            self.assertEqual(took["prior_holder"], victim.holder)
            self.assertEqual(row["holder_id"], victim.holder)
            start = wait_for(lambda: self.starts(heir.holder), 5,
                             "the heir's worker starts")[-1]
            self.assertEqual(start[3:5], ["expired", victim.holder])
            # What was stored is there; one more may have been on its way.
            self.assertGreater(last, 0)
            self.assertIn(int(start[5]), (last, last + 1))
            pools.append(heir)
        self.assertEqual(pools[-1].stop(), 0)

    def starts(self, holder):
        return [words for words in
                (line.split() for line in
                 self.world.read("starts").decode().splitlines())
                if words[2] == holder]

    def test_a_frozen_process_loses_its_work_in_time(self):
        config = self.world.config(command=self.worker("heartbeat", "stubborn"),
                                   ttl="2s", renew="500ms")
        first = self.world.pool(config, holder="first")
        first.await_event("acquired")
        second = self.world.pool(config, holder="second")
        second.await_event("starting")
        wait_for(lambda: self.world.read("starts"), 5, "the worker starts")
        pid = int(self.world.read("starts").split()[5])
        frozen = first.send(signal.SIGSTOP)
        took = second.await_event("takeover", limit=TTL + POLL + 1)
        self.measured("takeover from a frozen process", took["at"] - frozen,
                      TTL + POLL + 1)
        self.assertEqual(took["prior_holder"], "first")
        last = float(self.world.read(f"beats-{pid}").split()[-1])
        self.measured("last sign of life of its work", last - frozen, TTL)
        # Never two at a time.
        self.assertLess(last, took["at"])
        self.assertFalse(is_alive(pid))
        thawed = first.send(signal.SIGCONT)
        lost = first.await_event("lost", limit=2)
        self.measured("noticed after the thaw", lost["at"] - thawed)
        self.assertIn(lost["reason"], ("lease_window_exhausted", "fenced"))
        self.assertEqual(first.stop(), 0)
        self.assertEqual(second.stop(), 0)

    def test_without_its_guard_it_goes_on_and_says_so(self):
        config = self.world.config(command=self.worker("count", "0.05"))
        pool = self.world.pool(config, holder="a")
        wait_for(lambda: len(self.acknowledged()) >= 2, 10, pool.told)
        os.kill(guard_of(pool), signal.SIGKILL)
        self.assertEqual(pool.await_event("guard_lost")["level"], "error")
        seen = len(self.acknowledged())
        wait_for(lambda: len(self.acknowledged()) >= seen + 5, 5, pool.told)
        below = descendants(pool.pid)
        self.assertEqual(pool.stop(), 0)
        self.assertFalse([pid for pid in below if is_alive(pid)])
        self.assertEqual(self.world.show()["exit"], "abandoned")


def guard_of(pool):
    for pid in descendants(pool.pid):
        # Commands come and go.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == "leasehold-guard":
                    return pid
    raise AssertionError("there is no guard")


class Stop(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def two_pools(self, command, **more):
        config = self.world.config(command=command, ttl="5s", renew="1s",
                                   **more)
        first = self.world.pool(config, holder="first")
        first.await_event("acquired")
        second = self.world.pool(config, holder="second")
        second.await_event("starting")
        return first, second

    def test_term_hands_the_work_over(self):
        first, second = self.two_pools(self.worker("count", "0.05"))
        wait_for(lambda: len(self.acknowledged()) >= 5, 10, "progress")
        below = descendants(first.pid)
        stopped = first.send(signal.SIGTERM)
        code = first.await_end(GRACE + CLEANUP + 1)
        self.measured("end after TERM", first.ended - stopped,
                      GRACE + CLEANUP + 1)
        self.assertEqual(code, 0, first.told())
        self.assertFalse([pid for pid in below if is_alive(pid)])
        released = first.having("released", work="w")
        self.assertEqual([x["exit"] for x in released], ["abandoned"])
        got = second.await_event("acquired", limit=POLL + SLACK)
        self.measured("handed over", got["at"] - released[0]["at"],
                      POLL + SLACK)
        self.assertEqual((got["prior"], got["prior_holder"]),
                         ("abandoned", "first"))
        starts = wait_for(
            lambda: [line for line in
                     self.world.read("starts").decode().splitlines()
                     if " second " in line], 5, "the second worker")
        mine = [n for at, _, n in self.acknowledged() if at < first.ended]
        self.assertIn(int(starts[0].split()[-1]), (mine[-1], mine[-1] + 1))
        self.assertEqual(second.stop(), 0)
        row = self.world.show()
        self.assertEqual((row["state"], row["exit"], row["last_holder_id"]),
                         ("free", "abandoned", "second"))
        self.assertEqual(row["previous_holder_id"], "first")
        self.assertEqual(row["previous_exit"], "abandoned")
        self.assertGreaterEqual(row["state_bytes"], 1)

    def test_a_command_that_ignores_term_is_killed_after_the_grace(self):
        config = self.world.config(command=self.worker("heartbeat", "stubborn"),
                                   ttl="20s", stop={"grace": "1s"})
        pool = self.world.pool(config, holder="a")
        pool.await_event("acquired")
        wait_for(lambda: self.world.read("starts"), 5, "the worker starts")
        below = descendants(pool.pid)
        stopped = pool.send(signal.SIGTERM)
        self.assertEqual(pool.await_end(1 + CLEANUP + 1), 0)
        self.measured("end of a stubborn command", pool.ended - stopped,
                      1 + CLEANUP + 1)
        last = self.beats()[-1]
        self.measured("its last sign of life", last - stopped, 1 + SLACK)
        self.assertGreaterEqual(last - stopped, 0.9)
        self.assertFalse([pid for pid in below if is_alive(pid)])
        self.assertEqual(self.world.show()["exit"], "abandoned")

    def beats(self):
        pid = self.world.read("starts").split()[-1].decode()
        return [float(x) for x in
                self.world.read("beats-" + pid).decode().split("\n")[:-1]]

    def test_a_second_term_ends_at_once(self):
        config = self.world.config(command=self.worker("heartbeat", "stubborn"),
                                   ttl="60s", stop={"grace": "30s"})
        pool = self.world.pool(config, holder="a")
        pool.await_event("acquired")
        wait_for(lambda: self.world.read("starts"), 5, "the worker starts")
        below = descendants(pool.pid)
        first = pool.send(signal.SIGTERM)
        pool.await_event("stopping", signal="TERM")
        # Sooner it would be a repetition of the first.
        wait_for(lambda: now() > first + 1.5, 5, "a second")
        again = pool.send(signal.SIGTERM)
        self.assertEqual(pool.await_end(5), 1)
        self.measured("end after a second TERM", pool.ended - again, 1.0)
        pool.await_event("stopping_now", signal="TERM")
        self.assertFalse([pid for pid in below if is_alive(pid)])
        # Confirmed, so it can still be released.
        self.assertEqual(self.world.show()["exit"], "abandoned")

    def test_a_stop_that_is_sent_twice_is_one(self):
        """As GNU timeout does it: to its child, and at once to the group."""
        command = self.world.script(
            "trap 'touch \"$OUT/in order\"; exit 0' TERM\n"
            'touch "$OUT/ready"; while :; do sleep 0.3; done')
        pool = self.world.pool(
            self.world.config(command=[command], ttl="60s"), holder="a",
            args=["-v"])
        wait_for(lambda: os.path.exists(self.world.path("ready")), 5,
                 pool.told)
        # Of two numbers, so that both arrive.
        pool.send(signal.SIGTERM)
        pool.send(signal.SIGINT)
        self.assertEqual(pool.await_end(), 0, pool.told())
        self.assertEqual(len(pool.having("stopping")), 2)
        self.assertEqual(len(pool.having("stopping", repeated="yes")), 1)
        self.assertTrue(os.path.exists(self.world.path("in order")))
        self.assertEqual(self.world.show()["exit"], "finished")

    def test_signals_of_other_programs_are_no_reason_to_end(self):
        pool = self.world.pool(
            self.world.config(command=self.worker("heartbeat")), holder="a")
        wait_for(lambda: self.world.read("starts"), 5, "the worker starts")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
                       signal.SIGPOLL, signal.SIGPWR):
            pool.send(number)
            # Python calls it IO, the C library POLL.
            name = number.name.removeprefix("SIG").replace("IO", "POLL")
            pool.await_event("signal_ignored", signal=name)
        self.assertEqual(pool.stop(), 0)
        self.assertEqual(len(pool.having("acquired")), 1)

    def test_hup_is_no_reason_to_end(self):
        config = self.world.config(command=self.worker("count", "0.05"))
        pool = self.world.pool(config, holder="a")
        pool.await_event("acquired")
        pool.send(signal.SIGHUP)
        pool.await_event("reload_ignored")
        seen = len(self.acknowledged())
        wait_for(lambda: len(self.acknowledged()) >= seen + 3, 5, pool.told)
        self.assertEqual(pool.send(signal.SIGINT) and pool.await_end(), 0)
        pool.await_event("stopping", signal="INT")

    def last_words(self, code):
        command = self.world.script(f"""
            trap 'echo last words | leasehold checkpoint put; exit {code}' TERM
            echo $LEASEHOLD_PRIOR_EXIT >>"$OUT/priors"
            [ -z "$LEASEHOLD_STATE" ] || cp "$LEASEHOLD_STATE" "$OUT/found"
            echo first words | leasehold checkpoint put
            touch "$OUT/ready"
            while :; do sleep 0.02; done
            """)
        first, second = self.two_pools([command])
        wait_for(lambda: self.world.read("priors"), 5, "the first command")
        wait_for(lambda: self.world.show()["state_bytes"], 5, "its state")
        self.assertEqual(first.stop(GRACE + CLEANUP + 1), 0)
        second.await_event("acquired", limit=POLL + SLACK)
        wait_for(lambda: self.world.read("found"), 5, "the second command")
        self.assertEqual(self.world.read("found"), b"last words\n")
        self.assertEqual(second.stop(), 0)
        return self.world.read("priors").decode().split()

    def test_a_last_checkpoint_is_kept(self):
        self.assertEqual(self.last_words(3), ["none", "abandoned"])

    def test_success_after_term_is_finished(self):
        self.assertEqual(self.last_words(0), ["none", "finished"])


class Fenced(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def test_a_broken_lease_ends_the_work(self):
        ttl = 4.0
        config = self.world.config(
            command=self.worker("heartbeat", "stubborn", "put"),
            ttl="4s", renew="1s", stop={"grace": "30s"})
        pool = self.world.pool(config, holder="a")
        token = int(pool.await_event("acquired")["token"])
        wait_for(lambda: len(self.puts()) >= 3, 10, "checkpoints")
        self.assertEqual({code for *_, code in self.puts()}, {0})
        below = descendants(pool.pid)
        self.world.steal()
        stolen = now()
        row = self.world.show()
        lost = pool.await_event("lost", limit=2, work="w")
        self.measured("noticed", lost["at"] - stolen)
        self.assertEqual(lost["reason"], "fenced")
        self.assertEqual(int(lost["token"]), token)
        group = below - {guard_of(pool)}
        wait_for(lambda: not any(is_alive(pid) for pid in group), ttl,
                 "the whole group is gone")
        # The last thing that extended the window came before the theft.
        self.measured("whole group gone", now() - stolen, ttl)
        late = [code for start, _, code in self.puts() if start > stolen]
        self.assertTrue(late)
        self.assertEqual(set(late), {79})
        self.assertEqual(
            {k: v for k, v in self.world.show().items() if k != "left_seconds"},
            {k: v for k, v in row.items() if k != "left_seconds"})
        self.assertEqual(row["holder_id"], "thief")
        self.assertEqual(len(pool.having("acquired")), 1)
        self.assertEqual(pool.stop(), 0)

    def puts(self):
        return [(float(a), float(b), int(code)) for a, b, code in
                (line.split() for line in
                 self.world.read("puts").decode().splitlines())]
