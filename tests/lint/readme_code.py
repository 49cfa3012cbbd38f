#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C++ in README.md must be that of the examples that are built and run."""

import re
import sys

# In the order of README.md: the example, and whether all of it is shown, from
# the first #include on, or only a part.
SHOWN = [("quickstart", True), ("worker", False), ("blocking", True)]


def main():
    root = sys.argv[1]
    readme = open(f"{root}/README.md", encoding="utf-8").read()
    blocks = re.findall(r"```cpp\n(.*?)```", readme, re.S)
    problems = []
    if len(blocks) != len(SHOWN):
        problems.append(f"{len(blocks)} programs, {len(SHOWN)} expected")
    for shown, (name, whole) in zip(blocks, SHOWN):
        source = open(f"{root}/examples/{name}/{name}.cpp",
                      encoding="utf-8").read()
        built = source[source.index("#include"):]
        if shown != built if whole else shown not in built:
            problems.append(f"one is not that of examples/{name}")
    for problem in problems:
        print(f"README.md: {problem}")
    if not problems:
        print("README.md shows", ", ".join(name for name, _ in SHOWN))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
