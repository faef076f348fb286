"""A file system that says what its root is and answers nothing else: stuck.py FOLDER UID. Says "mounted"; ends with its input.

For monitor_test.sh: what a user can put in the way of one who looks. Needs root and /dev/fuse, no library.
"""
import ctypes
import os
import struct
import sys
import threading

INIT, GETATTR = 26, 3
ATTRIBUTES = "<QII" + "QQQQQQIIIIIIIIII"  # for how long they are valid, then a struct fuse_attr


def serve(fd, uid):
    while True:
        request = os.read(fd, 1 << 17)
        operation, unique = struct.unpack_from("<IQ", request, 4)
        if operation == INIT:
            answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0, *[0] * 7)
        elif operation == GETATTR:
            answer = struct.pack(ATTRIBUTES, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40700, 2, uid, uid, 0, 4096, 0)
        else:
            continue
        os.write(fd, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)


def main():
    folder, uid = sys.argv[1], int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id={uid},group_id={uid}"
    if libc.mount(b"stuck", folder.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"cannot mount {folder}: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(fd, uid), daemon=True).start()
    print("mounted", flush=True)
    sys.stdin.read()
    os._exit(0)  # the kernel gives up all that waits


main()
