#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom: backends <- actors <- config <- apps.

Right may include left. Third-party headers stay where docs/architecture.md
puts them; those of databases and YAML never stand in a public header.
"""

import os
import re
import sys

ORDER = ["backends", "actors", "config", "apps"]

# Header prefix -> folders that may include it, and whether headers may.
THIRD_PARTY = {
    "soci/": (["backends"], False),
    "libpq-fe.h": (["backends"], False),
    "mysql": (["backends"], False),
    "sqlite3.h": (["backends"], False),
    "yaml-cpp/": (["config"], False),
    "CLI/": (["apps"], True),
    "fmt/": (["apps"], True),
    "nlohmann/": (["apps", "backends"], True),
    "caf/": (["actors"], True),
}

# The public headers that may show a third-party header after all: nobody has
# to include them, and they belong to a component of their own.
EXCEPTIONS = {"backends": {"nlohmann/": ["backends/leasehold/codec/json.hpp"]}}

# The one file that knows CAF's version.
COMPAT = "actors/leasehold/caf.hpp"

# Headers for programs that know nothing of CAF: nothing that they include,
# directly or not, includes it.
CAF_FREE = ["actors/leasehold/blocking.hpp"]

# What actors/ must get through a port instead.
FORBIDDEN_IN_ACTORS = [
    (r"\bsleep_(for|until)\b", "sleeps"),
    (r"\bsystem_clock\b", "asks for the wall clock"),
    (r"\bsteady_clock\b", "asks for a clock of its own"),
    (r"\b(s?rand|random_device|mt19937\w*)\b", "makes its own randomness"),
]


def sources(root, folder):
    for base, dirs, names in os.walk(os.path.join(root, folder)):
        dirs.sort()
        for name in sorted(names):
            if name.endswith((".hpp", ".cpp")):
                yield os.path.relpath(os.path.join(base, name), root)


def included(root, owner, path):
    """All headers that `path` includes, each with the way there."""
    found = {}
    todo = [(path, [])]
    while todo:
        source, chain = todo.pop()
        with open(os.path.join(root, source), encoding="utf-8") as f:
            headers = re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]',
                                 f.read(), re.M)
        for header in headers:
            if header in found:
                continue
            found[header] = [*chain, header]
            if header in owner:
                todo.append((f"{owner[header]}/{header}", found[header]))
    return found


def main():
    root = os.path.abspath(sys.argv[1])
    owner = {}
    for folder in ORDER:
        for path in sources(root, folder):
            if path.endswith(".hpp"):
                owner[path.split("/", 1)[1]] = folder
    problems = []
    for path in CAF_FREE:
        for header, chain in included(root, owner, path).items():
            if header.startswith("caf/"):
                problems.append(f"{path}:1: {' -> '.join(chain)} is of CAF")
    files = 0
    for folder in ORDER:
        for path in sources(root, folder):
            files += 1
            with open(os.path.join(root, path), encoding="utf-8") as f:
                lines = f.read().splitlines()
            if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
                problems.append(f"{path}:1: the licence line is missing")
            for number, line in enumerate(lines, 1):
                where = f"{path}:{number}"
                code = line.split("//")[0]
                if m := re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line):
                    header = m[1]
                    if header.startswith("leasehold/"):
                        home = owner.get(header)
                        if home is None:
                            problems.append(f"{where}: no component has {header}")
                        elif ORDER.index(home) > ORDER.index(folder):
                            problems.append(
                                f"{where}: {folder} must not include {home} "
                                f"({header})")
                    for prefix, (allowed, in_headers) in THIRD_PARTY.items():
                        if not header.startswith(prefix):
                            continue
                        only = EXCEPTIONS.get(folder, {}).get(prefix)
                        if folder not in allowed or only and path not in only:
                            problems.append(
                                f"{where}: {header} belongs in "
                                f"{', '.join(allowed)}")
                        elif path.endswith(".hpp") and not in_headers \
                                and "/internal/" not in path:
                            problems.append(
                                f"{where}: {header} stands in a public header")
                if path != COMPAT and re.search(
                        r"CAF_(MAJOR|MINOR|PATCH)?_?VERSION|LEASEHOLD_CAF_017",
                        code):
                    problems.append(f"{where}: only {COMPAT} may ask for the "
                                    "version of CAF")
                if folder == "actors":
                    for pattern, what in FORBIDDEN_IN_ACTORS:
                        if re.search(pattern, code):
                            problems.append(f"{where}: {what}")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
