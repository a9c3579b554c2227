"""Dump the accounting of a Slurm cluster under pseudonyms.

    python3 slurm_dump.py --key-file pseudonyms.key --start 2026-01-01 > accounting.txt
    sacct ... --parsable2 | python3 slurm_dump.py --key-file pseudonyms.key --stdin > accounting.txt

It needs Python 3.6 or later, nothing else, and runs sacct once. It sends nothing anywhere and writes two things: the
dump, to standard output, and the key file, where there is none.

What the dump has, and nothing else:

- times (submitted, eligible, started, ended, elapsed, time limit), and how a job ended, as Slurm names it;
- sizes: nodes, CPUs, memory, GPUs and the model of the GPUs;
- for each job, user, account, partition, QOS, cluster, name of the job and node a pseudonym, such as u-3f9a1c07d2b4.

What it does not have: the names and numbers themselves, user IDs, command lines, folders, comments, reasons, exit
codes, reservations, licences and other resources. A column that is not in the tables below is left out. A value that
does not look as its column should (the patterns below) is left out, and how many were is said at the end.

A pseudonym is the beginning of HMAC-SHA256(key, kind and name): the same name has the same pseudonym as long as the key
file is the same, and without the key nobody can tell a name from it, nor try names out. Keep the key, or delete it.
Times are as they were: who knows when a colleague's job ran can find it. --shift-days moves all of them.
"""

import argparse
import datetime
import hashlib
import hmac
import os
import re
import subprocess
import sys
from typing import IO, Iterator  # noqa: F401 - of comments, as Python 3.6 wants them

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([+-]\d{4})?|\d{1,12}|Unknown|None"
NUMBER = r"\d{1,15}(\.\d{1,6})?[KMGTP]?"
LIMIT = r"(\d{1,6}-)?(\d{1,6}:)?\d{1,9}:\d\d(\.\d{1,6})?|\d{1,9}|UNLIMITED|Partition_Limit"

# Columns that are dumped as they are, each if it looks so.
KEPT = {
    "State": r"[A-Z_]{1,30}",
    "Submit": TIME,
    "Eligible": TIME,
    "Start": TIME,
    "End": TIME,
    "Elapsed": LIMIT,
    "ElapsedRaw": r"\d{1,12}",
    "Suspended": LIMIT,
    "Timelimit": LIMIT,
    "TimelimitRaw": LIMIT,
    "NNodes": NUMBER,
    "AllocNodes": NUMBER,
    "NCPUS": NUMBER,
    "AllocCPUS": NUMBER,
    "ReqCPUS": NUMBER,
    "ReqMem": NUMBER + "[cn]?",
    "ReqTRES": None,  # see resources()
    "AllocTRES": None,
}  # type: dict[str, str | None]

# Columns that are dumped as pseudonyms, with the letter by which these begin.
HIDDEN = {
    "JobIDRaw": "j",
    "JobID": "j",
    "Cluster": "c",
    "User": "u",
    "Account": "a",
    "Partition": "p",
    "QOS": "q",
    "JobName": "n",
    "NodeList": "h",
}

# Resources that are dumped, of a list such as cpu=8,mem=16G,gres/gpu:a100=2,license/matlab=1.
RESOURCE = re.compile(r"(cpu|mem|node|billing|gres/gpu|gres/gpu:[A-Za-z0-9][A-Za-z0-9._-]{0,40})=" + NUMBER)

TIMES = ("Submit", "Eligible", "Start", "End")

FIELDS = (
    "JobIDRaw,Cluster,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,"
    "ReqCPUS,ReqMem,ReqTRES,AllocTRES"
)


class Pseudonyms:
    """Gives the same name the same pseudonym."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.known = {}  # type: dict[tuple[str, str], str]

    def of(self, kind: str, name: str) -> str:
        """Give the pseudonym of a name; of none, none."""
        if not name:
            return ""
        if (kind, name) not in self.known:
            code = hmac.new(self.key, (kind + ":" + name).encode("utf-8", "surrogateescape"), hashlib.sha256)
            self.known[kind, name] = kind + "-" + code.hexdigest()[:12]
        return self.known[kind, name]


def nodes(text: str) -> "Iterator[str]":
    """Give the nodes of a list such as node[01-03,7],gpu1."""
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        begin, bracket, rest = part.partition("[")
        if not bracket:
            yield part
            continue
        inside, _, end = rest.partition("]")
        for one in inside.split(","):
            first, dash, last = one.partition("-")
            if dash and first.isdigit() and last.isdigit() and int(last) - int(first) < 100000:
                for number in range(int(first), int(last) + 1):
                    yield begin + str(number).zfill(len(first)) + end
            else:
                yield begin + one + end


def resources(text: str) -> str:
    """Keep the resources that are dumped."""
    return ",".join(part for part in text.split(",") if RESOURCE.fullmatch(part))


def shifted(text: str, days: int) -> str:
    """Move a time."""
    if not days or text in ("Unknown", "None", ""):
        return text
    if text.isdigit():
        return str(max(int(text) + days * 86400, 1))
    moved = datetime.datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S") + datetime.timedelta(days=days)
    return moved.strftime("%Y-%m-%dT%H:%M:%S") + text[19:]


class Dump:
    """Turns lines of sacct --parsable2 into lines of the dump."""

    def __init__(self, header: str, key: bytes, shift_days: int = 0) -> None:
        asked = {name.lower(): name for name in list(KEPT) + list(HIDDEN)}
        names = [asked.get(name.strip().lower()) for name in header.rstrip("\r\n").split("|")]
        self.width = len(names)
        self.columns = [(place, name) for place, name in enumerate(names) if name]
        self.job = [place for place, name in self.columns if name in ("JobIDRaw", "JobID")]
        self.pseudonyms = Pseudonyms(key)
        self.shift_days = shift_days
        self.left_out = {}  # type: dict[str, int]
        if not self.job or "Submit" not in names:
            raise SystemExit(
                "slurm_dump: this is not what sacct --parsable2 prints: no header with JobIDRaw and Submit"
            )

    def header(self) -> str:
        """Give the first line of the dump."""
        return "|".join(name for _, name in self.columns)

    def line(self, line: str) -> "str | None":
        """Give a line of the dump; nothing for steps and for lines that are not as the header says."""
        values = line.rstrip("\r\n").split("|")
        if len(values) != self.width:
            self.count("a whole line")
            return None
        if any("." in values[place] for place in self.job):
            return None
        return "|".join(self.value(name, values[place]) for place, name in self.columns)

    def value(self, name: str, text: str) -> str:
        """Give what is dumped of a value; nothing if it does not look as its column should."""
        if name == "NodeList":
            return "" if text == "None assigned" else ",".join(self.pseudonyms.of("h", node) for node in nodes(text))
        if name in HIDDEN:
            return self.pseudonyms.of(HIDDEN[name], text)
        pattern = KEPT[name]
        if pattern is None:
            return resources(text)
        if name == "State":  # CANCELLED by 1001
            text = text.partition(" ")[0].rstrip("+")
        if re.fullmatch(pattern, text, re.ASCII):
            return shifted(text, self.shift_days) if name in TIMES else text
        if text:
            self.count(name)
        return ""

    def count(self, what: str) -> None:
        """Count what was left out."""
        self.left_out[what] = self.left_out.get(what, 0) + 1


def read_key(path: str) -> bytes:
    """Read the key, or make one."""
    if not os.path.exists(path):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(32))
    with open(path, "rb") as file:
        key = file.read()
    if len(key) < 16:
        raise SystemExit(
            "slurm_dump: the key file is too short: %s has %d bytes, expected 16 or more" % (path, len(key))
        )
    return key


def main() -> None:
    """Dump."""
    parser = argparse.ArgumentParser(description="Dump the accounting of a Slurm cluster under pseudonyms.")
    parser.add_argument("--key-file", required=True, metavar="FILE", help="the key of the pseudonyms; made if missing")
    parser.add_argument("--start", metavar="TIME", help="first day, as of sacct --starttime")
    parser.add_argument("--end", metavar="TIME", help="last day, as of sacct --endtime")
    parser.add_argument("--clusters", metavar="NAMES", help="as of sacct --clusters")
    parser.add_argument("--shift-days", type=int, default=0, metavar="N", help="move all times by so many days")
    parser.add_argument("--stdin", action="store_true", help="read what sacct printed instead of running it")
    given = parser.parse_args()
    key = read_key(given.key_file)
    command = ["sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--format=" + FIELDS]
    for option, value in (("start", given.start), ("end", given.end)):
        command += ["--%stime=%s" % (option, value)] if value else []
    command += ["--clusters=" + given.clusters] if given.clusters else []
    sacct = None  # type: subprocess.Popen[str] | None
    if given.stdin:
        lines = open(0, encoding="utf-8", errors="surrogateescape")  # type: IO[str]
    else:
        environment = dict(os.environ, SLURM_TIME_FORMAT="%s", LC_ALL="C")  # seconds since 1970: no time zone to tell
        try:
            sacct = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", errors="surrogateescape"
            )
        except OSError as error:
            raise SystemExit("slurm_dump: sacct cannot be run: %s" % error.strerror)
        assert sacct.stdout is not None
        lines = sacct.stdout
    dump = Dump(next(lines, ""), key, given.shift_days)
    print(dump.header())
    for line in lines:
        found = dump.line(line) if line.strip() else None
        if found is not None:
            print(found)
    for what, count in sorted(dump.left_out.items()):
        print("slurm_dump: left out %d times: %s, which did not look as it should" % (count, what), file=sys.stderr)
    if sacct is not None and sacct.wait():
        raise SystemExit("slurm_dump: sacct ended with status %d: the dump is not whole" % sacct.returncode)


if __name__ == "__main__":
    main()
