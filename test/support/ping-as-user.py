#!/usr/bin/env python3
"""Calls Ping of dev.assistant.Context1 as another user, and prints the answer or the error as one line of JSON.

ping-as-user.py ADDRESS UID ROOT DUMPABLE

ROOT is the root directory of the caller. With DUMPABLE 0 the process hides it, as any process can; with 1 it does not.
"""
import ctypes
import json
import os
import sys

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

PR_SET_DUMPABLE = 4
NAME = "dev.assistant.Context1"


def main():
    address, uid, root, dumpable = sys.argv[1:]
    prctl = ctypes.CDLL(None).prctl
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
    if prctl(PR_SET_DUMPABLE, int(dumpable), 0, 0, 0) != 0:
        sys.exit("prctl failed")
    flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
    bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
    try:
        path = "/" + NAME.replace(".", "/")
        answer = bus.call_sync(NAME, path, NAME, "Ping", None, None, Gio.DBusCallFlags.NONE, 10_000, None)
        print(answer.unpack()[0])
    except GLib.Error as error:
        print(json.dumps({"error": Gio.DBusError.get_remote_error(error), "text": error.message}))


main()
