#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every statement of the behavioural contract has a test that cites it.

Reads `contract N`, `contract N-M` and `contract N, M-O` in the comments of all
tests. Statements 1 to 231 (leases, renewal, workers, elections, pools, codecs,
observers, exits, vacuum) must be cited or stand in contract_uncited.txt with
a reason; what stands there must not be cited. Later ones belong to one store
each, or to locks: they may be cited.
"""

import os
import re
import sys

REQUIRED = range(1, 232)
KNOWN = range(1, 317)

COMMENT = {".cpp": "//", ".hpp": "//", ".py": "#"}
CITATION = re.compile(r"\bcontract (\d+(?:-\d+)?(?:,\s*\d+(?:-\d+)?)*)")
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def numbers(text):
    """All numbers of a list of numbers and ranges."""
    for first, last in RANGE.findall(text):
        yield from range(int(first), int(last or first) + 1)


def comment_blocks(path):
    """(line number, text) of each run of comment lines, joined."""
    mark = COMMENT[os.path.splitext(path)[1]]
    start, words = 0, []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            # A mark inside a string (a URL) costs nothing: no citation follows.
            _, found, comment = line.partition(mark)
            if found:
                start = start if words else number
                words.append(comment.strip())
            elif words:
                yield start, " ".join(words)
                words = []
    if words:
        yield start, " ".join(words)


def citations(root):
    """Number -> where it is cited."""
    cited = {}
    for base, dirs, names in os.walk(os.path.join(root, "tests")):
        dirs[:] = sorted(x for x in dirs if x != "lint")
        for name in sorted(names):
            if os.path.splitext(name)[1] not in COMMENT:
                continue
            path = os.path.join(base, name)
            for line, text in comment_blocks(path):
                for match in CITATION.finditer(text):
                    for number in numbers(match[1]):
                        cited.setdefault(number, []).append(
                            f"{os.path.relpath(path, root)}:{line}")
    return cited


def exceptions(path, problems):
    """Number -> reason."""
    reasons = {}
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            match = re.fullmatch(r"([\d, -]*\d)\s+(\D.*)", line)
            if not match:
                problems.append(f"{path}:{number}: not `numbers reason`: {line}")
                continue
            for statement in numbers(match[1]):
                if statement in reasons:
                    problems.append(
                        f"{path}:{number}: {statement} stands here twice")
                reasons[statement] = match[2]
    return reasons


def as_ranges(values):
    """[1, 2, 3, 7] -> "1-3, 7"."""
    parts = []
    for value in sorted(values):
        if parts and parts[-1][1] == value - 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main():
    root = os.path.abspath(sys.argv[1])
    problems = []
    cited = citations(root)
    reasons = exceptions(os.path.join(root, "tests/lint/contract_uncited.txt"),
                         problems)
    for number in sorted(cited):
        if number not in KNOWN:
            problems.append(f"{cited[number][0]}: there is no contract {number}")
        elif number in reasons:
            problems.append(f"{cited[number][0]}: contract {number} is cited, "
                            "but contract_uncited.txt says that it is not")
    for number in sorted(reasons):
        if number not in REQUIRED:
            problems.append(f"contract_uncited.txt: {number} needs no citation")
    missing = [x for x in REQUIRED if x not in cited and x not in reasons]
    if missing:
        problems.append(f"no test cites contract {as_ranges(missing)}")
    for problem in problems:
        print(problem)
    by_reason = {}
    for number, reason in reasons.items():
        by_reason.setdefault(reason, []).append(number)
    for reason, statements in by_reason.items():
        print(f"not cited: {as_ranges(statements)}: {reason}")
    proved = len([x for x in REQUIRED if x in cited])
    print(f"{proved} of {len(REQUIRED)} statements cited, "
          f"{len(problems)} problems")
    return 1 if problems or not cited else 0


if __name__ == "__main__":
    sys.exit(main())
