#!/usr/bin/python3
"""The calls of an assistant to the companion over the session bus, with only GLib (Debian: python3-gi).

  on-the-bus.py tools                         list the tools of apps
  on-the-bus.py tools "write something down"  list tools for a purpose, best first
  on-the-bus.py call org.example.Notes create_note '{"title": "Milk", "body": ""}' user
  on-the-bus.py waiting                       ask the user about waiting calls
  on-the-bus.py search "boiler pressure"      print passages with their provenance labels
  on-the-bus.py say "Once upon a time"        print the text of a model while it is generated

The last arguments of a call are its provenance, the labels of all sources that led to it: "user" is text that
the user typed, "web:news.example" a page that was read, and each search result has a label of its own. Name
all of them: the companion asks for stricter confirmation if a source is not trusted.
"""

import codecs
import json
import os
import sys
import termios
import time

from gi.repository import Gio, GLib

# A tool call may take one minute, and the start of its app ten seconds.
CALL_MS = 90_000


class Companion:
    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SESSION)

    def ask(self, service, member, signature="()", *args, path=None, interface=None):
        """Calls a method. Returns the values of the reply, and the file descriptors in it."""
        name = f"dev.assistant.{service}"
        values, descriptors = self.bus.call_with_unix_fd_list_sync(
            name, path or f"/dev/assistant/{service}", interface or name, member,
            GLib.Variant(signature, args), None, Gio.DBusCallFlags.NONE, CALL_MS, None, None)
        return values.unpack(), descriptors

    def tools(self, wish=None):
        if wish is None:
            (tools,), _ = self.ask("Agent1", "ListTools")
        else:
            (tools,), _ = self.ask("Agent1", "Discover", "(s)", wish)
        return json.loads(tools)

    def search(self, query, limit=3):
        options = {"limit": GLib.Variant("u", limit)}
        (hits,), _ = self.ask("Context1", "Search", "(sa{sv})", query, options)
        return json.loads(hits)

    def call(self, app, tool, args_json, provenance, decide):
        """Calls a tool. Returns the result and its detail. If the call needs a confirmation, `decide` asks the user."""
        options = {"actor": GLib.Variant("s", "the example assistant")}
        if provenance:
            options["provenance"] = GLib.Variant("as", provenance)
        (call_id, disposition, detail), _ = self.ask(
            "Agent1", "RequestCall", "(sssa{sv})", app, tool, args_json, options)
        if disposition not in ("confirm-chip", "confirm-modal"):
            return disposition, json.loads(detail)
        # The desktop's frontend may have decided first: Confirm then returns that result.
        spec = next((spec for spec in self.waiting() if spec["call_id"] == call_id), None)
        return self.confirm(call_id, spec is not None and decide(spec))

    def waiting(self):
        """Returns the calls that wait for the user, oldest first. ConfirmationRequested announces later ones."""
        (specs,), _ = self.ask("Agent1", "ListParked")
        return json.loads(specs)

    def confirm(self, call_id, approve):
        (status, detail), _ = self.ask("Agent1", "Confirm", "(tb)", call_id, approve)
        return status, json.loads(detail)

    def say(self, prompt, max_tokens=64):
        """Yields the pieces of a model's answer as they arrive. Raises if the answer ends before it is complete."""
        (path, place), descriptors = self.ask("Inference1", "OpenSession", "(a{sv})", {})
        pipe = descriptors.get(place)
        interface = "dev.assistant.Inference1.Session"
        ended = []
        # Subscribe before Generate, so that no signal is missed.
        subscription = self.bus.signal_subscribe(
            "dev.assistant.Inference1", interface, "Finished", path, None, Gio.DBusSignalFlags.NONE,
            lambda *signal: ended.append(signal[5].unpack()))
        try:
            params = {"max_tokens": GLib.Variant("u", max_tokens)}
            self.ask("Inference1", "Generate", "(sa{sv})", prompt, params, path=path, interface=interface)
            decoder = codecs.getincrementaldecoder("utf-8")()
            # EOF ends this message; the session can then generate again.
            while piece := os.read(pipe, 4096):
                yield decoder.decode(piece)
            while not ended:
                GLib.MainContext.default().iteration(True)
            status, detail = ended[0]
            if status != "completed":
                raise RuntimeError(f"{status}: {detail}")
        finally:
            self.bus.signal_unsubscribe(subscription)
            os.close(pipe)
            self.ask("Inference1", "Close", path=path, interface=interface)


def at_the_terminal(spec):
    """Shows all of a call and asks the user. Shows text of apps and callers as JSON, without control characters."""
    shown = {name: spec[name] for name in ("app_id", "tool", "tiers", "chain", "caller", "undo")}
    print(json.dumps(shown), file=sys.stderr)
    for row in spec["diff"]:
        print(f"  {json.dumps(row['label'])}: {json.dumps(row['value'])}", file=sys.stderr)
    time.sleep(spec["hold_ms"] / 1000)
    if sys.stdin.isatty():
        # Discards input that was typed before the question appeared, because it is no answer to it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    is_modal = spec["tiers"]["effective"] == "destructive"
    wanted = spec["tool"] if is_modal else "y"
    print(f"Type {json.dumps(wanted)} to run it, anything else declines: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == wanted


def show_end(status, detail):
    print(json.dumps(detail.get("result") if status == "executed" else detail))
    return 0 if status == "executed" else 1


def main(verb, *words):
    companion = Companion()
    if verb == "tools":
        for tool in companion.tools(*words):
            print(json.dumps([tool["app_id"], tool["name"], tool["tier"], tool["description"]]))
    elif verb == "call":
        app, tool, args_json, *provenance = words
        return show_end(*companion.call(app, tool, args_json, provenance, at_the_terminal))
    elif verb == "waiting":
        for spec in companion.waiting():
            show_end(*companion.confirm(spec["call_id"], at_the_terminal(spec)))
    elif verb == "search":
        for hit in companion.search(*words):
            print(json.dumps([hit["provenance"], hit["snippet"]]))
    elif verb == "say":
        for piece in companion.say(*words):
            print(piece, end="", flush=True)
        print()
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except GLib.Error as error:
        # docs/assistant-errors.md lists dev.assistant.Error.* and org.freedesktop.DBus.Error.*.
        name = Gio.DBusError.get_remote_error(error)
        Gio.DBusError.strip_remote_error(error)
        sys.exit(f"{name}: {error.message}")
