"""Two schedulers that share nothing with Leasehold's: bookings in a list, every question asked anew."""

from dataclasses import dataclass


@dataclass
class Task:
    """A job of the oracle; times in seconds."""

    number: int
    submit: int
    size: int
    asked: int
    needed: int
    start: int | None = None
    promise: int | None = None


def _events(tasks: list[Task], now: int) -> int | None:
    """The next instant at which a task is submitted, ends, or is promised to start."""
    times = [t.submit for t in tasks if t.submit > now]
    times += [t.start + t.needed for t in tasks if t.start is not None and t.start + t.needed > now]
    times += [t.promise for t in tasks if t.start is None and t.promise is not None and t.promise > now]
    return min(times, default=None)


class ByReservations:
    """Any reservation depth, by brute force over candidate times."""

    def __init__(self, tasks: list[Task], slots: int, depth: int | None) -> None:
        self.tasks, self.slots, self.depth = tasks, slots, depth
        self.now = -1

    def run(self) -> dict[int, int]:
        now: int | None = min(task.submit for task in self.tasks)
        while now is not None:
            freed = any(self.now < end <= now for end in self._early_ends())
            self.now = now
            self._pass(freed)
            now = _events(self.tasks, now)
        return {task.number: task.start for task in self.tasks if task.start is not None}

    def _early_ends(self) -> list[int]:
        started = [t for t in self.tasks if t.start is not None and t.needed < t.asked]
        return [t.start + t.needed for t in started if t.start is not None]

    def _pass(self, freed: bool) -> None:  # noqa: FBT001 - whether room was given back
        waiting = [t for t in self.tasks if t.submit <= self.now and t.start is None]
        for task in [t for t in waiting if t.promise is not None and freed]:
            task.promise = self._earliest(task)
        for task in waiting:
            if task.promise == self.now:
                task.start = self.now
        for task in [t for t in waiting if t.start is None and t.promise is None]:
            promised = [t for t in waiting if t.start is None and t.promise is not None]
            if self.depth and len(promised) >= self.depth:
                break
            earliest = self._earliest(task)
            if earliest == self.now:
                task.start = self.now
            elif self.depth == 0:
                return
            else:
                task.promise = earliest
        for task in [t for t in waiting if t.start is None and t.promise is None]:
            if self.depth and self._fits(task, self.now):
                task.start = self.now

    def _bookings(self, but: Task) -> list[tuple[int, int, int]]:
        found = []
        for task in self.tasks:
            if task is but:
                continue
            if task.start is not None:
                end = task.start + (task.asked if task.start + task.needed > self.now else task.needed)
                found.append((task.start, end, task.size))
            elif task.promise is not None:
                found.append((task.promise, task.promise + task.asked, task.size))
        return found

    def _fits(self, task: Task, start: int) -> bool:
        bookings = self._bookings(task)
        instants = [start, *(s for s, _, _ in bookings if start < s < start + task.asked)]
        return all(sum(size for s, e, size in bookings if s <= at < e) + task.size <= self.slots for at in instants)

    def _earliest(self, task: Task) -> int:
        ends = [end for _, end, _ in self._bookings(task)]
        return min(t for t in {self.now, *ends} if t >= self.now and self._fits(task, t))


def classic_easy(tasks: list[Task], slots: int) -> dict[int, int]:
    """EASY as it is told everywhere: a shadow time and the extra slots at it, for the head alone."""
    now: int | None = min(task.submit for task in tasks)
    while now is not None:
        queue = [t for t in tasks if t.submit <= now and t.start is None]
        running = [t for t in tasks if t.start is not None and t.start + t.needed > now]
        free = slots - sum(t.size for t in running)
        while queue and queue[0].size <= free:
            queue[0].start = now
            running.append(queue[0])
            free -= queue.pop(0).size
        if queue:
            _backfill(queue, running, free, now)
        now = _events(tasks, now)
    return {task.number: task.start for task in tasks if task.start is not None}


def _backfill(queue: list[Task], running: list[Task], free: int, now: int) -> None:
    head, available, shadow, extra = queue[0], free, now, 0
    ends = sorted((t.start + t.asked, t.size) for t in running if t.start is not None)
    for i, (end, size) in enumerate(ends):
        available += size
        same_instant_follows = i + 1 < len(ends) and ends[i + 1][0] == end
        if available >= head.size and not same_instant_follows:
            shadow, extra = end, available - head.size
            break
    for task in queue[1:]:
        if task.size > free:
            continue
        if now + task.asked <= shadow:
            pass
        elif task.size <= extra:
            extra -= task.size
        else:
            continue
        task.start = now
        free -= task.size
