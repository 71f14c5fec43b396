import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { BusMethod } from "../../src/assistant/bus/port.ts";
import { readInterfaces } from "../../src/assistant/bus/read-interfaces.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { type SessionBusHarness, sessionBusContract } from "../contract/session-bus-contract.ts";
import { BusHarness } from "../support/bus-harness.ts";

const REMOTE = "dev.assistant.Remote1";
const path = "/dev/assistant/Remote1";

sessionBusContract("a connection to dbus-daemon", async (): Promise<SessionBusHarness> => {
  const harness = await BusHarness.start();
  const answers: SessionBusHarness["answers"] = {};
  const names = [...(readInterfaces().get(REMOTE)?.methods.keys() ?? [])];
  const methods = Object.fromEntries(
    names.map((name): [string, BusMethod] => [name, ({ args }) => answers[name]?.(...args) ?? []]),
  );
  harness.daemon.serve(path, { name: REMOTE, methods, properties: { Version: () => 1 } });
  await harness.daemon.requestName(REMOTE);
  return {
    connect: () => connectSessionBus({ address: harness.bus.address, negotiateFds: false }),
    answers,
    emitLogin: (...args) =>
      harness.daemon.emit({ path, interface: REMOTE, name: "LoginCompleted", args }, undefined),
    notFound: new AssistantError("not_found", "there is no such provider"),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
});
