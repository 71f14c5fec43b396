import { BerthError, isAbort } from "../../base/errors.ts";
import type { AgentClient } from "../../client/bus/agent-client.ts";
import type { ContextClient } from "../../client/bus/context-client.ts";
import type { OverlayClient } from "../../client/bus/overlay-client.ts";
import type { RemoteClient } from "../../client/bus/remote-client.ts";
import { BusCallError, type SessionBus } from "../../dbus/port.ts";
import type { Cli } from "../cli.ts";
import { exitCodes, UsageError } from "../failure.ts";

/** The companion of this user, over the session bus. Nobody has been asked yet whether it runs. */
export interface Companion {
  readonly bus: SessionBus;
  readonly agent: AgentClient;
  readonly context: ContextClient;
  readonly remote: RemoteClient;
  readonly overlay: OverlayClient;
}

interface ConnectOptions {
  /** File descriptors are to be sent over the bus. */
  readonly canPassFds?: boolean;
}

/**
 * Works with the companion, and leaves the bus again. Ctrl-C aborts the signal and ends the verb with 130;
 * what was asked of the companion may be done all the same, and `whenLeft` says so.
 */
export async function withCompanion(
  cli: Cli,
  work: (companion: Companion, signal: AbortSignal) => Promise<void>,
  whenLeft = "interrupted",
  options: ConnectOptions = {},
): Promise<void> {
  if (cli.globals.url !== undefined)
    throw new UsageError(
      "this verb talks to your own companion over the session bus; --url names a server elsewhere",
      "leave --url out",
    );
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  try {
    const companion = await connectCompanion(cli, leaving.signal, options);
    await using _ = companion.bus;
    await work(companion, leaving.signal);
  } catch (error) {
    if (!leaving.signal.aborted || !isAbort(error)) throw error;
    cli.note(whenLeft);
    cli.exitCode = exitCodes.interrupted;
  } finally {
    stay();
  }
}

/**
 * Rejects with `assistant_unreachable` where there is no session bus, and with `not_implemented` where descriptors
 * are wanted and cannot be passed. Whoever gets it closes `bus`.
 */
export async function connectCompanion(
  cli: Cli,
  signal: AbortSignal,
  { canPassFds = false }: ConnectOptions = {},
): Promise<Companion> {
  const { sessionBusAddress } = await import("../../dbus/address.ts");
  const { noSessionBus, reasonOf } = await import("../../client/bus/no-bus.ts");
  const { AgentClient } = await import("../../client/bus/agent-client.ts");
  const { ContextClient } = await import("../../client/bus/context-client.ts");
  const { OverlayClient } = await import("../../client/bus/overlay-client.ts");
  const { RemoteClient } = await import("../../client/bus/remote-client.ts");
  const { environment } = cli.io;
  const address = sessionBusAddress(environment);
  if (address === undefined)
    throw noSessionBus("neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set");
  let bus: SessionBus;
  try {
    bus = await cli.io.openSessionBus(address, signal, canPassFds);
  } catch (error) {
    if (signal.aborted || error instanceof BerthError) throw error;
    if (error instanceof BusCallError && error.busName.endsWith(".NotSupported"))
      throw new BerthError("not_implemented", error.message, { cause: error });
    const isNamed = Boolean(environment["DBUS_SESSION_BUS_ADDRESS"]);
    throw noSessionBus(reasonOf(error, isNamed), error);
  }
  return {
    bus,
    agent: new AgentClient(bus),
    context: new ContextClient(bus),
    remote: new RemoteClient(bus),
    overlay: new OverlayClient(bus),
  };
}
