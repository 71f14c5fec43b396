import dbus from "dbus-next";
import { readInterfaces } from "../../src/assistant/bus/read-interfaces.ts";
import { BusCallError, type BusValue, type BusVariant } from "../../src/dbus/port.ts";
import type { BusAnswer } from "./fake-companion.ts";
import type { Emit } from "./scripted-overlay.ts";

/** The answers to some methods of an interface, and a function that emits its signals. */
export interface ScriptedInterface {
  readonly interface: string;
  readonly name: string;
  readonly scripted: { readonly methods: Readonly<Record<string, BusAnswer>>; emit: Emit };
}

/**
 * Exports scripted interfaces on a real bus as the XML files define them, with another D-Bus library than the one
 * under test.
 */
export async function serveInterfaces(
  busAddress: string,
  served: readonly ScriptedInterface[],
): Promise<AsyncDisposable> {
  const descriptions = readInterfaces();
  const bus = dbus.sessionBus({ busAddress });
  bus.addMethodHandler((message: dbus.Message) => {
    const found = served.find((one) => one.interface === message.interface);
    const method = descriptions.get(found?.interface ?? "")?.methods.get(message.member ?? "");
    if (found === undefined || method === undefined) return false;
    void answer(found.scripted.methods, message, method).then((reply) => bus.send(reply));
    return true;
  });
  for (const { interface: name, scripted } of served) {
    const signals = descriptions.get(name)?.signals;
    scripted.emit = (member, signature, args) => {
      if (signals?.get(member) !== signature) throw new Error(`${name} has no ${member} like that`);
      bus.send(
        dbus.Message.newSignal(`/${name.replaceAll(".", "/")}`, name, member, signature, [...args]),
      );
    };
  }
  for (const { name } of served) await bus.requestName(name, 0);
  return {
    [Symbol.asyncDispose]: async () => bus.disconnect(),
  };
}

async function answer(
  methods: Readonly<Record<string, BusAnswer>>,
  message: dbus.Message,
  { inSignature, outSignature }: { readonly inSignature: string; readonly outSignature: string },
): Promise<dbus.Message> {
  const member = message.member ?? "";
  const refused = (errorName: string, text: string) => {
    const reply = dbus.Message.newMethodReturn(message, "s", [text]);
    return Object.assign(reply, { type: dbus.MessageType.ERROR, errorName });
  };
  const method = methods[member];
  if (method === undefined) return refused("org.freedesktop.DBus.Error.UnknownMethod", member);
  if (message.signature !== inSignature)
    return refused("org.freedesktop.DBus.Error.InvalidArgs", `${member} takes ${inSignature}`);
  try {
    const values = await method(...message.body.map((value: unknown) => fromLibrary(value)));
    return dbus.Message.newMethodReturn(message, outSignature, values.map(toLibrary));
  } catch (error) {
    if (!(error instanceof BusCallError)) throw error;
    return refused(error.busName, error.message);
  }
}

/** dbus-next represents dictionaries as objects; all dictionaries here have the type `a{sv}`. */
function fromLibrary(value: unknown): BusValue {
  if (
    typeof value === "string" ||
    typeof value === "boolean" ||
    typeof value === "bigint" ||
    typeof value === "number"
  )
    return value;
  if (typeof value !== "object" || value === null)
    throw new TypeError("a value of a type that no signature here has");
  const entries = Object.entries(value).map(([name, variant]: [string, unknown]) => {
    if (!(variant instanceof dbus.Variant)) throw new TypeError("not an a{sv}");
    const { signature, value: inside } = variant;
    return [name, { signature, value: inside }] satisfies [string, BusVariant];
  });
  return new Map(entries);
}

function toLibrary(value: BusValue): unknown {
  if (!(value instanceof Map)) return value;
  const entries: [string, BusVariant][] = [...value];
  return Object.fromEntries(
    entries.map(([name, { signature, value: inside }]) => [
      name,
      new dbus.Variant(signature, inside),
    ]),
  );
}
