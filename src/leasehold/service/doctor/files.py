"""The gateway's files: its configuration, its data folder, its token, and room for more."""

import os
import shutil
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.auth.first_token import FILE_NAME, read_token_file
from leasehold.service.config_text import without_password
from leasehold.service.doctor.finding import Finding, note, ok, problem, warning
from leasehold.service.doctor.subject import Subject, is_open_to_others

_MIB = 2**20
_LITTLE_MIB = 1_024
_TOO_LITTLE_MIB = 100


def check_configuration(subject: Subject) -> list[Finding]:
    """Where is the configuration from, and is what is secret in it kept so?"""
    file, store = subject.config_file, subject.config.service.store
    if file is None:
        return [ok("no configuration file: everything is as usual")]
    if store != without_password(store) and is_open_to_others(file):
        cure = f"chmod 600 {file}, or put the password into a file that PGPASSFILE names"
        return [problem(f"{file} has the store's password in it, and others can read it", cure)]
    return [ok(f"{file} is well-formed")]


def check_data_folder(subject: Subject) -> list[Finding]:
    """Can the gateway write to its folder, and nobody else read it?"""
    folder = subject.place.folder
    if not folder.exists():
        return _missing(folder)
    if not folder.is_dir():
        return [problem(f"{folder} is no folder", "name another one with --data or LEASEHOLD_DATA")]
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [
            problem(
                f"{folder} cannot be written to by this user", f"chown it: ls -ld {folder} says whose it is"
            )
        ]
    if is_open_to_others(folder):
        return [warning(f"{folder} can be entered by others: the store is in it", f"chmod 700 {folder}")]
    return [ok(f"{folder} belongs to this user alone")]


def _missing(folder: Path) -> list[Finding]:
    above = next(path for path in folder.parents if path.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        cure = "name another one with --data or LEASEHOLD_DATA"
        return [problem(f"{folder} is not there, and cannot be made in {above}", cure)]
    return [note(f"{folder} is not there yet", "leasehold serve makes it")]


def check_token(subject: Subject) -> list[Finding]:
    """Is the administrator's token there for its owner, and for nobody else?"""
    path = subject.place.folder / FILE_NAME
    if not os.path.lexists(path):
        return [note(f"{path} is not there", "leasehold serve makes it at its first start")]
    try:
        read_token_file(path)
    except InputError as error:
        cure = "if somebody else may have read it, revoke that token; without the file, a start makes another"
        return [problem(str(error), cure)]
    return [ok(f"{path} can be read by its owner alone")]


def check_disk_space(subject: Subject) -> list[Finding]:
    """Is there room for what a gateway writes?"""
    folder = subject.place.folder
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return [_room(shutil.disk_usage(there).free // _MIB, there)]


def _room(free_mib: int, where: Path) -> Finding:
    text = f"{free_mib} MiB are free at {where}"
    if free_mib < _TOO_LITTLE_MIB:
        return problem(text, "make room: without it no request can be taken in")
    if free_mib < _LITTLE_MIB:
        return warning(text, "make room, or put the data folder elsewhere")
    return ok(text)
