# SPDX-License-Identifier: Apache-2.0
"""schema print, check and apply."""

import concurrent.futures

import worlds


class Schema(worlds.ProgramTest):
    stores = ("sqlite", "postgres")

    def test_check_apply_check(self):
        before = self.world.run("schema", "check")
        self.assertEqual((before.code, before.out), (65, ""))
        self.assertIn("leasehold schema apply", before.err)
        dry = self.world.run("schema", "apply", "--dry-run")
        self.assertEqual((dry.code, dry.err), (0, ""))
        self.assertEqual(dry.out, self.world.run("schema", "print").out)
        self.assertEqual(self.world.run("schema", "check").code, 65)
        shown = self.world.run("schema", "apply", "--show-sql")
        self.assertEqual((shown.code, shown.out), (0, dry.out))
        for _ in range(2):
            got = self.world.run("schema", "apply")
            self.assertEqual((got.code, got.out), (0, ""))
            self.assertIn("the schema is in place", got.err)
        after = self.world.run("schema", "check")
        self.assertEqual((after.code, after.out), (0, ""))
        self.assertIn("the schema is right", after.err)
        self.assertEqual(self.world.run("schema", "check", "-q").err, "")

    def test_what_is_printed_can_be_run(self):
        got = self.world.run("schema", "print")
        self.assertEqual((got.code, got.err), (0, ""))
        if worlds.STORE == "sqlite":
            self.assertEqual(self.world.run(
                "schema", "check", "-s",
                f"sqlite://{self.world.folder}/new.db").code, 65)
        for statement in got.out.split(";\n"):
            if statement.strip():
                self.world.sql(statement)
        self.assertEqual(self.world.run("schema", "check").code, 0)

    def test_several_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(4) as many:
            results = list(many.map(
                lambda _: self.world.run("schema", "apply"), range(4)))
        self.assertEqual([(x.code, x.out) for x in results], [(0, "")] * 4,
                         [x.err for x in results])
        self.assertEqual(self.world.run("schema", "check").code, 0)

    def test_differences_are_named(self):
        self.assertEqual(self.world.run("schema", "apply").code, 0)
        self.world.sql(
            f"alter table {self.world.table} drop column prev_holder_id")
        got = self.world.run("schema", "check")
        self.assertEqual(got.code, 65)
        self.assertIn(self.world.table, got.err)
        self.assertIn("prev_holder_id", got.err)
