"""The sites of Slurm: can they be opened, and are guests kept from the gateway and from each other?"""

from collections.abc import Sequence
from pathlib import Path

from leasehold.service.config import SiteSpec
from leasehold.service.doctor.finding import Finding, ok, problem, warning
from leasehold.service.doctor.subject import Subject
from leasehold.service.drivers.slurm.options import read_options
from leasehold.service.drivers.slurm.users import site_faults

KIND = "slurm"
_CURES = {
    "user": 'make a Unix user for guests, and name it: user = "..." or users = {...} in [cluster.slurm]',
    "run_as_gateway": 'take it out, and name a user: user = "..." in [cluster.slurm]',
    "job_folder": 'name a folder that all nodes see: job_folder = "/shared/leasehold" in [cluster.slurm]',
    "conf": "correct conf in [cluster.slurm], or leave it out where squeue works without",
}


def check_slurm_sites(subject: Subject) -> list[Finding]:
    """Can every site of Slurm be opened, and who are guests there? Silent where there is none."""
    private = (subject.place.folder, subject.place.work)
    sites = [site for site in subject.config.clusters if site.driver == KIND]
    return [finding for site in sites for finding in _check_site(site, private)]


def _check_site(site: SiteSpec, private: Sequence[Path]) -> list[Finding]:
    options = read_options(site.options)
    faults = list(site_faults(options, [folder for folder in dict.fromkeys(private) if folder.exists()]))
    if faults:
        return [problem(f"site {site.name}: {fault}", _CURES[fault.field]) for fault in faults]
    if options.run_as_gateway:
        cure = "name a user for guests, and run the gateway as root; unless you trust every guest"
        return [warning(f"site {site.name}: guests' jobs run as the gateway, and can read its tokens", cure)]
    if options.user and not options.users:
        cure = "give each organisation a user of its own: a table [cluster.slurm.users]"
        text = f"site {site.name}: all guests are the Unix user {options.user}, and can read each other's files"
        return [warning(text, cure)]
    return [ok(f"site {site.name}: guests are Unix users of their own")]
