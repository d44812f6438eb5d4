"""The process of one job: measure, and print the outcome as the last line."""

from __future__ import annotations

import sys

from suite.cases import case_named
from suite.job import Job, Outcome, Unavailable


def main() -> None:
    job = Job.from_text(sys.argv[1])
    try:
        outcome = case_named(job.case).measure(job)
    except Unavailable as exc:
        outcome = Outcome(unavailable=str(exc))
    print(outcome.to_text(), flush=True)


if __name__ == "__main__":
    main()
