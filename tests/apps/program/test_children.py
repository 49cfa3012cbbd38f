# SPDX-License-Identifier: Apache-2.0
"""What a command finds when it is started, and what it can store."""

import base64
import json
import os
import signal
import socket
import threading

import worlds
from worlds import wait_for

ALL_BYTES = bytes(range(256)) * 2 + b"\n\n"


class Environment(worlds.ProgramTest):
    def seen(self, config, work="une œuvre", **more):
        pool = self.world.pool(config, holder="node-a", **more)
        wait_for(lambda: self.world.read("seen"), 10, pool.told)
        wait_for(lambda: self.world.show(work)["exit"] == "finished", 5,
                 pool.told)
        self.assertEqual(pool.stop(), 0)
        seen = json.loads(self.world.read("seen"))
        os.remove(self.world.path("seen"))
        return pool, seen

    def config(self, **more):
        return self.world.config(
            command=self.worker("environment", "{work}", "a {work} b {work}"),
            work=["une œuvre"], rerun="1h", **more)

    def test_a_first_run(self):
        pool, seen = self.seen(
            self.config(run={"environment": {"MINE": "of {work}"}}),
            env={"LEASEHOLD_STORE": self.world.url, "THEIRS": "in tact ",
                 "LEASEHOLD_WORK_ID": "outer", "LEASEHOLD_TOKEN": "forged",
                 "LEASEHOLD_STATE": "/outer",
                 "LEASEHOLD_SOCKET": "/outer", "LEASEHOLD_PRIOR_EXIT": "outer"})
        token = pool.having("acquired")[0]["token"]
        found = seen["environment"]
        self.assertEqual(seen["argv"],
                         ["une œuvre", "a une œuvre b une œuvre"])
        for name, value in {"WORK_ID": "une œuvre", "HOLDER_ID": "node-a",
                            "TOKEN": token, "PRIOR_EXIT": "none",
                            "PRIOR_HOLDER": ""}.items():
            self.assertEqual(found.get("LEASEHOLD_" + name), value, name)
        self.assertNotIn("LEASEHOLD_STATE", found)
        self.assertNotIn("LEASEHOLD_STORE", found)
        self.assertTrue(found["LEASEHOLD_SOCKET"].startswith(
            self.world.folder + "/"))
        self.assertEqual(seen["socket_mode"], 0o600)
        self.assertEqual(found["MINE"], "of une œuvre")
        self.assertEqual(found["THEIRS"], "in tact ")
        self.assertEqual(found["PATH"],
                         self.world.environment({})["PATH"])
        left = [x for x in os.listdir(self.world.folder)
                if x.startswith("leasehold-")]
        self.assertEqual(left, [], "the runtime folder is gone")

    def test_a_second_run_finds_the_state(self):
        self.seen(self.config())
        self.world.sql(
            f"update {self.world.table} set checkpoint = x'00ff0a'")
        _, seen = self.seen(self.config())
        self.assertEqual(base64.b64decode(seen["state"]), b"\0\xff\n")
        self.assertEqual(seen["state_mode"], 0o600)
        self.assertEqual(seen["environment"]["LEASEHOLD_PRIOR_EXIT"],
                         "finished")
        self.assertEqual(seen["environment"]["LEASEHOLD_PRIOR_HOLDER"],
                         "node-a")

    def test_in_nested_runs_the_inner_lease_wins(self):
        inner = self.world.config(
            command=self.worker("environment"), work=["inner"], rerun="1h")
        outer = self.world.config(
            command=[worlds.PROGRAM, "pool", "-c", inner, "--holder",
                     "inner-holder"],
            work=["outer"])
        _, seen = self.seen(outer, work="inner")
        self.assertEqual(seen["environment"]["LEASEHOLD_WORK_ID"], "inner")
        self.assertEqual(seen["environment"]["LEASEHOLD_HOLDER_ID"],
                         "inner-holder")
        # The inner runner was stopped in good order, and so it succeeded.
        self.assertEqual(self.world.show("outer")["exit"], "finished")


class Checkpoints(worlds.ProgramTest):
    def run_script(self, text, limit=15, **more):
        """Runs it once, to its end, under a lease."""
        config = self.world.config(
            command=[self.world.script(text + '\ntouch "$OUT/done"\n')],
            ttl="10s", rerun="1h", **more)
        pool = self.world.pool(config, holder="a")
        wait_for(lambda: os.path.exists(self.world.path("done")), limit,
                 pool.told)
        pool.await_event("released", exit="finished")
        return pool

    def test_put_and_get_round_trip(self):
        with open(self.world.path("bytes"), "wb") as f:
            f.write(ALL_BYTES)
        with open(self.world.path("million"), "wb") as f:
            f.write(os.urandom(1024 * 1024))
        self.run_script("""
            cd "$OUT"
            leasehold checkpoint get >before; echo $? >>codes
            leasehold checkpoint put <bytes; echo $? >>codes
            leasehold checkpoint get >bytes.back; echo $? >>codes
            leasehold checkpoint put <million; echo $? >>codes
            leasehold checkpoint get >million.back; echo $? >>codes
            leasehold checkpoint put --empty </dev/null; echo $? >>codes
            leasehold checkpoint get >empty.back; echo $? >>codes
            leasehold checkpoint put <bytes; echo $? >>codes
            leasehold checkpoint window >window; echo $? >>codes
            """)
        # Before the first checkpoint, and after an empty one, there is none.
        codes = self.world.read("codes").decode().split()
        self.assertEqual(codes[:6], ["1", "0", "0", "0", "0", "0"])
        self.assertIn(codes[6], ("0", "1"))
        self.assertEqual(codes[7:], ["0", "0"])
        self.assertEqual(self.world.read("before"), b"")
        self.assertEqual(self.world.read("bytes.back"), ALL_BYTES)
        self.assertEqual(self.world.read("million.back"),
                         self.world.read("million"))
        self.assertEqual(self.world.read("empty.back"), b"")
        left = float(self.world.read("window"))
        self.assertTrue(5 < left <= 10, left)
        row = self.world.show()
        self.assertEqual(base64.b64decode(row["state_base64"]), ALL_BYTES)

    def test_a_state_that_is_too_large(self):
        pool = self.run_script("""
            cd "$OUT"
            echo kept | leasehold checkpoint put
            head -c 17825792 /dev/zero >big
            leasehold checkpoint put <big 2>message; echo $? >>codes
            head -c 1048577 /dev/zero |
              leasehold checkpoint put 2>message2; echo $? >>codes
            leasehold checkpoint get >after; echo $? >>codes
            leasehold checkpoint window; echo $? >>codes
            """, pool={"checkpoint": {"max-size": "1MiB"}})
        self.assertEqual(self.world.read("codes").decode().split(),
                         ["65", "65", "0", "0"])
        for name in "message", "message2":
            text = self.world.read(name).decode()
            self.assertIn("leasehold: checkpoint: the state ", text)
            self.assertIn("limit", text)
            self.assertIn("1048576", text)
        self.assertEqual(self.world.read("after"), b"kept\n")
        self.assertEqual(pool.having("lost"), [])

    def test_a_state_as_large_as_the_pool_allows(self):
        self.run_script("""
            cd "$OUT"
            head -c 17825792 /dev/zero | leasehold checkpoint put 2>message
            echo $? >>codes
            leasehold checkpoint get | wc -c >>codes
            """, pool={"checkpoint": {"max-size": "18MiB"}}, timeout="4s")
        self.assertEqual(self.world.read("codes").decode().split(),
                         ["0", "17825792"], self.world.read("message"))

    def test_without_a_runner(self):
        for command in "put", "get", "window":
            got = self.world.run("checkpoint", command)
            self.assertEqual((got.code, got.out), (64, ""))
            self.assertIn("LEASEHOLD_SOCKET is not set", got.err)
            self.assertIn("`leasehold pool`", got.err)
            # The socket of a run that is over.
            got = self.world.run("checkpoint", command,
                                 env={"LEASEHOLD_SOCKET": "/no/such/socket"})
            self.assertEqual((got.code, got.out), (79, ""))
            self.assertIn("this run is over", got.err)
            self.assertIn("/no/such/socket", got.err)
            self.assertIn("No such file", got.err)
            got = self.world.run("checkpoint", command, "--timeout", "5")
            self.assertEqual((got.code, got.out), (64, ""))
            self.assertIn("--timeout 5: expected a duration", got.err)

    def test_what_is_no_state_leaves_the_stored_one_alone(self):
        pool = self.run_script("""
            cd "$OUT"
            echo kept | leasehold checkpoint put
            try() { "$@" 2>>message; echo $? >>codes; }
            try leasehold checkpoint put </tmp
            try leasehold checkpoint put 0</proc/self/mem
            try leasehold checkpoint put <&-
            (exit 1) | try leasehold checkpoint put
            try leasehold checkpoint put </dev/null
            try leasehold checkpoint put --empty </tmp
            try leasehold checkpoint put </dev/zero
            try leasehold checkpoint get >&-
            try leasehold checkpoint window >&-
            leasehold checkpoint get >after
            """)
        self.assertEqual(
            self.world.read("codes").decode().split(),
            ["74", "74", "74", "65", "65", "74", "65", "74", "74"])
        self.assertEqual(self.world.read("after"), b"kept\n")
        lines = self.world.read("message").decode().splitlines()
        for line, text in zip(lines, [
                "read: Is a directory", "read: Input/output error",
                "read: Bad file descriptor", "input is empty",
                "put --empty", "read: Is a directory",
                "larger than 16777216 bytes", "output: Bad file descriptor",
                "output: Bad file descriptor"], strict=True):
            self.assertIn(text, line)
        self.assertEqual(pool.having("lost"), [])

    def test_a_runner_that_stands_still_is_not_waited_for(self):
        config = self.world.config(
            command=[self.world.script(
                'env >"$OUT/env.tmp"; mv "$OUT/env.tmp" "$OUT/env"; '
                'exec sleep 1000')], ttl="60s")
        pool = self.world.pool(config, holder="a")
        text = wait_for(lambda: self.world.read("env"), 5, pool.told).decode()
        path = next(line for line in text.splitlines()
                    if line.startswith("LEASEHOLD_SOCKET=")).split("=")[1]
        pool.send(signal.SIGSTOP)
        for command in "put", "get", "window":
            got = self.world.run("checkpoint", command, "--timeout", "300ms",
                                 stdin=b"x", env={"LEASEHOLD_SOCKET": path})
            self.assertEqual((got.code, got.out), (69, ""))
            self.assertIn("not answered within 300ms", got.err)
            self.measured(f"{command} gives up", got.took, 0.3 + worlds.SLACK)
        pool.send(signal.SIGCONT)
        self.assertEqual(pool.stop(), 0)

    def test_a_runner_from_before_an_upgrade_is_understood(self):
        path = self.world.path("old.sock")
        heard = []

        def answer(server):
            for _ in range(2):
                peer, _ = server.accept()
                with peer, peer.makefile("rwb") as f:
                    heard.append(json.loads(f.readline()))
                    f.write(b'{"ok":true,"stop_requested":false}\n')

        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            runner = threading.Thread(target=answer, args=(server,))
            runner.start()
            got = self.world.run("checkpoint", "put", stdin=b"state",
                                 env={"LEASEHOLD_SOCKET": path})
            runner.join()
        self.assertEqual((got.code, got.err), (0, ""))
        self.assertEqual(heard, [{"op": "window"},
                                 {"op": "put", "state_base64": "c3RhdGU="}])

    def test_on_a_terminal_a_state_ends_with_a_line(self):
        self.run_script("""
            printf kept | leasehold checkpoint put
            script -qec 'leasehold checkpoint get' /dev/null \
              </dev/null >"$OUT/typed"
            leasehold checkpoint get >"$OUT/plain"
            """)
        self.assertEqual(self.world.read("typed"), b"kept\r\n")
        self.assertEqual(self.world.read("plain"), b"kept")

    def test_plain_sockets_will_do(self):
        config = self.world.config(
            command=[self.world.script(
                'echo "$LEASEHOLD_SOCKET" >"$OUT/socket.tmp"; '
                'mv "$OUT/socket.tmp" "$OUT/socket"; exec sleep 1000')])
        pool = self.world.pool(config, holder="a")
        path = wait_for(lambda: self.world.read("socket"), 5, pool.told)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path.decode().strip())
            answers = s.makefile("rb")

            def ask(line):
                s.sendall(line + b"\n")
                return json.loads(answers.readline())

            # Several requests over one connection, each of one line.
            self.assertEqual(ask(b'{"op":"get"}'),
                             {"ok": True, "state": None, "state_base64": None})
            self.assertEqual(ask('{"op":"put","state":"é\\n"}'.encode()),
                             {"ok": True, "stop_requested": False})
            self.assertEqual(
                ask(b'{"op":"get"}'),
                {"ok": True, "state": "é\n", "state_base64": "w6kK"})
            self.assertTrue(
                ask(b'{"op":"put","state_base64":"AP8="}')["ok"])
            self.assertEqual(
                ask(b'{"op":"get"}'),
                {"ok": True, "state": None, "state_base64": "AP8="})
            window = ask(b'{"op":"window"}')
            self.assertTrue(0 < window["window_left_seconds"] <= 3)
            wrong = ask(b'{"op":"steal"}')
            self.assertEqual((wrong["ok"], wrong["exit_code"]), (False, 64))
            self.assertIn("put, get and window", wrong["message"])
            self.assertFalse(ask(b"nonsense")["ok"])
        self.assertEqual(pool.stop(), 0)
