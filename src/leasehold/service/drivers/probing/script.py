"""The program that a node is asked with: it only reads, writes lines, and says at the end that it is whole.

Each line begins with what it tells: ``package NAME VERSION``, ``module NAME/VERSION``, ``mhz N``,
``disk MIB FREE_MIB`` of the place for temporary files, and ``boot ID``.
"""

BEGINS, ENDS = "leasehold-probe 1", "leasehold-probe end"
MODULES = "leasehold-probe modules"
"""What comes before it was said by whatever a login shell begins with."""

PROBE = f"""\
echo '{BEGINS}'
echo "boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
awk -F: '/^cpu MHz/ {{ if ($2 + 0 > most) most = $2 + 0 }} END {{ printf "mhz %d\\n", most }}' /proc/cpuinfo 2>/dev/null
df -Pm "${{TMPDIR:-/tmp}}" 2>/dev/null | awk 'NR == 2 {{ print "disk", $2, $4 }}'
command -v dpkg-query > /dev/null && dpkg-query --show \\
  --showformat='package ${{db:Status-Abbrev}}${{Package}} ${{Version}}\\n' | sed -n 's/^package .i */package /p'
command -v rpm > /dev/null && rpm -qa --queryformat 'package %{{NAME}} %{{EPOCHNUM}}:%{{VERSION}}-%{{RELEASE}}\\n'
command -v bash > /dev/null && bash -lc 'echo {MODULES}; type module > /dev/null 2>&1 && module -t avail' \\
  2>&1 < /dev/null | sed '1,/^{MODULES}$/d; s/^/module /'
echo '{ENDS}'
"""
"""Where a program is not there, the others still say what they know."""
