import dbus from "dbus-next";
import { BusCallError, type BusValue, type BusVariant } from "../../src/base/session-bus/port.ts";
import type { ScriptedAgent } from "./scripted-agent.ts";

const AGENT = "dev.assistant.Agent1";
const CONTEXT = "dev.assistant.Context1";

/** Of the out arguments; every other method answers with one string. */
const signatures: Readonly<Record<string, string>> = {
  RequestCall: "tss",
  Confirm: "ss",
  ApproveTool: "",
  RegisterConfirmer: "",
  MemorySet: "",
  MemoryWipe: "",
};

/** Puts a scripted agent on a real bus, by another library than the one under test. */
export async function serveScripted(
  agent: ScriptedAgent,
  busAddress: string,
): Promise<AsyncDisposable> {
  const bus = dbus.sessionBus({ busAddress });
  bus.addMethodHandler((message: dbus.Message) => {
    if (message.interface !== AGENT && message.interface !== CONTEXT) return false;
    void answer(agent, message).then((reply) => bus.send(reply));
    return true;
  });
  agent.emit = (member, signature, args) => {
    bus.send(
      dbus.Message.newSignal(`/${AGENT.replaceAll(".", "/")}`, AGENT, member, signature, [...args]),
    );
  };
  await bus.requestName(AGENT, 0);
  await bus.requestName(CONTEXT, 0);
  return {
    [Symbol.asyncDispose]: async () => bus.disconnect(),
  };
}

async function answer(agent: ScriptedAgent, message: dbus.Message): Promise<dbus.Message> {
  const member = message.member ?? "";
  const refused = (errorName: string, text: string) => {
    const reply = dbus.Message.newMethodReturn(message, "s", [text]);
    return Object.assign(reply, { type: dbus.MessageType.ERROR, errorName });
  };
  const method = agent.methods[member];
  if (method === undefined) return refused("org.freedesktop.DBus.Error.UnknownMethod", member);
  try {
    const values = await method(...message.body.map((value: unknown) => fromLibrary(value)));
    return dbus.Message.newMethodReturn(message, signatures[member] ?? "s", [...values]);
  } catch (error) {
    if (!(error instanceof BusCallError)) throw error;
    return refused(error.busName, error.message);
  }
}

/** dbus-next has dictionaries as objects; all here are `a{sv}`. */
function fromLibrary(value: unknown): BusValue {
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "bigint")
    return value;
  if (typeof value !== "object" || value === null) throw new TypeError("not in any signature here");
  const entries = Object.entries(value).map(([name, variant]: [string, unknown]) => {
    if (!(variant instanceof dbus.Variant)) throw new TypeError("not an a{sv}");
    const { signature, value: inside } = variant;
    return [name, { signature, value: inside }] satisfies [string, BusVariant];
  });
  return new Map(entries);
}
