# SPDX-License-Identifier: Apache-2.0
"""list and show, for people and for programs."""

import base64
import json
import subprocess

import worlds

ODD = ["plain", 'say "hi"', "two\nlines", "tab\there", "caf\u00e9 \U0001f600",
       "back\\slash", "-dash", "--help", "a=b", "'", "%s{}", " blank ",
       "\x1b[31mred", "\u202eleft", "\u009b31m", "\x7f", "x" * 512]

FIELDS = {"work_id", "state", "holder_id", "last_holder_id", "token",
          "expires_at", "left_seconds", "acquired_at", "updated_at", "exit",
          "previous_exit", "previous_holder_id", "state_bytes"}


class Look(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def fill(self, work=ODD):
        """Each unit is run once and leaves its own name as state."""
        command = self.world.script(
            'printf %s "$LEASEHOLD_WORK_ID" | leasehold checkpoint put')
        pool = self.world.pool(
            self.world.config(command=[command], work=work, ttl="10s",
                              rerun="1h"), holder='holder "\n')
        pool.await_event("released", count=len(work), exit="finished")
        self.assertEqual(pool.stop(), 0)

    def test_odd_work_ids_survive(self):
        self.fill()
        got = self.world.run("list", "-o", "json")
        self.assertEqual((got.code, got.err), (0, ""))
        rows = got.json()["leases"]
        self.assertEqual([x["work_id"] for x in rows],
                         sorted(ODD, key=str.encode))
        for row in rows:
            self.assertEqual(set(row), FIELDS)
            self.assertEqual(row["last_holder_id"], 'holder "\n')
        lines = self.world.run("list", "-o", "ndjson").out.splitlines()
        self.assertEqual([json.loads(x) for x in lines],
                         [{**row, "left_seconds":
                           json.loads(line)["left_seconds"]}
                          for row, line in zip(rows, lines)])
        for work in ODD:
            row = self.world.show(work)
            self.assertEqual(set(row), FIELDS | {"state_base64"})
            self.assertEqual(row["work_id"], work)
            self.assertEqual(base64.b64decode(row["state_base64"]),
                             work.encode())
            self.assertEqual(self.name_in(self.world.run(
                "show", "-o", "name", "--", work).out), work)
        # Names are lines, or end with a NUL.
        got = self.world.run("list", "-o", "name").out.splitlines(True)
        self.assertEqual([self.name_in(x) for x in got],
                         sorted(ODD, key=str.encode))
        for args in ("-0",), ("-o", "name", "--print0"):
            self.assertEqual(self.world.run("list", *args).out,
                             "".join(x + "\0" for x in
                                     sorted(ODD, key=str.encode)))
        # For people: one line each, and nothing that a terminal would obey.
        for args in (), ("-o", "wide"):
            got = self.world.run("list", *args)
            lines = got.out.split("\n")
            self.assertEqual(len(lines), len(ODD) + 2)
            self.assertTrue(lines[0].startswith("WORK "))
            for control in "\x1b\x7f\x9b\u202e":
                self.assertNotIn(control, got.out)
            self.assertIn("\\u202eleft", got.out)
            self.assertIn("caf\u00e9 \U0001f600 ", got.out)
            self.assertIn("two\\nlines ", got.out)
            self.assertEqual(got.err, f"{len(ODD)} leases: {len(ODD)} free\n")
        bare = self.world.run("list", "--no-headers", "-q")
        self.assertEqual(bare.out.count("\n"), len(ODD))
        self.assertEqual(bare.err, "")

    def name_in(self, line):
        """What a line of -o name stands for."""
        self.assertTrue(line.endswith("\n"))
        for control in "\x1b\x7f\x9b\u202e\t":
            self.assertNotIn(control, line)
        name = line[:-1]
        return json.loads(name) if name.startswith('"') else name

    def test_flags_that_contradict_each_other(self):
        for args in (("show", "w", "--state", "--hide-state"),
                     ("list", "-0", "-o", "json"), ("list", "-q", "-v")):
            got = self.world.run(*args)
            self.assertEqual((got.code, got.out), (64, ""), got.err)
            self.assertIn(args[2] if args[0] == "show" else "-", got.err)

    def test_prefixes(self):
        self.fill(["a", "ab", "abc", "b", "a%", "a_", "-a"])
        def names(*args):
            return self.world.run("list", "-o", "name",
                                  *args).out.splitlines()
        self.assertEqual(names("ab"), ["ab", "abc"])
        self.assertEqual(names("a%"), ["a%"])
        self.assertEqual(names("a_"), ["a_"])
        self.assertEqual(names("--", "-a"), ["-a"])
        self.assertEqual(names("zzz"), [])
        self.assertEqual(len(names()), 7)

    def test_an_empty_store(self):
        self.assertEqual(self.world.run("schema", "apply").code, 0)
        self.assertEqual(self.world.run("list", "-o", "json").json(),
                         {"leases": []})
        for kind in "name", "ndjson":
            got = self.world.run("list", "-o", kind)
            self.assertEqual((got.code, got.out, got.err), (0, "", ""))
        got = self.world.run("list")
        self.assertEqual((got.code, got.err), (0, "0 leases\n"))
        self.assertEqual(got.out.count("\n"), 1)

    def test_show(self):
        self.fill(["w"])
        got = self.world.run("show", "w")
        self.assertEqual((got.code, got.err), (0, ""))
        for line in ("work             w\n", "state            free\n",
                     'last holder      holder "\\n\n', "exit             fin",
                     "checkpoint       1 bytes\n", "\n\nw\n"):
            self.assertIn(line, got.out)
        missing = self.world.run("show", "no such work")
        self.assertEqual((missing.code, missing.out), (1, ""))
        self.assertIn('"no such work" has no lease in', missing.err)

    def test_show_states(self):
        state = "line\n" + "0123456789" * 30
        command = self.world.script(
            f"printf '{state}' | leasehold checkpoint put")
        pool = self.world.pool(self.world.config(command=[command],
                                                 rerun="1h"), holder="a")
        pool.await_event("released")
        self.assertEqual(pool.stop(), 0)
        some = self.world.run("show", "w").out
        self.assertIn("line\\n0123456789", some)
        self.assertIn("--state shows all", some)
        self.assertNotIn("0123456789" * 30, some)
        self.assertIn("0123456789" * 30, self.world.run("show", "w",
                                                        "--state").out)
        hidden = self.world.run("show", "w", "--hide-state")
        self.assertNotIn("0123", hidden.out)
        self.assertIn("305 bytes", hidden.out)
        self.assertNotIn("state_base64", self.world.run(
            "show", "w", "--hide-state", "-o", "json").json())

    def test_a_reader_that_had_enough(self):
        self.fill()
        for _ in range(5):
            got = subprocess.run(
                ["/bin/sh", "-c", '"$0" list -o json | head -1',
                 worlds.PROGRAM], capture_output=True,
                env=self.world.environment({"LEASEHOLD_STORE":
                                            self.world.url}))
            self.assertEqual((got.returncode, got.stdout, got.stderr),
                             (0, b"{\n", b""))
        # Not quietly if it is an error, though.
        full = subprocess.run(
            ["/bin/sh", "-c", '"$0" list -o json >/dev/full', worlds.PROGRAM],
            capture_output=True,
            env=self.world.environment({"LEASEHOLD_STORE": self.world.url}))
        self.assertEqual(full.returncode, 74)
        self.assertIn(b"No space left on device", full.stderr)
        closed = subprocess.run(
            ["/bin/sh", "-c", '"$0" list -o json >&-', worlds.PROGRAM],
            capture_output=True,
            env=self.world.environment({"LEASEHOLD_STORE": self.world.url}))
        self.assertEqual(closed.returncode, 74)
        self.assertIn(b"Bad file descriptor", closed.stderr)

    def test_all_states_have_names(self):
        self.fill(["free", "held", "lapsed"])
        later, before = (("now() + interval '1 hour'",
                          "now() - interval '1 hour'")
                         if worlds.STORE == "postgres" else
                         ("unixepoch() * 1000000 + 3600000000",
                          "unixepoch() * 1000000 - 3600000000"))
        for work, when in ("held", later), ("lapsed", before):
            self.world.sql(f"update {self.world.table} set exit_mode = null, "
                           f"expires_at = {when} where work_id = '{work}'")
        rows = {x["work_id"]: x for x in
                self.world.run("list", "-o", "json").json()["leases"]}
        self.assertEqual({k: v["state"] for k, v in rows.items()},
                         {"free": "free", "held": "held", "lapsed": "lapsed"})
        self.assertEqual(rows["held"]["holder_id"], 'holder "\n')
        self.assertIsNone(rows["lapsed"]["holder_id"])
        self.assertIsNone(rows["free"]["holder_id"])
        self.assertAlmostEqual(rows["held"]["left_seconds"], 3600, delta=30)
        self.assertAlmostEqual(rows["lapsed"]["left_seconds"], -3600, delta=30)
        self.assertEqual(self.world.run("list").err,
                         "3 leases: 1 free, 1 held, 1 lapsed\n")
