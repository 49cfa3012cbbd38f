# SPDX-License-Identifier: Apache-2.0
"""What users get wrong, and what they are told: the thing, the value, the
reason and the next step, with the right exit code and nothing on stdout."""

import os
import socket
import subprocess

import worlds

LONG = "x" * 513


class CommandLine(worlds.ProgramTest):
    def refuses(self, code, words, *args, **more):
        got = self.world.run(*args, **more)
        for word in words:
            self.assertIn(word, got.err)
        self.assertEqual(got.code, code, got.err)
        self.assertEqual(got.out, "")
        self.assertTrue(got.err.startswith("leasehold: "), got.err)
        self.assertTrue(got.err.endswith("\n"))
        return got

    def test_commands(self):
        self.refuses(64, ['"lst"', 'did you mean "list"?'], "lst")
        self.refuses(64, ['"lst"', 'did you mean "list"?'], "-q", "lst")
        self.refuses(64, ['"schema aply"', 'did you mean "apply"?'],
                     "schema", "aply")
        self.refuses(64, ["print, check, apply"], "schema")
        self.refuses(64, ['"frobnicate"', "leasehold --help"], "frobnicate")

    def test_options(self):
        self.refuses(64, ['"--stor"', 'did you mean "--store"?'],
                     "--stor", "memory:", "list", store=False)
        self.refuses(64, ['"--outptu"', 'did you mean "--output"?'],
                     "list", "--outptu=json")
        self.refuses(64, ['"-x"', "leasehold show -- -x"], "show", "-x")
        self.refuses(64, ["--output", "jsn"], "list", "-o", "jsn")
        self.refuses(64, ["--store"], "list", "--store", store=False)
        self.refuses(64, ["--timeout 5:", "30s"],
                     "list", "--timeout", "5")
        self.refuses(64, ["--timeout 1ms:", "100ms"],
                     "list", "--timeout", "1ms")
        self.refuses(64, ["more"], "list", "a", "more")

    def test_no_store(self):
        got = self.refuses(64, ["--store", "LEASEHOLD_STORE", "--config"],
                           "list", store=False)
        self.assertEqual(got.err.count("\n"), 1)

    def test_a_given_store_wins_over_the_file(self):
        self.assertEqual(self.world.run("schema", "apply").code, 0)
        config = self.world.config(command=["true"], url="sqlite:///no/file")
        self.assertEqual(
            self.world.run("list", "--config", config, "--store",
                           self.world.url, store=False).code, 0)
        self.refuses(77, ["/no/file"], "list", "--config", config, store=False)

    def test_stores(self):
        self.refuses(78, ['"foo"', "postgresql://, sqlite: and memory:"],
                     "list", "-s", "foo:bar", store=False)
        self.refuses(78, ["redis", "not supported"], "list", "-s",
                     "redis://h/d", store=False)
        self.refuses(78, ["three slashes"], "list", "-s",
                     "sqlite://var/leases.db", store=False)
        self.refuses(65, ["does not exist", "leasehold schema apply"],
                     "list", "-s", f"sqlite://{self.world.folder}/no.db",
                     store=False)

    def test_work_ids(self):
        for work, why in ((LONG, "longer than 512 bytes"),
                          (b"\xff", "not valid UTF-8"), ("", "empty")):
            self.refuses(64, ["work ID", why], "show", "--", work)

    def test_help(self):
        for args in ("--help",), ("help",), ("list", "--help"), (
                "help", "schema", "apply"), ():
            got = self.world.run(*args, store=False)
            self.assertEqual((got.code, got.err), (0, ""), args)
            self.assertIn("leasehold", got.out)
        for command in "pool", "list", "show", "checkpoint", "schema":
            self.assertIn("Example", self.world.run(command, "--help").out)
        self.assertRegex(self.world.run("--version").out,
                         r"^leasehold \d+\.\d+\.\d+\n$")


class Configuration(worlds.ProgramTest):
    GOOD = """version: 1
store: {url: "memory:"}
pools:
  - name: p
    work: {list: [w]}
    run: {command: ["true"]}
"""

    def problems(self, text, *commands):
        """Of `config check`; other commands must say the same."""
        self.world.write("c.yaml", text)
        results = [self.world.run(*command, "-c", "c.yaml", store=False,
                                  prefix=["env", "-C", self.world.folder])
                   for command in (("config", "check"), ("pool",))]
        for got in results:
            self.assertEqual((got.code, got.out), (78, ""), got.err)
        self.assertEqual(results[0].err, results[1].err)
        return results[0].err

    def test_a_good_file(self):
        path = self.world.write("good.yaml", self.GOOD)
        got = self.world.run("config", "check", "-c", path, store=False)
        self.assertEqual(got.code, 0)
        self.assertEqual(got.out, f"{path}: good; 1 pool, 1 unit of work, "
                                  "store memory:\n")
        self.assertIn("warning: a memory: store ends with the process",
                      got.err)

    def test_no_file(self):
        for command in ("pool",), ("list",), ("config", "check"):
            got = self.world.run(*command, "-c", "/no/such.yaml", store=False)
            self.assertEqual((got.code, got.out), (78, ""))
            self.assertIn("/no/such.yaml", got.err)
            self.assertIn("No such file or directory", got.err)
        for command in ("pool",), ("config", "check"):
            got = self.world.run(*command, store=False)
            self.assertEqual((got.code, got.out), (64, ""))
            self.assertIn("--config FILE", got.err)

    def test_all_at_once_with_line_and_column(self):
        err = self.problems("""version: 1
store: {url: "memory:", timout: 3s}
defaults:
  tll: 30s
  idle: 5
pools:
  - name: [p]
    work: {list: w}
    max-held: many
    run: {command: ["true"], output: prefx}
""")
        for line in ('c.yaml:2:25: error: unknown key "timout" in store; did '
                     'you mean "timeout"?',
                     'c.yaml:4:3: error: unknown key "tll" in defaults; did '
                     'you mean "ttl"?',
                     "c.yaml:5:9: error: ", "c.yaml:7:11: error: ",
                     "c.yaml:8:18: error: ", "c.yaml:9:15: error: ",
                     "c.yaml:10:38: error: "):
            self.assertIn("\n" + line, "\n" + err)
        self.assertRegex(err, r"\n\d+ errors, 1 warning\n$")

    def test_not_yaml(self):
        self.assertIn("c.yaml:2:", self.problems("version: 1\n{: [}\n"))
        self.assertIn("empty", self.problems(""))
        self.assertIn("NUL", self.problems("version: 1\n\0\n"))

    def test_work_ids(self):
        def problem(work):
            return self.problems(self.GOOD.replace("[w]", work))
        self.assertIn("longer than 512 bytes", problem(f"[ok, {LONG}]"))
        self.assertIn("c.yaml:5:23: error: ", problem(f"[ok, {LONG}]"))
        self.assertIn("contains a NUL byte", problem(r'["a\0b"]'))
        self.assertIn("is empty", problem('[""]'))
        self.assertIn("twice", problem("[a, a]"))
        path = self.world.path("c.yaml")
        with open(path, "wb") as f:
            f.write(self.GOOD.encode().replace(b"[w]", b'["\xff"]'))
        got = self.world.run("config", "check", "-c", path, store=False)
        self.assertEqual(got.code, 78)
        self.assertIn(f"{path}:5:", got.err)
        self.assertIn("not UTF-8", got.err)

    def test_values_that_do_not_fit_together(self):
        err = self.problems(self.GOOD + "defaults: {ttl: 2s, renew: 2s}\n")
        self.assertIn("renew (2s) must be shorter than the ttl (2s)", err)
        err = self.problems(self.GOOD.replace('"true"', "/no/such/command"))
        self.assertIn('"/no/such/command" does not exist', err)

    def test_pools_take_their_timeout_from_the_file(self):
        path = self.world.write("good.yaml", self.GOOD)
        got = self.world.run("pool", "-c", path, "--timeout", "1s",
                             store=False)
        self.assertEqual(got.code, 64)
        self.assertIn("store.timeout", got.err)

    def test_a_holder_that_cannot_be(self):
        path = self.world.write("good.yaml", self.GOOD)
        got = self.world.run("pool", "-c", path, "--holder", LONG,
                             store=False)
        self.assertEqual(got.code, 64)
        self.assertIn("--holder", got.err)
        self.assertIn("longer than 512 bytes", got.err)


class Stores(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def test_a_missing_table(self):
        config = self.world.config(command=["true"], schema="check")
        if worlds.STORE == "sqlite":
            # There is a database, but without our table.
            self.world.sql("create table other (x)")
        for command in ("pool", "-c", config), ("list",), (
                "show", "w"), ("schema", "check"):
            got = self.world.run(*command)
            self.assertEqual((got.code, got.out), (65, ""), got.err)
            self.assertIn(self.world.table, got.err)
            self.assertIn("leasehold schema apply", got.err)
            self.assertNotIn("leasehold: leasehold", got.err)

    def test_an_unreachable_server(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            closed = f"postgresql://u@127.0.0.1:{port}/x"
            config = self.world.config(command=["true"], url=closed,
                                       schema="check", ttl="30s",
                                       renew="5s")
            # Nobody listens; then somebody does, but never says a word.
            for limit in 1.0, 2.0 + worlds.SLACK:
                for command in (("list", "-s", closed, "--timeout", "1s"),
                                ("pool", "-c", config)):
                    got = self.world.run(*command, store=False)
                    self.assertEqual((got.code, got.out), (69, ""), got.err)
                    self.assertIn(f"leasehold: store {closed}: ", got.err)
                    self.assertIn("PostgreSQL: ", got.err)
                    self.measured(f"{command[0]} gives up", got.took, limit)
                s.listen()


@worlds.unittest.skipUnless(os.geteuid() == 0, "needs root to be nobody")
class Permissions(worlds.ProgramTest):
    NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup",
              "--clear-groups"]

    def setUp(self):
        super().setUp()
        if subprocess.run([*self.NOBODY, "test", "-x",
                           worlds.PROGRAM]).returncode != 0:
            self.skipTest("nobody may not run " + worlds.PROGRAM)
        self.assertEqual(self.world.run("schema", "apply").code, 0)

    def refused(self, *args):
        got = self.world.run(*args, prefix=self.NOBODY)
        self.assertEqual((got.code, got.out), (77, ""), got.err)
        self.assertIn("leases.db", got.err)
        return got.err

    def test_a_file_that_may_not_be_read(self):
        os.chmod(self.world.path("leases.db"), 0o600)
        for args in ("list",), ("show", "w"), ("schema", "check"):
            self.assertRegex(self.refused(*args).lower(),
                             "permission|unable to open|not allowed")

    def test_a_folder_that_may_not_be_written(self):
        config = self.world.config(command=["true"], schema="check")
        os.chmod(config, 0o644)
        got = self.world.run("pool", "-c", config, prefix=self.NOBODY,
                             env={"TMPDIR": "/tmp"}, limit=10)
        self.assertEqual(got.code, 77, got.err)
        self.assertIn("leases.db", got.err)
