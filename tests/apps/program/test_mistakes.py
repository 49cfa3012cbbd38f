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
        self.refuses(78, ["/no/file", "/no does not exist"], "list",
                     "--config", config, store=False)

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
        self.refuses(78, ["65535"], "list", "-s", "postgresql://h:99999/d",
                     store=False)
        self.refuses(78, ["keeps for itself"], "list", "-s",
                     "sqlite:///x.db?table=sqlite_x", store=False)

    def test_paths_that_are_no_store(self):
        self.refuses(78, ["is not a file but a directory"], "list", "-s",
                     f"sqlite://{self.world.folder}", store=False)
        self.refuses(78, ["does not exist; create it first"], "schema",
                     "apply", "-s", f"sqlite://{self.world.folder}/no/l.db",
                     store=False)
        path = self.world.write("text", "no database " * 1000)
        for command in ("list",), ("show", "w"), ("schema", "check"), (
                "schema", "apply"):
            self.refuses(65, ["file is not a database", "choose a path"],
                         *command, "-s", f"sqlite://{path}", store=False)

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
        got = self.world.run("pool", "-c", "/no/such.yaml", "--holder", "",
                             store=False)
        self.assertEqual(got.code, 64)
        self.assertIn('--holder "" is empty', got.err)

    def test_what_a_start_would_find_is_found_by_a_check(self):
        def problem(old, new):
            self.assertIn(old, self.GOOD)
            err = self.problems(self.GOOD.replace(old, new))
            self.assertRegex(err, r"(?m)^c\.yaml:\d+:\d+: error: ")
            self.assertEqual(err.count("error: "), 1, err)
            return err
        run = 'command: ["true"]'
        self.assertIn("is a folder", problem(
            run, run + ", output: {file: /tmp}"))
        self.assertIn("does not exist", problem(
            run, run + ", output: {file: /no/such/log}"))
        self.assertIn("LEASEHOLD_TOKEN", problem(
            run, run + ", environment: {LEASEHOLD_TOKEN: x}"))
        for url in ("postgresql://h:99999/d",
                    "postgresql://h/d?sslmode=maybe",
                    "sqlite:x.db?table=sqlite_x"):
            problem('"memory:"', f'"{url}"')
        problem('"memory:"', '"sqlite:x.db?table=aa", table: bb')
        problem('"memory:"', '"sqlite:x.db", table: "no name"')


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

    def test_a_table_of_another_program(self):
        self.world.sql(f"create table {self.world.table} (a int)")
        config = self.world.config(command=["true"])
        for command in ("pool", "-c", config), ("list",), ("show", "w"), (
                "schema", "check"), ("schema", "apply"):
            got = self.world.run(*command)
            self.assertEqual((got.code, got.out), (65, ""), got.err)
            self.assertIn(f"table {self.world.table} exists, but it is not "
                          "leasehold's; rename it, or choose another with "
                          "`table:`", got.err)
            self.assertNotIn("schema apply", got.err)

    def test_a_table_that_goes_away_is_told_to_a_put_as_to_a_list(self):
        command = self.world.script(
            'while [ ! -e "$OUT/gone" ]; do sleep 0.02; done\n'
            'echo x | leasehold checkpoint put 2>"$OUT/message"\n'
            'echo $? >"$OUT/code"; exec sleep 1000')
        pool = self.world.pool(
            self.world.config(command=[command], ttl="60s"), holder="a")
        pool.await_event("acquired")
        self.world.sql(f"drop table {self.world.table}")
        self.world.write("gone", "")
        code = worlds.wait_for(lambda: self.world.read("code"), 5, pool.told)
        self.assertEqual(code, b"65\n", self.world.read("message"))
        self.assertIn(b"leasehold schema apply", self.world.read("message"))
        self.assertEqual(self.world.run("list").code, 65)

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
