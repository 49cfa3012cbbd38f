#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the program end to end: run.py PROGRAM sqlite|postgres [NAME...]

A NAME selects the tests whose names contain it. Tests mostly wait, so several
run at once; those that stop the server, which all share, come last and alone.
For PostgreSQL run it through tests/support/postgres_server.
"""

import concurrent.futures
import os
import sys
import time
import unittest

sys.dont_write_bytecode = True

import worlds  # noqa: E402

AT_ONCE = int(os.environ.get("LEASEHOLD_TEST_AT_ONCE", "4"))


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def run_one(test):
    result = unittest.TestResult()
    start = time.monotonic()
    test.run(result)
    return test, result, time.monotonic() - start


def report(test, result, took):
    problems = result.errors + result.failures
    state = "FAILED" if problems else "skipped" if result.skipped else "ok"
    print(f"{state:<7} {took:5.1f} s  {test.id()}")
    for _, reason in result.skipped:
        print(f"          {reason}")
    for figure in getattr(test, "figures", ()):
        print(f"          {figure}")
    for _, text in problems:
        print(text)
    sys.stdout.flush()
    return not problems


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("sqlite", "postgres"):
        sys.exit(__doc__)
    worlds.PROGRAM = os.path.abspath(sys.argv[1])
    worlds.STORE = sys.argv[2]
    names = sys.argv[3:]
    found = list(flatten(unittest.defaultTestLoader.discover(worlds.HERE)))
    broken = [x for x in found if not isinstance(x, worlds.ProgramTest)]
    if broken:
        unittest.TextTestRunner().run(unittest.TestSuite(broken))
        sys.exit(1)
    tests = [test for test in found if worlds.STORE in test.stores
             and (not names or any(name in test.id() for name in names))]
    shared = worlds.STORE == "postgres"
    alone = [test for test in tests if test.alone and shared]
    others = [test for test in tests if test not in alone]
    start = time.monotonic()
    good = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(run_one, test) for test in others]):
            good.append(report(*done.result()))
    for test in alone:
        good.append(report(*run_one(test)))
    print(f"{len(good)} tests on {worlds.STORE}, {good.count(False)} failed, "
          f"{time.monotonic() - start:.1f} s")
    sys.exit(0 if good and all(good) else 1)


main()
