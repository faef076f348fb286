"""openipu.Info and gcipuinfo: attributes, updates, processes, forks, threads, what monitors make of the values."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import openipu
import pytest
from openipu import Info

from support import python

TOP = Path(__file__).resolve().parents[3]

HOLD = """
import ctypes, sys
from openipu.library import check, lib
device = ctypes.c_void_p()
check(lib().ipu_device_open(int(sys.argv[1]), ctypes.byref(device)))
check(lib().ipu_device_attach(device, ctypes.c_double(0)))
print("attached", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def sandbox(tmp_path, monkeypatch):
    """State and configuration of each test's own, and the choice of a mode, too."""
    import gcipuinfo
    for name in ("IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_HOST", "IPUOF_VIPU_API_PARTITION_ID", "IPU_PARTITION",
                 "IPU_DEVICE_ID", "IPU_ELASTIC", "GCDA_OPTIONS", "GCDA_SUPPRESS_UTILISATION_MEASUREMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IPU_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(gcipuinfo, "_chosen", (0, None))
    return tmp_path


def configure(sandbox, **partitions):
    folder = sandbox / ".ipuof.conf.d"
    folder.mkdir(exist_ok=True)
    for name, keys in partitions.items():
        (folder / f"{name}.conf").write_text(json.dumps(keys))


@contextlib.contextmanager
def held(device):
    """A process that is attached to a device; its number."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(device)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout.readline() == "attached\n"
        yield process.pid
        process.stdin.close()
        assert process.wait(60) == 0


# ---- openipu.Info


def test_attributes_of_every_ipu():
    info = Info()
    assert len(info) == 4
    assert [device["id"] for device in info] == ["0", "1", "2", "3"]
    assert list(info[0])[:3] == ["id", "target", "average board temp"]
    assert list(info[0])[2:] == sorted(list(info[0])[2:])
    assert info[0]["clock"] == info.get(0, "clock") == "1330MHz"
    assert info[3]["board ipu index"] == "0"
    assert all(isinstance(value, str) for device in info for value in device.values())
    assert info.get(0, "no such key") == info.get(9, "clock") == info.get(-1, "clock") == "N/A"
    with pytest.raises(IndexError):
        info[4]  # pylint: disable=pointless-statement


def test_groups_have_what_their_ipus_share():
    info = Info()
    assert info.device(6)["target"] == "Multi IPU"
    assert info.device(6)["clock"] == "1330MHz"
    assert "board ipu index" not in info.device(6)
    assert info.device(2) == info[2]
    for wrong in (7, -1):
        with pytest.raises(openipu.Error, match="devices 0 to 6") as raised:
            info.device(wrong)
        assert raised.value.status == "NOT_FOUND"


def test_what_is_given_is_the_callers():
    info = Info()
    info[0].clear()
    info.devices()[1].clear()
    info.device(0).clear()
    assert info[0]["id"] == "0" and info[1]["id"] == "1" and info.device(0)["id"] == "0"


def test_a_picture_stays_until_it_is_updated():
    info = Info()
    assert info.health(2) == (True, "idle")
    with held(5) as pid:
        assert "user process id" not in info[2]
        info.update()
        assert info[2]["user process id"] == info[3]["user process id"] == str(pid)
        assert "user process id" not in info[1]
        assert re.fullmatch(r"\d{8}T\d{6}Z", info[2]["process start time"])
        healthy, why = info.health(2)
        assert healthy and f"in use by pid {pid}" in why
    assert "user process id" in info[2]
    info.update()
    assert "user process id" not in info[2]
    assert info.health(7) == (False, "there is no such device")


def test_all_partitions(sandbox):
    configure(sandbox, p1={"system": "m2000"}, p2={"chip": "bow", "ipus": 2})
    assert len(Info()) == 4
    every = Info(all_partitions=True)
    assert [device["ipuof partition id"] for device in every] == ["p1"] * 4 + ["p2"] * 2
    assert [device["id"] for device in every] == list("012345")
    assert every[5]["clock"] == "1850MHz"


def test_a_failed_update_changes_nothing(sandbox):
    info = Info()
    configure(sandbox, p1={"systm": "m2000"})
    with pytest.raises(openipu.Error, match=r'p1\.conf: key "systm" is not known') as raised:
        info.update()
    assert raised.value.status == "INVALID"
    assert len(info) == 4 and info[0]["ipuof partition id"] == "default"
    with pytest.raises(openipu.Error):
        Info()


def test_the_last_event():
    assert Info().event() is None
    with held(0) as pid:
        refused = subprocess.run([sys.executable, "-c", HOLD, "0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 check=False)
        assert refused.returncode == 1 and "is busy" in refused.stderr
        event = Info().event()
    assert event["severity"] == "error" and event["partition"] == "default"
    assert "device 0 is busy" in event["description"] and f"pid {pid}" in event["description"]
    assert os.path.exists(event["event record path"])


def test_an_error_is_not_healthy(monkeypatch):
    failing = python(
        "import ctypes, openipu\n"
        "from openipu.library import Target, lib\n"
        "net = openipu.Network.create()\n"
        "net.output(net.input('x', 'float', (1, )), 'y')\n"
        "target, exe, engine = Target(), ctypes.c_void_p(), ctypes.c_void_p()\n"
        "lib().ipu_target_find(b'gc200', 1, ctypes.byref(target))\n"
        "lib().ipu_model_compile(net.pointer, ctypes.byref(target), None, ctypes.byref(exe))\n"
        "lib().ipu_engine_create(exe, None, ctypes.byref(engine))\n"
        "print(openipu.error.status_name(lib().ipu_engine_run(engine, 0)))\n",
        GCDA_OPTIONS='{"simulateSOCError.errorList":"IPUSOFTERR"}')
    assert failing.endswith("DEVICE_ERROR\n") and "gc-reset -d 0" in failing  # also in the log, which goes to stderr
    info = Info()
    assert info[0]["ipu error state"] == "IPUSOFTERR"
    healthy, why = info.health(0)
    assert not healthy and "gc-reset -d 0" in why
    assert info.health(1)[0]


def test_a_forked_child_goes_on():
    info = Info()
    stop = threading.Event()

    def look():
        while not stop.is_set():
            info.update()

    busy = threading.Thread(target=look)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    before = info[0]["id"]
                    info.update()
                    os._exit(0 if before == info[0]["id"] == "0" and len(Info()) == 4 else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        busy.join()


def test_threads_share_one():
    info, wrong = Info(), []

    def use():
        for _ in range(50):
            info.update()
            if [device["id"] for device in info] != ["0", "1", "2", "3"] or info.get(3, "clock") != "1330MHz":
                wrong.append(info.devices())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pictures_are_freed():
    grows = python("import resource\n"
                   "from openipu import Info\n"
                   "info = Info()\n"
                   "def use(n):\n"
                   "    for _ in range(n): info.update()\n"
                   "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                   "use(100); before = use(1); print(use(1000) - before)")
    assert int(grows) < 2000, f"{grows} KiB more after 1000 updates"


def test_wrong_libraries(tmp_path):
    code = "import openipu\ntry:\n    openipu.Info()\nexcept openipu.Error as e:\n    print(e.status, e)"
    assert "NOT_FOUND IPU_LIBRARY is" in python(code, IPU_LIBRARY=str(tmp_path / "none.so"))
    (tmp_path / "text.so").write_text("no library")
    assert "cannot be loaded" in python(code, IPU_LIBRARY=str(tmp_path / "text.so"))
    other = python("import ctypes.util; print(ctypes.util.find_library('jansson') or '')").strip()
    place = next((p for p in Path("/usr/lib").glob(f"*/{other}")), None) if other else None
    if place is None:
        pytest.skip("no other library at hand")
    found = python(code, IPU_LIBRARY=str(place))
    assert found.startswith("UNSUPPORTED") and "has no ipu_abi_member_at" in found and "set IPU_LIBRARY" in found


def test_looking_needs_no_numpy():
    assert python("import sys; sys.modules['numpy'] = None; import openipu, gcipuinfo\n"
                  "print(len(gcipuinfo.gcipuinfo().getDevices()), len(openipu.Info()))") == "4 4\n"


# ---- gcipuinfo, as programs use it


def test_as_documented():
    import gcipuinfo
    info = gcipuinfo.gcipuinfo()
    devices = info.getDevices()
    assert len(devices) == 4 and devices[0]["id"] == "0"
    assert info.getNamedAttributeForAll(gcipuinfo.IpuPower) == ["N/A"] * 4
    assert info.getNamedAttributeForAll(gcipuinfo.Clock) == ["1330MHz"] * 4
    assert info.getNamedAttributeForAll("no such label") == ["N/A"] * 4
    assert info.updateData() is True
    assert info.getNamedAttributeForDevice(3, gcipuinfo.BoardIpuIndex) == "0"
    assert info.checkHealthOfAllDevices() == [(True, "idle")] * 4
    assert info.getLastEventRecord() == {}


def test_update_modes():
    import gcipuinfo
    still, moving = gcipuinfo.gcipuinfo(), gcipuinfo.gcipuinfo()
    moving.setUpdateMode(True)
    with held(1) as pid:
        assert still.getNamedAttributeForAll(gcipuinfo.UserProcessId) == ["N/A"] * 4
        assert moving.getNamedAttributeForAll(gcipuinfo.UserProcessId) == ["N/A", str(pid), "N/A", "N/A"]
        assert moving.getDevices()[1]["user process id"] == str(pid)
        assert still.updateData()
        moving.setUpdateMode(False)
    assert still.getDevices()[1]["user process id"] == moving.getDevices()[1]["user process id"] == str(pid)


def test_what_cannot_be_updated_is_told(sandbox):
    import gcipuinfo
    info = gcipuinfo.gcipuinfo()
    configure(sandbox, p1={"systm": 1})
    assert info.updateData() is False
    assert len(info.getDevices()) == 4
    info.setUpdateMode(True)
    with pytest.raises(openipu.Error, match="systm"):
        info.getDevices()


def test_modes_of_discovery_do_not_mix(sandbox):
    import gcipuinfo
    configure(sandbox, p1={"system": "m2000"}, p2={"system": "m2000"})
    every = gcipuinfo.gcipuinfo(gcipuinfo.DiscoverAllPartitionIPUs)
    assert len(every.getDevices()) == 8
    assert len(gcipuinfo.gcipuinfo(gcipuinfo.DeviceDiscoveryMode.DiscoverAllPartitionIPUs).getDevices()) == 8
    with pytest.raises(openipu.Error, match="cannot be mixed"):
        gcipuinfo.gcipuinfo()
    with pytest.raises(TypeError, match="found 'all'"):
        gcipuinfo.gcipuinfo("all")
    child = os.fork()  # another process, another choice
    if child == 0:
        try:
            os._exit(0 if len(gcipuinfo.gcipuinfo().getDevices()) == 4 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_mode_that_failed_is_not_chosen(sandbox):
    import gcipuinfo
    configure(sandbox, p1={"systm": 1})
    with pytest.raises(openipu.Error):
        gcipuinfo.gcipuinfo(gcipuinfo.DiscoverAllPartitionIPUs)
    (sandbox / ".ipuof.conf.d" / "p1.conf").unlink()
    assert len(gcipuinfo.gcipuinfo().getDevices()) == 4


def labels():
    import gcipuinfo
    return {name: value for name, value in vars(gcipuinfo).items() if name[0].isupper() and type(value) is str
            and name != "NOT_AVAILABLE"}


def test_every_key_has_the_label_that_is_derived_from_it():
    keys = re.findall(r'^(?:NONE|ATTRIBUTE\(\w+,|NONE)\(?\s*"([^"]+)"', (TOP / "src/device/attributes.inc").read_text(), re.M)
    assert len(keys) > 50
    derived = {"".join(word.capitalize() for word in re.findall(r"\w+", key)): key for key in ["id", "target"] + keys}
    assert labels() == derived


def test_labels_are_what_devices_have():
    with held(6):
        assert set(Info()[0]) == set(labels().values())


# ---- what is made of the values elsewhere


def parse_metric(key, value):
    """As monitors of experiments do: the suffix that belongs to the key's ending goes, what is no number is left out."""
    for ending, suffix in (("temp", "C"), ("clock", "MHz"), ("power", "W"), ("utilisation", "%"),
                           ("utilisation (session)", "%"), ("speed", "GT/s")):
        if key.endswith(ending) and value.endswith(suffix):
            value = value[:-len(suffix)]
    try:
        return float(value)
    except ValueError:
        return None


def test_monitors_of_experiments_read_it():
    import gcipuinfo
    info = gcipuinfo.gcipuinfo()
    info.setUpdateMode(True)
    with held(4) as pid:
        mine = [d for d in info.getDevices() if d.get("user process id") and int(d["user process id"]) == pid]
        assert [d["id"] for d in mine] == ["0", "1"]
        for device in mine:
            metrics = {key: parse_metric(key, value) for key, value in device.items()}
            assert metrics["clock"] == 1330 == int(device["clock"][:-3])
            assert 0 <= metrics["ipu utilisation"] <= 100 and 0 <= metrics["ipu utilisation (session)"] <= 100
            # No sensor, no number: left out, not nought.
            for key in ("ipu power", "total board power", "average board temp", "average die temp", "link speed"):
                assert device[key] == "N/A" and metrics[key] is None
    assert not [d for d in info.getDevices() if "user process id" in d]
