#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program in README.md must be the example that is built and run."""

import re
import sys


def main():
    root = sys.argv[1]
    readme = open(f"{root}/README.md", encoding="utf-8").read()
    shown = re.search(r"```cpp\n(.*?)```", readme, re.S)[1]
    source = open(f"{root}/examples/quickstart/quickstart.cpp",
                  encoding="utf-8").read()
    built = source[source.index("#include"):]
    if shown != built:
        print("the program in README.md is not examples/quickstart")
        return 1
    print("README.md shows examples/quickstart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
