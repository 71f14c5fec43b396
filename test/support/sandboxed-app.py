#!/usr/bin/env python3
"""A program in a sandbox like Flatpak's, on GLib's D-Bus.

sandboxed-app.py ROOT ADDRESS

ROOT is the root directory of the program, in which ADDRESS leads to the bus. Each line of its input is a JSON array:
the number of a request, a command and its arguments. Each line of its output is the result of one request; the results
may come in another order.

connect                             opens a connection; the result is its number
call CONNECTION NAME PATH INTERFACE MEMBER SIGNATURE ARGUMENTS
disconnect CONNECTION
"""
import json
import os
import sys

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

FLAGS = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
TIMEOUT_MS = 120_000
root, address = sys.argv[1:]
os.chroot(root)
os.chdir("/")
connections = []
# The received descriptors, which stay open: the companion ends a session whose pipe has no reader.
descriptors = []


def say(number, **answer):
    print(json.dumps({"request": number, **answer}), flush=True)


def to_argument(kind, value):
    """Dictionaries of variants are given as {name: [signature, value]}."""
    if kind != "a{sv}":
        return value
    return {name: GLib.Variant(sort, inner) for name, (sort, inner) in value.items()}


def call(number, connection, name, path, interface, member, kinds, arguments):
    values = tuple(to_argument(kind, value) for kind, value in zip(kinds, arguments))
    body = GLib.Variant("(" + "".join(kinds) + ")", values)

    def answered(bus, result):
        try:
            answer, received = bus.call_with_unix_fd_list_finish(result)
            if received:
                descriptors.extend(received.steal_fds())
            say(number, value=list(answer.unpack()))
        except GLib.Error as error:
            say(number, error=Gio.DBusError.get_remote_error(error) or "", text=error.message)

    bus = connections[connection]
    bus.call_with_unix_fd_list(name, path, interface, member, body, None, 0, TIMEOUT_MS, None, None, answered)


def run(number, command, arguments):
    if command == "connect":
        connections.append(Gio.DBusConnection.new_for_address_sync(address, FLAGS, None, None))
        say(number, value=len(connections) - 1)
    elif command == "disconnect":
        connections[arguments[0]].close_sync(None)
        say(number, value=None)
    else:
        call(number, *arguments)


def read(stream, result):
    line, _length = stream.read_line_finish_utf8(result)
    if line is None:
        loop.quit()
        return
    number, command, *arguments = json.loads(line)
    run(number, command, arguments)
    stream.read_line_async(GLib.PRIORITY_DEFAULT, None, read)


loop = GLib.MainLoop()
source = Gio.DataInputStream.new(Gio.UnixInputStream.new(0, False))
source.read_line_async(GLib.PRIORITY_DEFAULT, None, read)
loop.run()
