"""What the states of OpenNebula mean for a machine.

A machine has a state and, while that is ACTIVE, one of its life cycle (LCM). Names and numbers are those of OpenNebula
5.8 to 7.0: https://docs.opennebula.io/6.10/integration_and_development/references/vm_states.html
"""

from collections.abc import Mapping

from leasehold.service.drivers.reconciler.provider import MachineState

HOLD, ACTIVE, DONE = 2, 3, 6
UNKNOWN = 16
"""The LCM state of a machine of which its host says nothing."""
FROM_SCRATCH = frozenset({1, 2})
"""The LCM states of a machine whose disk is made, and that boots from it for the first time."""

_STATES: Mapping[MachineState, Mapping[int, str]] = {
    MachineState.PENDING: {0: "INIT", 1: "PENDING", 10: "CLONING"},
    MachineState.READY: {2: "HOLD"},
    MachineState.SAVED: {4: "STOPPED", 5: "SUSPENDED"},
    MachineState.ENDED: {8: "POWEROFF"},
    MachineState.FAILED: {6: "DONE", 7: "FAILED", 9: "UNDEPLOYED", 11: "CLONING_FAILURE"},
}
_LCM_STATES: Mapping[MachineState, Mapping[int, str]] = {
    MachineState.PENDING: {
        0: "LCM_INIT",
        1: "PROLOG",
        2: "BOOT",
        7: "SAVE_MIGRATE",
        8: "PROLOG_MIGRATE",
        9: "PROLOG_RESUME",
        21: "BOOT_SUSPENDED",
        22: "BOOT_STOPPED",
        35: "BOOT_MIGRATE",
        60: "PROLOG_MIGRATE_UNKNOWN",
    },
    MachineState.UP: {
        3: "RUNNING",
        4: "MIGRATE",
        17: "HOTPLUG",
        24: "HOTPLUG_SNAPSHOT",
        25: "HOTPLUG_NIC",
        26: "HOTPLUG_SAVEAS",
        57: "DISK_SNAPSHOT",
        59: "DISK_SNAPSHOT_DELETE",
        62: "DISK_RESIZE",
        66: "HOTPLUG_RESIZE",
        69: "BACKUP",
    },
    MachineState.LEAVING: {
        5: "SAVE_STOP",
        6: "SAVE_SUSPEND",
        10: "EPILOG_STOP",
        11: "EPILOG",
        12: "SHUTDOWN",
        18: "SHUTDOWN_POWEROFF",
        23: "CLEANUP_DELETE",
        29: "SHUTDOWN_UNDEPLOY",
        30: "EPILOG_UNDEPLOY",
    },
    MachineState.SAVED: {
        28: "HOTPLUG_SAVEAS_SUSPENDED",
        45: "PROLOG_MIGRATE_SUSPEND",
        54: "DISK_SNAPSHOT_SUSPENDED",
        56: "DISK_SNAPSHOT_DELETE_SUSPENDED",
        68: "HOTPLUG_SAVEAS_STOPPED",
    },
    MachineState.ENDED: {
        27: "HOTPLUG_SAVEAS_POWEROFF",
        33: "HOTPLUG_PROLOG_POWEROFF",
        34: "HOTPLUG_EPILOG_POWEROFF",
        43: "PROLOG_MIGRATE_POWEROFF",
        51: "DISK_SNAPSHOT_POWEROFF",
        52: "DISK_SNAPSHOT_REVERT_POWEROFF",
        53: "DISK_SNAPSHOT_DELETE_POWEROFF",
        63: "DISK_RESIZE_POWEROFF",
        65: "HOTPLUG_NIC_POWEROFF",
        70: "BACKUP_POWEROFF",
    },
    MachineState.FAILED: {
        # what was in memory is lost: it boots again, by other means than an order
        15: "CLEANUP_RESUBMIT",
        19: "BOOT_UNKNOWN",
        20: "BOOT_POWEROFF",
        31: "PROLOG_UNDEPLOY",
        32: "BOOT_UNDEPLOY",
        64: "DISK_RESIZE_UNDEPLOYED",
        67: "HOTPLUG_SAVEAS_UNDEPLOYED",
        71: "RESTORE",
        # it stays so until an administrator recovers it, or it is terminated
        14: "FAILURE",
        36: "BOOT_FAILURE",
        37: "BOOT_MIGRATE_FAILURE",
        38: "PROLOG_MIGRATE_FAILURE",
        39: "PROLOG_FAILURE",
        40: "EPILOG_FAILURE",
        41: "EPILOG_STOP_FAILURE",
        42: "EPILOG_UNDEPLOY_FAILURE",
        44: "PROLOG_MIGRATE_POWEROFF_FAILURE",
        46: "PROLOG_MIGRATE_SUSPEND_FAILURE",
        47: "BOOT_UNDEPLOY_FAILURE",
        48: "BOOT_STOPPED_FAILURE",
        49: "PROLOG_RESUME_FAILURE",
        50: "PROLOG_UNDEPLOY_FAILURE",
        61: "PROLOG_MIGRATE_UNKNOWN_FAILURE",
    },
}


def _by_number(groups: Mapping[MachineState, Mapping[int, str]]) -> dict[int, tuple[MachineState, str]]:
    return {number: (state, name) for state, names in groups.items() for number, name in names.items()}


STATES = _by_number(_STATES)
LCM_STATES = _by_number(_LCM_STATES) | {UNKNOWN: (MachineState.PENDING, "UNKNOWN")}


def meaning_of(state: int, lcm_state: int) -> tuple[MachineState, str]:
    """Say what two numbers mean, and their name; what is not known is waited for."""
    found = LCM_STATES.get(lcm_state) if state == ACTIVE else STATES.get(state)
    return found or (MachineState.PENDING, f"state {state}, LCM state {lcm_state}")
