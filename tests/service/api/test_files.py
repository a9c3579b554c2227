"""Files over HTTP: in pieces, resumed, read in part; and the jobs that read and leave them."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import FileResponse
from tests.service.api.house import SETTINGS, House, house_in
from tests.service.api.job_house import asked, furnished, over, submit

from leasehold.service.auth.limits import RateLimit

CONTENT = b"the sky, " * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    with furnished(tmp_path) as house:
        yield house


def announced(house: House, token: str, content: bytes = CONTENT, name: str = "sky.txt") -> dict[str, Any]:
    spec = {"sha256": hashlib.sha256(content).hexdigest(), "name": name, "size_bytes": len(content)}
    answer = house.ask("POST", "/v1/files", token, json=spec)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def write(house: House, token: str, offset: int, piece: bytes, content: bytes = CONTENT) -> Any:
    sha256 = hashlib.sha256(content).hexdigest()
    said = {"Content-Range": f"bytes {offset}-{offset + len(piece) - 1}/{len(content)}"}
    return house.ask("PUT", f"/v1/files/{sha256}/content", token, content=piece, headers=said)


def stored(house: House, token: str, content: bytes = CONTENT, name: str = "sky.txt") -> dict[str, Any]:
    announced(house, token, content, name)
    written = write(house, token, 0, content, content).json()
    assert written["is_complete"], written
    return {"name": name, "size_bytes": len(content), "sha256": written["sha256"]}


def test_a_file_comes_in_pieces_and_is_continued_where_it_was(house: House) -> None:
    token = house.token()
    assert announced(house, token)["received_bytes"] == 0
    assert write(house, token, 0, CONTENT[:5000]).json()["received_bytes"] == 5000
    late = write(house, token, 0, CONTENT[:5000])
    assert (late.status_code, late.json()["detail"]) == (409, "'sky.txt': the piece begins at 0, expected 5000")
    assert announced(house, token)["received_bytes"] == 5000
    assert write(house, token, 5000, CONTENT[5000:]).json()["is_complete"]
    [listed] = house.ask("GET", "/v1/files", token).json()["files"]
    assert (listed["name"], listed["sha256"], listed["is_complete"]) == ("sky.txt", SHA256, True)
    assert house.ask("GET", f"/v1/files/{SHA256}/content", token).content == CONTENT
    part = house.ask("GET", f"/v1/files/{SHA256}/content", token, headers={"Range": "bytes=4-8"})
    assert (part.status_code, part.content) == (206, CONTENT[4:9])
    other = house.token(consumer="chemistry")
    assert house.ask("GET", f"/v1/files/{SHA256}/content", other).status_code == 404
    assert house.ask("DELETE", f"/v1/files/{SHA256}", other).status_code == 404
    assert house.ask("DELETE", f"/v1/files/{SHA256}", token).status_code == 204
    assert house.ask("GET", f"/v1/files/{SHA256}", token).status_code == 404


def test_a_piece_may_be_larger_than_any_other_body_and_no_larger_than_a_piece(house: House) -> None:
    token = house.token()
    large = bytes(4 << 20)
    assert announced(house, token, large)["received_bytes"] == 0
    assert write(house, token, 0, large, large).json()["is_complete"]
    assert write(house, token, 0, bytes((4 << 20) + 1), large).status_code == 413


@pytest.mark.parametrize("said", ["", "bytes 0-5/9000", "bytes x-y/z", "bytes 5-0/9000"])
def test_where_a_piece_belongs_has_to_be_said(house: House, said: str) -> None:
    token = house.token()
    announced(house, token)
    answer = house.ask("PUT", f"/v1/files/{SHA256}/content", token, content=b"1234", headers={"Content-Range": said})
    assert (answer.status_code, answer.json()["field"]) == (422, "Content-Range")


def test_a_job_reads_its_input_and_what_it_leaves_is_kept(house: House) -> None:
    token = house.token()
    inputs = [stored(house, token)]
    command = ["sh", "-c", "cp sky.txt copy.txt; cat copy.txt"]
    job = submit(house, token, command=command, inputs=inputs, outputs=["copy.txt", "missing"])
    assert job["needs"]["inputs"] == [inputs[0] | {"place": ""}]
    assert over(house, token, job["id"])["state"] == "completed"
    result = house.ask("GET", f"/v1/jobs/{job['id']}/result", token).json()
    assert result["output"] == CONTENT.decode()
    assert result["files"] == [
        {"name": "copy.txt", "sha256": SHA256, "size_bytes": len(CONTENT), "problem": ""},
        {"name": "missing", "sha256": "", "size_bytes": 0, "problem": "the command left no file of this name"},
    ]
    assert house.ask("GET", f"/v1/jobs/{job['id']}/files/copy.txt", token).content == CONTENT
    assert house.ask("GET", f"/v1/jobs/{job['id']}/files/missing", token).status_code == 404
    other = house.token(consumer="chemistry")
    assert house.ask("GET", f"/v1/jobs/{job['id']}/files/copy.txt", other).status_code == 404


def test_a_job_whose_input_went_before_it_began_says_so(house: House) -> None:
    token = house.token()
    held = submit(house, token, command=["sleep", "3600"], memory_mib=60_000)
    inputs = [stored(house, token)]
    job = submit(house, token, command=["cat", "sky.txt"], inputs=inputs, memory_mib=60_000, restarts=0)
    assert (held["state"], job["state"]) == ("starting", "waiting")
    house.ask("DELETE", f"/v1/files/{SHA256}", token)
    house.ask("DELETE", f"/v1/jobs/{held['id']}", token)
    done = over(house, token, job["id"])
    assert done["state"] == "failed"
    assert "input 'sky.txt' is not stored any more" in done["attempts"][-1]["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"sha256": "0" * 64}, "inputs[0].sha256"),
        ({"sha256": "short"}, "inputs[0].sha256"),
        ({"size_bytes": 1}, "inputs[0].size_bytes"),
        ({"name": "../sky.txt"}, "inputs[0].name"),
        ({"name": ".."}, "inputs[0].name"),
    ],
)
def test_an_input_that_is_not_there_is_refused(house: House, wrong: dict[str, Any], field: str) -> None:
    token = house.token()
    said = asked(inputs=[stored(house, token) | wrong])
    answer = house.ask("POST", "/v1/jobs", token, json=said)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_part_that_the_file_does_not_have_is_a_problem_and_says_the_size(house: House) -> None:
    token = house.token()
    stored(house, token)

    def part(said: str) -> Any:
        return house.ask("GET", f"/v1/files/{SHA256}/content", token, headers={"Range": said})

    beyond = part("bytes=9000-9001")
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, "bytes */9000")
    assert beyond.json()["detail"] == "Range: got 'bytes=9000-9001', expected a part of 9000 bytes"
    malformed = part("nights=1-2")
    assert (malformed.status_code, malformed.json()["field"]) == (422, "Range")
    assert part("bytes=0-1").headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("said", ["", "bytes=4-8"])
@pytest.mark.parametrize("when", ["before it is looked at", "before it is opened"])
def test_a_file_that_is_removed_while_it_is_asked_for_is_none(
    house: House, monkeypatch: pytest.MonkeyPatch, when: str, said: str
) -> None:
    token = house.token()
    stored(house, token)
    name = "__call__" if when == "before it is looked at" else "_open_file"
    original = getattr(FileResponse, name)

    def too_late(response: FileResponse, *rest: Any) -> Any:
        Path(response.path).unlink()
        return original(response, *rest)

    monkeypatch.setattr(FileResponse, name, too_late)
    headers = {"Range": said} if said else {}
    answer = house.ask("GET", f"/v1/files/{SHA256}/content", token, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (404, f"no file with SHA-256 {SHA256}")


def test_an_array_counts_as_many_submissions_as_it_has_jobs(tmp_path: Path) -> None:
    limits = replace(SETTINGS, submissions=RateLimit(0.001, 5))
    with house_in(tmp_path, limits) as house:
        house.wait_for_nodes(2)
        token = house.token()
        many = house.ask("POST", "/v1/jobs", token, json=asked(array=[1, 2, 3, 4, 5]))
        assert many.status_code == 201, many.text
        assert house.ask("POST", "/v1/jobs", token, json=asked()).status_code == 429
