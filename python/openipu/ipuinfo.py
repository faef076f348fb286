"""The virtual IPUs of this host and their attributes (ipu/ipuinfo.h), as gc-info shows them.

    info = openipu.Info()                    # of the active partition; Info(all_partitions=True): of all
    info[0]["clock"]                         # "1330MHz"; len(info) IPUs, each a dict
    info.get(0, "ipu power")                 # "N/A": what does not exist, and what no one knows
    info.health(0)                           # (True, "idle"), or (False, what is wrong and what to do)
    info.event()                             # the last error that a device of the user's gave to a program, or None
    info.update()                            # look again

An Info is a picture of one moment, in Python's memory: threads may share one, and a forked child may go on using it.
Nobody is disturbed by looking.
"""

from __future__ import annotations

from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_void_p
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .error import Error
from .library import check, declare, lib

NOT_AVAILABLE = "N/A"

_TEXT = POINTER(c_char_p)

declare("ipu_info_create", c_int, [c_int, POINTER(c_void_p)])
declare("ipu_info_destroy", None, [c_void_p])
declare("ipu_info_n_devices", c_int, [c_void_p])
declare("ipu_info_at", c_bool, [c_void_p, c_int, c_int, _TEXT, _TEXT])
declare("ipu_info_device_at", c_bool, [c_void_p, c_int, c_int, _TEXT, _TEXT])
declare("ipu_info_is_healthy", c_bool, [c_void_p, c_int, _TEXT])
declare("ipu_info_event_at", c_bool, [c_void_p, c_int, _TEXT, _TEXT])

Attributes = Dict[str, str]


class _Picture(NamedTuple):
    devices: List[Attributes]
    groups: Dict[int, Attributes]
    health: List[Tuple[bool, str]]
    event: Optional[Attributes]


def _text(raw: c_char_p) -> str:
    return raw.value.decode(errors="replace")


def _pairs(call: Callable[[int, object, object], bool]) -> Attributes:
    """All that call(i, &key, &value) gives, in its order."""
    key, value, found = c_char_p(), c_char_p(), {}
    while call(len(found), byref(key), byref(value)):
        found[_text(key)] = _text(value)
    return found


def _health(handle: c_void_p, i: int) -> Tuple[bool, str]:
    why = c_char_p()
    healthy = lib().ipu_info_is_healthy(handle, i, byref(why))
    return bool(healthy), _text(why)


def _groups(handle: c_void_p) -> Dict[int, Attributes]:
    found: Dict[int, Attributes] = {}
    while True:
        n = len(found)
        attributes = _pairs(lambda i, k, v: lib().ipu_info_device_at(handle, n, i, k, v))
        if not attributes:
            return found
        found[n] = attributes


def _look(all_partitions: bool) -> _Picture:
    """The handle lives in this call only: what it lends is copied, so that nothing is shared."""
    handle = c_void_p()
    try:
        check(lib().ipu_info_create(int(all_partitions), byref(handle)))
    except AttributeError:
        raise Error(f"the library {lib()._name} has no ipu_info_create: it is older than this package, or none of "
                    "OpenIPU's; set IPU_LIBRARY to the path of another libipu.so", "UNSUPPORTED") from None
    try:
        n = lib().ipu_info_n_devices(handle)
        return _Picture([_pairs(lambda i, k, v, d=d: lib().ipu_info_at(handle, d, i, k, v)) for d in range(n)],
                        _groups(handle), [_health(handle, d) for d in range(n)],
                        _pairs(lambda i, k, v: lib().ipu_info_event_at(handle, i, k, v)) or None)
    finally:
        lib().ipu_info_destroy(handle)


class Info:
    """The IPUs of the active partition, or of all; a sequence of dicts. Raises openipu.Error where it cannot look."""

    def __init__(self, all_partitions: bool = False):
        self.all_partitions = bool(all_partitions)
        self._picture = _look(self.all_partitions)

    def update(self) -> None:
        """Look again. On failure it raises, and all stays as it was."""
        self._picture = _look(self.all_partitions)

    def __len__(self) -> int:
        return len(self._picture.devices)

    def __getitem__(self, i: int) -> Attributes:
        """All attributes of the i-th IPU: "id", "target", then by the alphabet of their keys."""
        return dict(self._picture.devices[i])

    def __iter__(self) -> Iterator[Attributes]:
        return iter(self.devices())

    def devices(self) -> List[Attributes]:
        """Those of every IPU, of one and the same moment."""
        return [dict(device) for device in self._picture.devices]

    def get(self, i: int, key: str) -> str:
        """One attribute; "N/A" for what the IPU does not have now, and for a key or an IPU that does not exist."""
        devices = self._picture.devices
        return devices[i].get(key, NOT_AVAILABLE) if 0 <= i < len(devices) else NOT_AVAILABLE

    def device(self, device_id: int) -> Attributes:
        """Those of a device of the active partition by its id, groups too: what all of their IPUs share."""
        groups = self._picture.groups
        if device_id not in groups:
            raise Error(f"there is no device {device_id}: the active partition has devices 0 to {len(groups) - 1}",
                        "NOT_FOUND")
        return dict(groups[device_id])

    def health(self, i: int) -> Tuple[bool, str]:
        """Can a program use it, and why not; if so, who does or "idle"."""
        health = self._picture.health
        return health[i] if 0 <= i < len(health) else (False, "there is no such device")

    def event(self) -> Optional[Attributes]:
        """The last error that a device of the user's gave to any program; None: there was none."""
        event = self._picture.event
        return dict(event) if event else None
