"""``leasehold demo``: two runs of the same requests, compared."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.saying import Cli

REQUEST = ["lease_id", "source", "origin", "lease_type", "vms", "requested_ms", "actual_ms", "submit_ms"]


@pytest.mark.soak
class TestDemo:
    def test_meets_both_policies_with_the_same_requests(self, cli: Cli) -> None:
        said = cli("demo", "--quick", "--out", "demo")
        assert said.code == 0
        first, second = (
            pl.read_parquet(f"demo/{policy}/leases.parquet").select(REQUEST).sort("lease_id")
            for policy in ("rr", "pap-rtdp")
        )
        assert first.equals(second)
        assert first.height > 1000
        lines = said.out.splitlines()
        assert "Report: demo/report.html" in lines
        assert any(line.startswith("leases preempted ") for line in lines)
        for policy in ("rr", "pap-rtdp"):
            assert cli("sim", "validate", f"demo/{policy}").code == 0

    def test_json_has_both_runs_and_the_comparison(self, cli: Cli) -> None:
        said = cli("demo", "--quick", "--json", "--seed", "3", "--out", "demo")
        answer = json.loads(said.out)
        assert said.err == ""
        assert (answer["schema_version"], answer["folder"]) == (1, "demo")
        assert {name: run["seed"] for name, run in answer["runs"].items()} == {"rr": 3, "pap-rtdp": 3}
        assert {"leases_preempted", "awrt_s"} <= {row["metric"] for row in answer["comparison"]}
        assert Path(answer["report"]).is_file()
        replay = "leasehold sim run demo --routing rr --seed 3 --horizon 21600"
        assert answer["runs"]["rr"]["replay"] == replay

    def test_replaces_an_earlier_one_by_force(self, cli: Cli) -> None:
        assert cli("demo", "--quick", "--out", "demo", "--quiet").code == 0
        assert cli("demo", "--quick", "--out", "demo", "--quiet").code == 2
        assert cli("demo", "--quick", "--out", "demo", "--quiet", "--force").code == 0
