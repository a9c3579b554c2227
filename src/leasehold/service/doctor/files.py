"""The gateway's files: its configuration, its data folder, its token, and room for more."""

import os
import shutil
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.auth.first_token import FILE_NAME, read_token_file
from leasehold.service.config_file import without_password
from leasehold.service.doctor.finding import Finding, note, ok, problem, warning
from leasehold.service.doctor.subject import Subject, is_open_to_others

_MIB = 2**20
_LITTLE_MIB = 1_024
_TOO_LITTLE_MIB = 100


def check_configuration(subject: Subject) -> list[Finding]:
    """Where is the configuration from, and is what is secret in it kept so?"""
    file, store = subject.config_file, subject.config.service.store
    if file is None:
        return [ok("no configuration file found; using defaults")]
    if store != without_password(store) and is_open_to_others(file):
        cure = f"chmod 600 {file}, or move the password to the file that PGPASSFILE names"
        return [problem(f"{file} contains the store's password and is readable by others", cure)]
    return [ok(f"{file} is well-formed")]


def check_data_folder(subject: Subject) -> list[Finding]:
    """Can the gateway write to its folder, and nobody else read it?"""
    folder = subject.place.folder
    if not folder.exists():
        return _missing(folder)
    if not folder.is_dir():
        return [problem(f"{folder} is not a folder", "name another one with --data or LEASEHOLD_DATA")]
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [problem(f"{folder} is not writable by this user", f"chown it: ls -ld {folder} says whose it is")]
    if is_open_to_others(folder):
        return [warning(f"others can enter {folder}, which holds the store", f"chmod 700 {folder}")]
    return [ok(f"only this user can enter {folder}")]


def _missing(folder: Path) -> list[Finding]:
    above = next(path for path in folder.parents if path.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        cure = "name another one with --data or LEASEHOLD_DATA"
        return [problem(f"{folder} does not exist and cannot be created in {above}", cure)]
    return [note(f"{folder} does not exist yet", "leasehold serve creates it")]


def check_token(subject: Subject) -> list[Finding]:
    """Is the administrator's token there for its owner, and for nobody else?"""
    path = subject.place.folder / FILE_NAME
    if not os.path.lexists(path):
        return [note(f"{path} does not exist", "leasehold serve creates it when it first starts")]
    try:
        read_token_file(path)
    except InputError as error:
        cure = "if others may have read it, revoke that token; without the file, a start creates a new one"
        return [problem(str(error), cure)]
    return [ok(f"{path} is readable by its owner only")]


def check_disk_space(subject: Subject) -> list[Finding]:
    """Is there room for what a gateway writes?"""
    folder = subject.place.folder
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return [_room(shutil.disk_usage(there).free // _MIB, there)]


def _room(free_mib: int, where: Path) -> Finding:
    text = f"{free_mib} MiB are free at {where}"
    if free_mib < _TOO_LITTLE_MIB:
        return problem(text, "free some space: without it no request can be accepted")
    if free_mib < _LITTLE_MIB:
        return warning(text, "free some space, or move the data folder")
    return ok(text)
