"""The yardstick: the conservative backfilling simulator that a user would write by hand in an evening.

    python bench/by_hand.py LOG.swf PROCS OUT.csv

One cluster, no guests, no lease types, no record but a line per job. Jobs end when they end; the plan is
made with what was asked; when a job ends early, everybody who waits is planned anew in the order of
their reservations. It does the least that gives a right answer, and is written for speed.
"""

import heapq
import sys
from bisect import bisect_left, bisect_right


class Plan:
    """Free processors over time."""

    def __init__(self, procs):
        self.times = [0]
        self.free = [procs]

    def _cut(self, at):
        i = bisect_left(self.times, at)
        if i == len(self.times) or self.times[i] != at:
            self.times.insert(i, at)
            self.free.insert(i, self.free[i - 1])
        return i

    def change(self, begin, end, procs):
        i, j = self._cut(begin), self._cut(end)
        for k in range(i, j):
            self.free[k] += procs
        for k in (j, i):
            if k and self.free[k] == self.free[k - 1]:
                del self.times[k], self.free[k]

    def earliest(self, now, length, procs):
        times, free, steps = self.times, self.free, len(self.times)
        i = bisect_right(times, now) - 1
        while True:
            while free[i] < procs:
                i += 1
            begin = times[i] if times[i] > now else now
            k = i + 1
            while k < steps and times[k] < begin + length and free[k] >= procs:
                k += 1
            if k == steps or times[k] >= begin + length:
                return begin
            i = k

    def forget(self, now):
        i = bisect_right(self.times, now) - 1
        if i > 0:
            del self.times[:i], self.free[:i]


def read(path):
    with open(path, encoding="utf-8") as log:
        for line in log:
            if not line.startswith(";"):
                field = line.split()
                # number, submitted, needed, processors, asked, promised
                yield [int(field[0]), int(field[1]), int(field[3]), int(field[7]), int(field[8]), 0]


def simulate(jobs, procs, report):
    plan, waiting, ends = Plan(procs), [], []
    job = next(jobs, None)
    while job or ends:
        now = min(job[1] if job else 1 << 60, ends[0][0] if ends else 1 << 60)
        ended_early = False
        while ends and ends[0][0] == now:
            done = heapq.heappop(ends)[2]
            if done[5] + done[4] > now:
                plan.change(now, done[5] + done[4], done[3])
                ended_early = True
        plan.forget(now)
        if ended_early:
            waiting.sort(key=lambda job: job[5])
            for other in waiting:
                plan.change(other[5], other[5] + other[4], other[3])
                other[5] = plan.earliest(now, other[4], other[3])
                plan.change(other[5], other[5] + other[4], -other[3])
        while job and job[1] == now:
            job[5] = plan.earliest(now, job[4], job[3])
            plan.change(job[5], job[5] + job[4], -job[3])
            waiting.append(job)
            job = next(jobs, None)
        starting = [other for other in waiting if other[5] <= now]
        if starting:
            waiting = [other for other in waiting if other[5] > now]
        for other in starting:
            heapq.heappush(ends, (now + other[2], other[0], other))
            report(f"{other[0]},{other[1]},{now},{now + other[2]},{other[3]}\n")


def main():
    log, procs, out = sys.argv[1:]
    with open(out, "w", encoding="utf-8") as table:
        table.write("job,submitted,started,ended,processors\n")
        simulate(read(log), int(procs), table.write)


if __name__ == "__main__":
    main()
