#!/usr/bin/env python3
"""A client on GLib's D-Bus, which Berth's own code has no part in. Prints one line of JSON for what it is told.

signatures NAME PATH       every interface at the path, as GLib's parser of introspection data reads it
properties NAME PATH IFACE all properties, with their types
call NAME PATH IFACE MEMBER SIGNATURE JSON-ARGS
signal NAME PATH IFACE MEMBER   prints "listening", then the arguments of the first such signal
"""
import json
import sys

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

STANDARD = "org.freedesktop.DBus."


def say(value):
    print(json.dumps(value), flush=True)


def ask(bus, name, path, iface, member, args):
    return bus.call_sync(name, path, iface, member, args, None, Gio.DBusCallFlags.NONE, 10_000, None)


def types(args):
    return "".join(arg.signature for arg in args)


def signatures(bus, name, path):
    xml = ask(bus, name, path, STANDARD + "Introspectable", "Introspect", None).unpack()[0]
    node = Gio.DBusNodeInfo.new_for_xml(xml)
    found = {}
    for iface in node.interfaces:
        found[iface.name] = {
            "methods": {m.name: f"{types(m.in_args)} -> {types(m.out_args)}" for m in iface.methods},
            "signals": {s.name: types(s.args) for s in iface.signals},
            "properties": {
                p.name: p.signature + (" write" if p.flags & Gio.DBusPropertyInfoFlags.WRITABLE else "")
                for p in iface.properties
            },
        }
    say({"interfaces": found, "nodes": [child.path for child in node.nodes]})


def properties(bus, name, path, iface):
    args = GLib.Variant("(s)", (iface,))
    answer = ask(bus, name, path, STANDARD + "Properties", "GetAll", args).get_child_value(0)
    found = {}
    for index in range(answer.n_children()):
        entry = answer.get_child_value(index)
        value = entry.get_child_value(1).get_variant()
        found[entry.get_child_value(0).get_string()] = [value.get_type_string(), value.unpack()]
    say(found)


def call(bus, name, path, iface, member, signature, text):
    args = GLib.Variant(f"({signature})", tuple(json.loads(text)))
    say(list(ask(bus, name, path, iface, member, args).unpack()))


def signal(bus, name, path, iface, member):
    loop = GLib.MainLoop()

    def heard(_bus, _sender, _path, _iface, _member, args):
        say(list(args.unpack()))
        loop.quit()

    bus.signal_subscribe(name, iface, member, path, None, Gio.DBusSignalFlags.NONE, heard)
    # A round trip: the bus has the rule now.
    ask(bus, "org.freedesktop.DBus", "/", STANDARD + "Peer", "Ping", None)
    print("listening", flush=True)
    GLib.timeout_add_seconds(10, loop.quit)
    loop.run()


def main():
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    command = {"signatures": signatures, "properties": properties, "call": call, "signal": signal}
    try:
        command[sys.argv[1]](bus, *sys.argv[2:])
    except GLib.Error as error:
        say({"error": Gio.DBusError.get_remote_error(error), "text": error.message})


main()
