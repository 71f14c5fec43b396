import { toErrorReply } from "../../src/assistant/bus/error-reply.ts";
import { BusCallError } from "../../src/dbus/port.ts";
import { FakeBus } from "./fake-bus.ts";
import { type BusAnswer, FakeCompanion } from "./fake-companion.ts";

/**
 * Returns the methods of all objects on a bus without a connection, in the form in which a client of the session bus
 * calls them.
 */
export function servedMethods(
  bus: FakeBus,
  connection = ":1.7",
): Readonly<Record<string, BusAnswer>> {
  const methods: Record<string, BusAnswer> = {};
  for (const [path, served] of bus.served) {
    for (const member of Object.keys(served.methods)) {
      methods[member] = async (...args) => {
        try {
          return await bus.call(connection, path, member, ...args);
        } catch (error) {
          const { busName, text } = toErrorReply(error);
          throw new BusCallError(busName, text);
        }
      };
    }
  }
  return methods;
}

/** Returns a session bus with a companion whose real objects `serve` exports. */
export function serveCompanion(serve: (bus: FakeBus) => void): FakeCompanion {
  const bus = new FakeBus();
  serve(bus);
  const companion = new FakeCompanion(servedMethods(bus));
  bus.onSignal = ({ name, args }) => companion.emit(name, ...args);
  return companion;
}
