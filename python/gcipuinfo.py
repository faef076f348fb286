"""gcipuinfo: attributes of IPUs under the vendor's names, over openipu.Info.

    import gcipuinfo
    info = gcipuinfo.gcipuinfo()
    info.getDevices()                                     # a list of dicts of text
    info.getNamedAttributeForAll(gcipuinfo.IpuPower)      # ["N/A", ...]: virtual IPUs have no sensors

What is the vendor's, as far as it is public: the class gcipuinfo and its argument, the two modes of discovery and that they
cannot be mixed, updateData, setUpdateMode, getDevices, getNamedAttributeForAll, the label IpuPower, the keys of attributes
and of the event record. Other labels are derived from it: words of a key, each with a capital. All else, marked so, is ours.
"""

from __future__ import annotations

import enum
import os
from typing import Dict, List, Optional, Tuple

from openipu.error import Error
from openipu.ipuinfo import NOT_AVAILABLE, Info

# ---- labels: the keys that getDevices gives ----

Id = "id"
Target = "target"
AverageBoardTemp = "average board temp"
AverageDieTemp = "average die temp"
BoardIpuIndex = "board ipu index"
BoardSerialNumber = "board serial number"
BoardType = "board type"
BoardVariant = "board variant"
Clock = "clock"
ConfigDomain = "config domain"
DriverVersion = "driver version"
FirmwareMajorVersion = "firmware major version"
FirmwareMinorVersion = "firmware minor version"
FirmwarePatchVersion = "firmware patch version"
FirmwareVersion = "firmware version"
GatewaySoftwareVersion = "gateway software version"
GraphStreaming = "graph streaming"
HexoattActiveSizeBytes = "hexoatt active size (bytes)"
HexoattTotalSizeBytes = "hexoatt total size (bytes)"
HexoptActiveSizeBytes = "hexopt active size (bytes)"
HexoptTotalSizeBytes = "hexopt total size (bytes)"
HostBytesSession = "host bytes (session)"  # the attribute is ours
HostLinkCorrectableErrorCount = "host link correctable error count"
IcuBootloaderVersion = "icu bootloader version"
IpuArchitecture = "ipu architecture"
IpuErrorState = "ipu error state"
IpuPower = "ipu power"
IpuUtilisation = "ipu utilisation"
IpuUtilisationSession = "ipu utilisation (session)"
IpuofHost = "ipuof host"
IpuofPartitionId = "ipuof partition id"
IpuofRoutingId = "ipuof routing id"
IpuofRoutingType = "ipuof routing type"
IpuofServerVersion = "ipuof server version"
LinkCorrectableErrorCount = "link correctable error count"
LinkCorrectableErrorCountSession = "link correctable error count (session)"
LinkSpeed = "link speed"
LinkWidth = "link width"
ModelledCyclesSession = "modelled cycles (session)"  # the attribute is ours
NumaNode = "numa node"
NumberOfReplicas = "number of replicas"
ParityErrorCountThreshold = "parity error count threshold"
ParityErrorThresholdInterval = "parity error threshold interval"
ParityInitialised = "parity initialised"
PartitionSyncType = "partition sync type"
PciId = "pci id"
PciePhysicalSlot = "pcie physical slot"
ProcessStartTime = "process start time"
ProgramsRunSession = "programs run (session)"  # the attribute is ours
ReconfigurablePartition = "reconfigurable partition"
RemoteBuffersSupported = "remote buffers supported"
SuperstepsSession = "supersteps (session)"  # the attribute is ours
SysfsFileId = "sysfs file id"
TileMemoryUsedBytes = "tile memory used (bytes)"  # the attribute is ours
TotalBoardPower = "total board power"
UserExecutable = "user executable"
UserName = "user name"
UserProcessId = "user process id"


class DeviceDiscoveryMode(enum.Enum):
    """Which IPUs a gcipuinfo shows. The numbers are ours."""
    DiscoverActivePartitionIPUs = 0
    DiscoverAllPartitionIPUs = 1


DiscoverActivePartitionIPUs = DeviceDiscoveryMode.DiscoverActivePartitionIPUs
DiscoverAllPartitionIPUs = DeviceDiscoveryMode.DiscoverAllPartitionIPUs


class EventSeverity(enum.Enum):
    """How bad an event is. The members are ours; devices record errors only."""
    Warning = "warning"
    Error = "error"


#: The mode of this process's first gcipuinfo, and which process that was: a forked child may choose anew.
_chosen: Tuple[int, Optional[DeviceDiscoveryMode]] = (0, None)


def _check_mode(mode: DeviceDiscoveryMode) -> None:
    if not isinstance(mode, DeviceDiscoveryMode):
        raise TypeError(f"gcipuinfo: expected DiscoverActivePartitionIPUs or DiscoverAllPartitionIPUs, found {mode!r}")
    process, before = _chosen
    if process == os.getpid() and before not in (None, mode):
        raise Error(f"gcipuinfo: {mode.name} is wanted, and this process uses {before.name} already: the two cannot be "
                    "mixed in one process; use one of them, or another process", "INVALID")


class gcipuinfo:  # pylint: disable=invalid-name
    """A picture of the IPUs, as it was when this was made or last updated. Raises openipu.Error where it cannot look."""

    def __init__(self, mode: DeviceDiscoveryMode = DiscoverActivePartitionIPUs):
        global _chosen
        _check_mode(mode)
        self._info = Info(mode is DiscoverAllPartitionIPUs)
        _chosen = (os.getpid(), mode)
        self._auto_update = False

    def updateData(self) -> bool:
        """Look again. False: it could not, and all stays as it was."""
        try:
            self._info.update()
        except Error:
            return False
        return True

    def setUpdateMode(self, autoUpdate: bool) -> None:
        """True: every question looks again first, and raises openipu.Error where it cannot: old data would pass for new."""
        self._auto_update = bool(autoUpdate)

    def _now(self) -> Info:
        if self._auto_update:
            self._info.update()
        return self._info

    def getDevices(self) -> List[Dict[str, str]]:
        """All attributes of all single IPUs. One that nobody uses has no "user process id"."""
        return self._now().devices()

    def getNamedAttributeForAll(self, label: str) -> List[str]:
        """One attribute of every IPU; "N/A" where it has none."""
        return [device.get(label, NOT_AVAILABLE) for device in self._now().devices()]

    # ---- ours: what the vendor calls these is not public ----

    def getNamedAttributeForDevice(self, index: int, label: str) -> str:
        """One attribute of the index-th IPU; "N/A" where it has none."""
        return self._now().get(index, label)

    def checkHealthOfAllDevices(self) -> List[Tuple[bool, str]]:
        """For every IPU: can a program use it, and what is wrong, or who uses it, or "idle"."""
        info = self._now()
        return [info.health(i) for i in range(len(info))]

    def getLastEventRecord(self) -> Dict[str, str]:
        """The last error a device gave to a program of this user: "event record path", "timestamp", "severity",
        "command line", "pid", "attached ipus", "attached ipu hosts", "partition", "description". Empty: there was none."""
        return self._now().event() or {}
