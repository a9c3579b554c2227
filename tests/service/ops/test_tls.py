"""Certificates and keys that can be used, and what is said of those that cannot."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leasehold.model.errors import InputError
from leasehold.service.tls import check_key_pair, valid_until

Pair = tuple[Path, Path]


def test_a_pair_is_good(key_pair: Callable[..., Pair]) -> None:
    certificate, key = key_pair()
    check_key_pair(certificate, key)
    assert valid_until(certificate) > datetime.now(UTC) + timedelta(days=80)


def test_a_key_of_another_certificate_is_not(key_pair: Callable[..., Pair], tmp_path: Path) -> None:
    other = key_pair()[1].rename(tmp_path / "other.key")
    with pytest.raises(InputError, match=r"tls\.crt: cannot be used with the key .*other\.key: KEY_VALUES_MISMATCH"):
        check_key_pair(key_pair()[0], other)


def test_nor_one_with_a_password_and_nobody_is_asked_for_it(key_pair: Callable[..., Pair]) -> None:
    with pytest.raises(InputError, match="cannot be used with the key"):
        check_key_pair(*key_pair(password=b"secret"))


def test_a_file_that_is_not_there_is_named(key_pair: Callable[..., Pair], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.key: cannot be read: No such file"):
        check_key_pair(key_pair()[0], tmp_path / "missing.key")


def test_a_file_without_a_certificate_says_nothing_about_validity(key_pair: Callable[..., Pair]) -> None:
    with pytest.raises(InputError, match=r"tls\.key: has no certificate in it"):
        valid_until(key_pair()[1])
