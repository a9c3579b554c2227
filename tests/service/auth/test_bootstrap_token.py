"""The first administrator's token: there before anybody can ask, for its owner alone, and only once."""

import stat
from pathlib import Path

import pytest
from tests.service.auth.stores import NOW_MS, Clock, MemoryTokens

from leasehold.model.errors import InputError
from leasehold.service.auth.bootstrap_token import bootstrap_admin_token, read_token_file, renew_admin_token
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Tokens, new_text
from leasehold.service.store.rows import TokenRow

ADMIN = Principal("operator", frozenset({Role.FEDERATION_ADMIN}))
MEMBER = Principal("physics", frozenset({Role.MEMBER}))


class Killed(Exception):
    """Stands for a process that ended in the middle."""


@pytest.fixture
def store() -> MemoryTokens:
    return MemoryTokens()


def owner_of(store: MemoryTokens, path: Path | None) -> Principal:
    assert path is not None
    return Tokens(store, Clock()).find(read_token_file(path))


def token_in(folder: Path, mode: int = 0o600) -> str:
    """Put a token into the file as if it had been made there."""
    text = new_text()
    (folder / "admin.token").touch(mode)
    (folder / "admin.token").write_text(f"{text}\n")
    return text


def test_the_first_start_leaves_a_token_that_only_its_owner_can_read(store: MemoryTokens, tmp_path: Path) -> None:
    path = bootstrap_admin_token(store, tmp_path, NOW_MS)
    assert path == tmp_path / "admin.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert owner_of(store, path).roles == {Role.FEDERATION_ADMIN}
    assert list(tmp_path.iterdir()) == [path]


def test_a_later_start_changes_nothing(store: MemoryTokens, tmp_path: Path) -> None:
    path = bootstrap_admin_token(store, tmp_path, NOW_MS)
    before = read_token_file(tmp_path / "admin.token")
    assert bootstrap_admin_token(store, tmp_path, NOW_MS + 1) == path
    assert read_token_file(tmp_path / "admin.token") == before
    assert len(store.rows) == 1


def test_a_start_that_was_killed_before_the_store_knew_is_finished_by_the_next(tmp_path: Path) -> None:
    class Dying(MemoryTokens):
        def add_token(self, row: TokenRow) -> None:
            del row
            raise Killed

    with pytest.raises(Killed):
        bootstrap_admin_token(Dying(), tmp_path, NOW_MS)
    written, store = read_token_file(tmp_path / "admin.token"), MemoryTokens()
    assert owner_of(store, bootstrap_admin_token(store, tmp_path, NOW_MS)).roles == {Role.FEDERATION_ADMIN}
    assert read_token_file(tmp_path / "admin.token") == written


def test_a_new_store_takes_the_token_of_the_folder_in(store: MemoryTokens, tmp_path: Path) -> None:
    token_in(tmp_path)
    assert owner_of(store, bootstrap_admin_token(store, tmp_path, NOW_MS)).consumer == "operator"


def test_a_token_is_not_taken_in_beside_another_administrators(store: MemoryTokens, tmp_path: Path) -> None:
    Tokens(store, Clock()).issue(ADMIN)
    token_in(tmp_path)
    assert bootstrap_admin_token(store, tmp_path, NOW_MS) is None
    assert len(store.rows) == 1


def test_a_file_that_was_taken_away_does_not_come_back_while_there_is_an_administrator(
    store: MemoryTokens, tmp_path: Path
) -> None:
    bootstrap_admin_token(store, tmp_path, NOW_MS)
    (tmp_path / "admin.token").unlink()
    assert bootstrap_admin_token(store, tmp_path, NOW_MS) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_without_a_file_and_a_live_administrator_another_is_made(store: MemoryTokens, tmp_path: Path, end: str) -> None:
    clock = Clock()
    tokens = Tokens(store, clock)
    tokens.issue(MEMBER)
    row, _ = tokens.issue(ADMIN, expires_in_ms=1_000)
    if end == "revoked":
        tokens.revoke(row.id)
    clock.now_ms += 1_000
    assert owner_of(store, bootstrap_admin_token(store, tmp_path, clock.now_ms)).roles == {Role.FEDERATION_ADMIN}


def test_a_token_that_was_revoked_on_purpose_stays_revoked(store: MemoryTokens, tmp_path: Path) -> None:
    path = bootstrap_admin_token(store, tmp_path, NOW_MS)
    store.revoke_token(owner_of(store, path).token_id, NOW_MS)
    assert bootstrap_admin_token(store, tmp_path, NOW_MS) is None
    assert len(store.rows) == 1


def test_whoever_lost_everything_but_the_folder_gets_a_new_one(store: MemoryTokens, tmp_path: Path) -> None:
    lost = bootstrap_admin_token(store, tmp_path, NOW_MS)
    assert lost is not None
    lost.unlink()
    kept, _ = Tokens(store, Clock()).issue(ADMIN, note="of somebody else")
    path = renew_admin_token(store, tmp_path, NOW_MS)
    assert owner_of(store, path).roles == {Role.FEDERATION_ADMIN}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [row.revoked_ms for row in store.rows.values()] == [NOW_MS, None, None]
    assert store.rows[kept.id].revoked_ms is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_can_open_is_not_relied_on(store: MemoryTokens, tmp_path: Path, mode: int) -> None:
    text = token_in(tmp_path)
    (tmp_path / "admin.token").chmod(mode)
    with pytest.raises(InputError, match="can be read by others") as error:
        bootstrap_admin_token(store, tmp_path, NOW_MS)
    assert text not in str(error.value)
    assert not store.rows


def test_a_link_is_not_followed(store: MemoryTokens, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    token_in(tmp_path / "elsewhere")
    (tmp_path / "admin.token").symlink_to(tmp_path / "elsewhere" / "admin.token")
    with pytest.raises(InputError, match="cannot be read"):
        bootstrap_admin_token(store, tmp_path, NOW_MS)


def test_a_link_to_nowhere_is_not_taken_for_a_missing_file(store: MemoryTokens, tmp_path: Path) -> None:
    (tmp_path / "admin.token").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be read"):
        bootstrap_admin_token(store, tmp_path, NOW_MS)


def test_a_folder_of_that_name_is_no_token(store: MemoryTokens, tmp_path: Path) -> None:
    (tmp_path / "admin.token").mkdir(0o700)
    with pytest.raises(InputError, match="is not a regular file"):
        bootstrap_admin_token(store, tmp_path, NOW_MS)


@pytest.mark.parametrize("content", [b"", b"lh_", b"a secret of another kind", b"\x00\xff" * 9])
def test_a_file_without_a_token_is_named_and_not_quoted(store: MemoryTokens, tmp_path: Path, content: bytes) -> None:
    token_in(tmp_path)
    (tmp_path / "admin.token").write_bytes(content)
    with pytest.raises(InputError) as error:
        bootstrap_admin_token(store, tmp_path, NOW_MS)
    assert str(error.value) == (
        f"{tmp_path / 'admin.token'}: does not hold a token; remove it, and a new one is created at the next start"
    )
