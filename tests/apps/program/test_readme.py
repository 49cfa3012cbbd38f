# SPDX-License-Identifier: Apache-2.0
"""The sample of README.md runs as it is printed."""

import os
import re

import worlds

README = os.path.join(worlds.HERE, "..", "..", "..", "README.md")


class Sample(worlds.ProgramTest):
    def setUp(self):
        super().setUp()
        with open(README, encoding="utf-8") as f:
            text = f.read()
        config = re.search(r"```yaml\n# leasehold.yaml\n(.*?)```", text,
                           re.S)[1]
        # Only the store is ours, since all tests share /var/tmp.
        self.assertIn("sqlite:///var/tmp/leases.db", config)
        self.config = self.world.write("leasehold.yaml", config.replace(
            "sqlite:///var/tmp/leases.db", self.world.url))
        self.script = re.search(r"```sh\n(#!/bin/sh\n# make-report.*?)```",
                                text, re.S)[1]

    def test_the_sample_runs_to_its_end(self):
        self.world.write("make-report", self.script, 0o755)
        check = self.world.run("config", "check", "-c", self.config,
                               store=False)
        self.assertEqual((check.code, check.err), (0, ""))
        # Not started where the file is.
        pool = self.world.pool(self.config, prefix=["env", "-C", "/"])
        self.assertEqual(pool.await_end(60), 0, pool.told())
        for work in "eu", "us", "asia":
            pool.await_line(f"reports/{work} | report {work} is complete")
            row = self.world.show(work)
            self.assertEqual((row["state"], row["state_bytes"]),
                             ("retired", 4))
        listed = self.world.run("list", "-c", self.config, store=False)
        self.assertEqual((listed.code, listed.err),
                         (0, "3 leases: 3 retired\n"))
