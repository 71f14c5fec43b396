import { toErrorReply } from "../../src/assistant/bus/error-reply.ts";
import { BusCallError } from "../../src/dbus/port.ts";
import { FakeBus } from "./fake-bus.ts";
import { type BusAnswer, FakeCompanion } from "./fake-companion.ts";

/** Returns a fake companion whose methods are served by the assistant's own bus objects, which `serve` exports. */
export function serveCompanion(serve: (bus: FakeBus) => void): FakeCompanion {
  const bus = new FakeBus();
  serve(bus);
  const companion = new FakeCompanion(servedMethods(bus));
  bus.onSignal = ({ name, args }) => companion.emit(name, ...args);
  return companion;
}

/**
 * Returns the methods of all objects of the bus. A method fails with the error that a client of a real bus would
 * receive.
 */
function servedMethods(bus: FakeBus): Readonly<Record<string, BusAnswer>> {
  const methods: Record<string, BusAnswer> = {};
  for (const [path, served] of bus.served) {
    for (const member of Object.keys(served.methods)) {
      methods[member] = async (...args) => {
        try {
          return await bus.call(":1.7", path, member, ...args);
        } catch (error) {
          const { busName, text } = toErrorReply(error);
          throw new BusCallError(busName, text);
        }
      };
    }
  }
  return methods;
}
