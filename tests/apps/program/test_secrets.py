# SPDX-License-Identifier: Apache-2.0
"""A password that was given to the program is shown to nobody."""

import worlds
from worlds import descendants, wait_for

SECRET = "hunter2"
URL = f"postgresql://u:{SECRET}@127.0.0.1:1/x"


class Secrets(worlds.ProgramTest):
    def run_all(self, config, **more):
        for command in (["list"], ["show", "w"], ["schema", "print"],
                        ["schema", "check"], ["schema", "apply"],
                        ["config", "check"], ["pool"], ["pool", "-v"],
                        ["list", "-o", "json", "-v"], ["list", "--bad"]):
            got = self.world.run(*command, *config, store=False, **more)
            self.assertNotIn(SECRET, got.out + got.err, command)
            yield got

    def test_messages(self):
        urls = [URL, URL + f"?sslpassword={SECRET}",
                f"postgresql://u@127.0.0.1:1/x?password={SECRET}",
                # Not quite right.
                f"postgresql://u:{SECRET}@127.0.0.1:port/x",
                f"postgresql://u:{SECRET}#@127.0.0.1/x",
                f"postgresql://u:{SECRET}%@127.0.0.1/x",
                f"postgresql://u:a/{SECRET}@127.0.0.1/x",
                f"postgresql:u:{SECRET}@h/x", f"mysql://u:{SECRET}@h/x",
                f"u:{SECRET}@h/x"]
        for url in urls:
            self.world.write("url", url + "\n")
            plain = self.world.config(command=["true"], url=url,
                                      schema="check")
            from_file = self.world.write("file.yaml", """version: 1
store: {url-file: url, timeout: 1s}
pools: [{name: p, work: {list: [w]}, run: {command: ["true"]}}]
""")
            from_variable = self.world.write("var.yaml", """version: 1
store: {url: "${MY_URL}", timeout: 1s}
pools: [{name: p, work: {list: [w]}, run: {command: ["true"]}}]
""")
            for config in (["-c", plain], ["-c", from_file],
                           ["-c", from_variable]):
                good = [x.code for x in self.run_all(
                    config, env={"MY_URL": url})]
                self.assertNotIn(70, good)
            for _ in self.run_all([], env={"LEASEHOLD_STORE": url}):
                pass


class Children(worlds.ProgramTest):
    stores = ("postgres",)

    def test_a_command_does_not_learn_the_password(self):
        config = self.world.config(command=self.worker("heartbeat", "put"),
                                   url="postgresql://unused/x")
        secret = "lease:lease"
        self.assertIn(secret, self.world.url)
        pool = self.world.pool(config, holder="a", args=["-v"],
                               env={"LEASEHOLD_STORE": self.world.url})
        wait_for(lambda: self.world.read("puts"), 10, pool.told)
        # Of the commands, not of the guard: that is a copy of ourselves.
        seen = 0
        for pid in descendants(pool.pid):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().strip() == "leasehold-guard":
                        continue
                for name in "cmdline", "environ":
                    with open(f"/proc/{pid}/{name}") as f:
                        self.assertNotIn(secret, f.read())
                    seen += 1
            except OSError:
                continue
        self.assertGreaterEqual(seen, 2)
        self.assertEqual(pool.stop(), 0)
        self.assertNotIn(secret, pool.told())
        self.assertTrue(pool.events)
