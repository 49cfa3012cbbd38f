#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test that docs/architecture.md names as a guard must exist."""

import os
import re
import sys


def main():
    root = sys.argv[1]
    text = open(f"{root}/docs/architecture.md", encoding="utf-8").read()
    named = set(re.findall(r"`([a-z0-9_]+)`(?=[^|]*\|\s*$)", text, re.M))
    known = set()
    for base, _, names in os.walk(f"{root}/tests"):
        for name in names:
            if name.endswith((".cpp", ".hpp", ".py")):
                with open(os.path.join(base, name), encoding="utf-8") as f:
                    known |= set(re.findall(
                        r"(?:TEST_CASE\(|def test_|def )([a-z0-9_]+)",
                        f.read()))
    missing = sorted(named - known)
    for name in missing:
        print(f"docs/architecture.md names {name}, which no test is called")
    print(f"{len(named)} guards named, {len(missing)} missing")
    return 1 if missing or not named else 0


if __name__ == "__main__":
    sys.exit(main())
