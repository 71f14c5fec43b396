import type { BusValue } from "../../src/dbus/port.ts";
import { BusCallError } from "../../src/dbus/port.ts";
import { FakeCompanion } from "../support/fake-companion.ts";
import { type SessionBusHarness, sessionBusContract } from "./session-bus-contract.ts";

sessionBusContract("a fake companion", async (): Promise<SessionBusHarness> => {
  const answers: SessionBusHarness["answers"] = { ClearKey: async () => [] };
  const companion = new FakeCompanion(answers);
  return {
    connect: companion.open,
    answers,
    emitLogin: (...args: readonly BusValue[]) => companion.emit("LoginCompleted", ...args),
    notFound: new BusCallError("dev.assistant.Error.NotFound", "there is no such provider"),
    [Symbol.asyncDispose]: async () => {},
  };
});
