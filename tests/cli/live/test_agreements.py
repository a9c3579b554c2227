"""``leasehold agreement``, as it looks."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, problem

from leasehold.cli.live.names import SIDES, complete_agreement, complete_side
from leasehold.configuration.agreements import agreement_schema
from leasehold.sharing.records import AgreementSide

TERMS: dict[str, Any] = {
    "name": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "kind": "commitment",
    "epoch_share": 0.3, "epoch_s": 1200, "burst_share": 0.6, "burst_s": 300,
}  # fmt: skip
SIGNED = {"by": "operators", "at": MOMENT}
FILE = """\
[[agreement]]
name = "atlas-at-das3"
provider = "das3"
consumer = "atlas"
kind = "commitment"
epoch_share = 0.3
epoch_s = 1200
burst_share = 0.6
burst_s = 300
"""
PATH = "/v1/agreements/atlas-at-das3"


def revision(number: int = 1, **said: Any) -> dict[str, Any]:
    told = {"revision": number, "terms": TERMS, "drawn_up": SIGNED, "provider": SIGNED, "consumer": SIGNED}
    return told | said


def agreement(name: str = "atlas-at-das3", **said: Any) -> dict[str, Any]:
    told = {
        "name": name, "standing": "signed", "in_force": True, "current": revision(), "since": MOMENT,
        "since_by": "operators", "amendment": None, "published": True, "note": "",
    }  # fmt: skip
    return told | said


PROPOSED = agreement(standing="proposed", in_force=False, current=revision(provider=None, consumer=None))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "atlas.toml"
    path.write_text(FILE)
    return path


class TestLooking:
    def test_a_list_says_what_each_gives_and_who_has_still_to_sign(self, cli: Cli, gateway: Gateway) -> None:
        decay = TERMS | {"kind": "decay", "share": 0.25, "window_s": 600, "lending_limit": 4}
        del decay["epoch_share"]
        others = [
            agreement("free", current=revision(terms={**TERMS, "kind": "no-limit"}), amendment=None),
            agreement("faded", current=revision(terms=decay), amendment=revision(2, consumer=None)),
            agreement("old", standing="revoked", in_force=False),
        ]
        del others[0]["current"]["terms"]["epoch_share"]
        gateway.answer("GET", "/v1/agreements", Reply(body={"agreements": [agreement(), *others]}))
        rows = [re.split(r"  +", row) for row in cli("agreement", "list").out.splitlines()]
        between = ["das3", "atlas"]
        assert rows == [
            ["NAME", "STANDING", "FORCE", "PROVIDER", "CONSUMER", "GIVES", "REV", "TO_SIGN"],
            ["atlas-at-das3", "signed", "yes", *between, "30%/20 min and 60%/5 min", "1"],
            ["free", "signed", "yes", *between, "no limit", "1"],
            ["faded", "signed", "yes", *between, "25% decayed/10 min, at most 4", "1", "consumer"],
        ]
        assert "old" in cli("agreement", "list", "--all").out

    def test_what_is_passed_on_gives_its_part_of_what_its_parent_gives(self, cli: Cli, gateway: Gateway) -> None:
        half = {"consumer": "atlas/prod", "epoch_share": 0.5, "burst_share": 0.5, "relative": True}
        part = revision(terms=TERMS | half | {"name": "prod", "parent": "atlas-at-das3"})
        listed = [agreement(), agreement("prod", current=part)]
        replies = [Reply(body={"agreements": told}) for told in (listed, listed[1:])]
        gateway.answer("GET", "/v1/agreements", *replies)
        assert "15%/20 min and 30%/5 min" in cli("agreement", "list").out.splitlines()[2]
        assert "50%/20 min and 50%/5 min of atlas-at-das3" in cli("agreement", "list").out.splitlines()[1]

    def test_as_json(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/agreements", Reply(body={"agreements": [agreement()]}))
        assert json.loads(cli("agreement", "list", "--json").out)["agreements"] == [agreement()]

    def test_one_in_full(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", PATH, Reply(body=agreement(amendment=revision(2, consumer=None))))
        out = cli("agreement", "show", "atlas-at-das3").out
        assert out.startswith("atlas-at-das3 (revision 1) is signed, in force\n")
        for line in (
            "  seen by     everybody",
            "  terms       revision 1, 30%/20 min and 60%/5 min",
            "              burst_s = 300",
            "  amendment   revision 2, 30%/20 min and 60%/5 min",
            "              for the consumer: not signed yet",
        ):
            assert line in out.splitlines()

    def test_the_schema_is_json(self, cli: Cli) -> None:
        assert json.loads(cli("agreement", "schema").out) == agreement_schema()

    def test_penalties(self, cli: Cli, gateway: Gateway) -> None:
        standing = {
            "id": 3, "agreement": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "points": 10,
            "stands": True, "since": MOMENT, "until": None, "lease": 42, "lifted_at": None, "lifted_by": "",
        }  # fmt: skip
        over = standing | {"id": 2, "stands": False, "lifted_at": MOMENT, "lifted_by": "operators"}
        gateway.answer("GET", "/v1/penalties", Reply(body={"penalties": [standing, over]}))
        assert cli("agreement", "penalties").out.splitlines() == [
            "ID  AGREEMENT      PROVIDER  CONSUMER  POINTS  SINCE                UNTIL         LEASE  NOTE",
            " 3  atlas-at-das3  das3      atlas         10  2026-11-21 10:43:36  it is lifted     42",
        ]
        assert "lifted by operators" in cli("agreement", "penalties", "--all").out
        gateway.answer("POST", "/v1/penalties/3/lift", Reply(body=over | {"id": 3}))
        assert cli("agreement", "lift", "3").out == "penalty 3 of atlas at das3 is lifted\n"


class TestMoving:
    def test_a_proposal_says_what_is_still_to_be_done(self, cli: Cli, gateway: Gateway, file: Path) -> None:
        gateway.answer("POST", "/v1/agreements", Reply(201, PROPOSED))
        said = cli("agreement", "propose", str(file))
        assert (said.code, said.out) == (0, "atlas-at-das3 (revision 1) is proposed, not in force\n")
        assert said.err.splitlines() == [
            f"leasehold: the {side} has to sign revision 1: "
            f"leasehold agreement sign atlas-at-das3 --as {side} --revision 1"
            for side in ("provider", "consumer")
        ]
        assert gateway.asked[0].body == TERMS

    def test_an_amendment(self, cli: Cli, gateway: Gateway, file: Path) -> None:
        gateway.answer("PUT", PATH, Reply(body=agreement(amendment=revision(2, consumer=None))))
        said = cli("agreement", "amend", str(file))
        assert said.out == "atlas-at-das3 (revision 1) is signed, in force\n"
        assert "the consumer has to sign revision 2" in said.err

    def test_a_file_that_is_wrong_is_told_with_its_line(self, cli: Cli, gateway: Gateway, file: Path) -> None:
        file.write_text(FILE.replace("0.3", "30"))
        said = cli("agreement", "propose", str(file))
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith(f"leasehold: {file}:6: agreement[0].epoch_share: got 30")

    def test_without_a_revision_the_one_that_waits_is_signed(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", PATH, Reply(body=agreement(amendment=revision(2, consumer=None))))
        gateway.answer("POST", f"{PATH}/sign", Reply(body=agreement(current=revision(2))))
        said = cli("agreement", "sign", "atlas-at-das3", "--as", "consumer")
        assert said.out == "atlas-at-das3 (revision 2) is signed, in force\n"
        assert gateway.asked[1].body == {"side": "consumer", "revision": 2}

    def test_a_revision_that_was_read_is_signed_and_no_other(self, cli: Cli, gateway: Gateway) -> None:
        refusal = problem(409, "agreement-move", "agreement atlas-at-das3: got 'revision 1', expected ...")
        gateway.answer("POST", f"{PATH}/sign", refusal)
        said = cli("agreement", "sign", "atlas-at-das3", "--as", "provider", "--revision", "1")
        assert (said.code, said.err) == (
            1,
            "leasehold: agreement atlas-at-das3: got 'revision 1', expected ...\n",
        )
        assert gateway.asked[0].body == {"side": "provider", "revision": 1}

    def test_for_nobody_nothing_is_signed(self, cli: Cli, gateway: Gateway) -> None:
        said = cli("agreement", "sign", "atlas-at-das3", "--as", "witness")
        assert (said.code, gateway.asked) == (2, [])
        assert said.err == "leasehold: --as: got 'witness', expected one of provider, consumer\n"

    def test_a_part_is_passed_on_on_the_same_terms(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", PATH, Reply(body=agreement()))
        gateway.answer("POST", "/v1/agreements", Reply(201, PROPOSED | {"name": "prod"}))
        options = ["--name", "prod", "--to", "atlas/production", "--share", "0.5"]
        cli("agreement", "delegate", "atlas-at-das3", *options)
        assert gateway.asked[1].body == {
            **TERMS, "name": "prod", "consumer": "atlas/production", "parent": "atlas-at-das3",
            "relative": True, "epoch_share": 0.5, "burst_share": 0.5,
        }  # fmt: skip

    def test_of_no_limit_there_is_no_part(self, cli: Cli, gateway: Gateway) -> None:
        free = {key: TERMS[key] for key in ("name", "provider", "consumer")} | {"kind": "no-limit"}
        gateway.answer("GET", PATH, Reply(body=agreement(current=revision(terms=free))))
        options = ["--name", "prod", "--to", "atlas/production", "--share", "0.5"]
        said = cli("agreement", "delegate", "atlas-at-das3", *options)
        assert said.code == 2
        assert "expected an agreement with a limit" in said.err

    @pytest.mark.parametrize(
        ("command", "body", "found", "said"),
        [
            (
                ["suspend", "--note", "x"],
                {"note": "x"},
                {"standing": "suspended"},
                "is suspended, not in force",
            ),
            (["resume"], None, {"in_force": True}, "is signed, in force"),
            (
                ["revoke"],
                {"note": ""},
                {"standing": "revoked", "note": "over"},
                "revoked, not in force: over",
            ),
            (["publish"], {"published": True}, {}, "can be seen by everybody"),
            (["publish", "--withdraw"], {"published": False}, {"published": False}, "only its parties"),
        ],
    )
    def test_the_other_moves(
        self, cli: Cli, gateway: Gateway, command: list[str], body: Any, found: dict[str, Any], said: str
    ) -> None:
        told = agreement(**({"in_force": False} | found))
        gateway.answer("POST", f"{PATH}/{command[0]}", Reply(body=told))
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": []}))
        answer = cli("agreement", command[0], "atlas-at-das3", *command[1:])
        assert said in answer.out
        moved = next(asked for asked in gateway.asked if asked.method == "POST")
        assert moved.body == body
        as_json = cli("agreement", command[0], "atlas-at-das3", *command[1:], "--json")
        assert json.loads(as_json.out)["agreement"] == told


class TestCompletion:
    def test_of_sides(self) -> None:
        assert set(SIDES) == set(AgreementSide)
        assert complete_side("p") == ["provider"]

    def test_of_agreements(self, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/agreements", Reply(body={"agreements": [agreement(), agreement("b")]}))
        assert complete_agreement("at") == ["atlas-at-das3"]
