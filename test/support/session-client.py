"""A client of dev.assistant.Inference1 on GLib's D-Bus, as a desktop program is one. Each line of its input is
a JSON array, a command and its arguments; each line of its output is the answer to one."""

import fcntl
import json
import os
import sys
import time

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

NAME = "dev.assistant.Inference1"
SESSION = "dev.assistant.Inference1.Session"
bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
finished = []
pipes = {}


def on_finished(_bus, sender, path, _interface, _signal, parameters):
    status, detail = parameters.unpack()
    finished.append({"path": path, "status": status, "detail": json.loads(detail)})


bus.signal_subscribe(NAME, SESSION, "Finished", None, None, Gio.DBusSignalFlags.NONE, on_finished)


def call(path, interface, member, parameters, reply):
    kind = GLib.VariantType(reply)
    return bus.call_with_unix_fd_list_sync(
        NAME, path, interface, member, parameters, kind, 0, 20_000, None, None
    )


def options(given):
    return {
        name: GLib.Variant("u" if isinstance(value, int) else "s", value)
        for name, value in given.items()
    }


def open_session(given):
    parameters = GLib.Variant("(a{sv})", (options(given),))
    answer, descriptors = call("/dev/assistant/Inference1", NAME, "OpenSession", parameters, "(oh)")
    path, index = answer.unpack()
    pipes[path] = descriptors.get(index)
    return {
        "path": path,
        "blocks": not fcntl.fcntl(pipes[path], fcntl.F_GETFL) & os.O_NONBLOCK,
        "access": fcntl.fcntl(pipes[path], fcntl.F_GETFL) & os.O_ACCMODE,
        "descriptors": descriptors.get_length(),
    }


def generate(path, prompt, given):
    call(path, SESSION, "Generate", GLib.Variant("(sa{sv})", (prompt, options(given))), "()")


def embed(path, texts):
    answer, _ = call(path, SESSION, "Embed", GLib.Variant("(as)", (texts,)), "(aad)")
    return answer.unpack()[0]


def plain(path, member):
    call(path, SESSION, member, None, "()")


def state(path):
    parameters = GLib.Variant("(ss)", (SESSION, "State"))
    answer, _ = call(path, "org.freedesktop.DBus.Properties", "Get", parameters, "(v)")
    return answer.unpack()[0]


def read(path, count):
    """So many bytes, or all up to EOF where count is None."""
    parts = []
    while count is None or count > 0:
        part = os.read(pipes[path], 65536 if count is None else count)
        if not part:
            break
        parts.append(part)
        count = None if count is None else count - len(part)
    return b"".join(parts).decode()


def close_pipe(path):
    os.close(pipes.pop(path))


def wait_finished(count):
    """Every Finished so far, once there are so many."""
    deadline = time.monotonic() + 10
    context = GLib.MainContext.default()
    while True:
        while context.iteration(False):
            pass
        if len(finished) >= count or time.monotonic() > deadline:
            return finished
        time.sleep(0.01)


def rounds(count):
    """Opens, uses and closes so many sessions."""
    for _ in range(count):
        path = open_session({})["path"]
        generate(path, "x", {})
        assert read(path, None) == "Hello there"
        plain(path, "Close")
        close_pipe(path)


commands = {
    "open": open_session,
    "generate": generate,
    "embed": embed,
    "call": plain,
    "state": state,
    "read": read,
    "close_pipe": close_pipe,
    "finished": wait_finished,
    "rounds": rounds,
}

print(json.dumps(bus.get_unique_name()), flush=True)
for line in sys.stdin:
    command, *arguments = json.loads(line)
    try:
        answer = {"value": commands[command](*arguments)}
    except GLib.Error as error:
        answer = {"error": Gio.DBusError.get_remote_error(error)}
    print(json.dumps(answer), flush=True)
